"""Names: what columns are called in a contract, whose names every reader of a table tells apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from backfill_assets.domain.file_names import FileName

_ALLOWED = re.compile(r"[^\W_][\w-]*")
_WRAPPED = re.compile(r"(?<=.)\.\$\w+$")
"""What MongoDB puts around a value, as in `at.$date`."""

RESERVED = frozenset({"file_name", "row_number"})


def written_names(header: Sequence[str]) -> list[FileName]:
    """The names of columns in files: the name, the n-th of a name that is given twice, or the position of a nameless
    one."""
    counts, seen = Counter(header), Counter[str]()
    found: list[FileName] = []
    for place, name in enumerate(header):
        seen[name] += 1
        if not name:
            found.append(place)
        else:
            found.append(name if counts[name] == 1 else (name, seen[name]))
    return found


def contract_name(written: FileName, taken: set[str]) -> str:
    """A name for a column in the contract, and of the names that are taken it is then one.

    Args:
        taken: The names so far, in lower case; those that are kept for landing may be among them.
    """
    name = _name_of(written)
    if not _ALLOWED.fullmatch(name):
        name = re.sub(r"_+", "_", re.sub(r"\W", "_", name.lower())).strip("_-") or "column"
    unique, number = name, 2
    while unique.casefold() in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique.casefold())
    return unique


def _name_of(written: FileName) -> str:
    match written:
        case str():
            return _WRAPPED.sub("", written)
        case int():
            return f"column_{written}"
        case (str() as name, int() as number):
            return name if number == 1 else f"{name}_{number}"
        case _:
            return "_".join(_name_of(each).lower() for each in written)


def leaves(written: Sequence[FileName]) -> list[FileName]:
    """Paths of members by their last name, where no other member has it; others as they are."""
    counts = Counter(each.rpartition(".")[2] if isinstance(each, str) else each for each in written)
    return [
        leaf if isinstance(each, str) and counts[leaf := each.rpartition(".")[2]] == 1 else each for each in written
    ]


def table_name(file: str) -> str:
    """The name of a table for a file: letters, digits and _ of what its name begins with."""
    stem = re.sub(
        r"(\.(csv|tsv|txt|dat|jsonl?|ndjson|geojson|parquet|xlsx|avro|gz|zip|zst|bz2|xz))+$", "", file.lower()
    )
    name = re.sub(r"[^a-z0-9]+", "_", stem).strip("_")
    return name if name[:1].isalpha() else f"file_{name}".rstrip("_")
