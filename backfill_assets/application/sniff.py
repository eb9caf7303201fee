"""Sniff: proposes the declaration of a source table from files, or from the address of a stream."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backfill_assets.capture.declared import unnamed_secrets
from backfill_assets.capture.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.capture.families import families
from backfill_assets.capture.files.fetched_files import ADDRESS, Address
from backfill_assets.core.clock import Clock
from backfill_assets.domain.declarations import TABLE_NAME
from backfill_assets.report.errors import Malformed
from backfill_assets.sniff.addresses import Reached, Sniffs
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Proposal, table_name
from backfill_assets.sniff.propose import propose

_MOST_FILES = 100
_LEAST_LETTERS = 3


def sniffed(given: Sequence[str | Path], name: str = "", *, clock: Clock, reached: Reached | None = None) -> Proposal:
    """The source table in which files land, or what is captured from a table of others, an API or a topic, lands.

    Args:
        given: Paths or addresses of files of the same kind, the newest last, or their folder; or one folder with a
            Delta or an Iceberg table, one document of OpenAPI, or the address of an API or of a topic
            (`kafka://HOST:PORT/TOPIC`).
        name: The table, such as bronze.weather; by default it is called like the file, or what names of files have in
            common.
        reached: How an API or a topic is reached.

    Raises:
        Refused: The name is none of a table.
        MissingInput: There is no such file.
        Retryable: An address does not answer.
        UnreadableFile: A file is none of which records could be read.
    """
    if name and not TABLE_NAME.fullmatch(name):
        raise Malformed(what="the name of the table", value=name[:100], form="LAYER.TABLE", example="bronze.weather")
    texts = [str(each) for each in given]
    reached = reached or Reached(home=Path("data"))
    for mistake in unnamed_secrets(reached.secrets, of="address", such_as="MY_PASSWORD"):
        raise FileRefused(fault=Fault.ADDRESS, why=mistake)
    if len(texts) == 1 and ADDRESS.match(texts[0]) and (found := _captured(texts[0], name, reached, clock)) is not None:
        return found
    with _fetched(texts, reached) as files:
        for file in files:
            if not file.exists():
                raise NoFile(path=str(file), why=f"there is no file {file}")
        if len(files) == 1 and (found := _captured(files[0], name, reached, clock)) is not None:
            return found
        return _of_files(files, name, clock=clock)


def _sniffing() -> list[Sniffs]:
    """The families that can be asked what something is."""
    return [each.module("sniff") for each in families() if each.sniffs]


def _captured(given: str | Path, name: str, reached: Reached, clock: Clock) -> Proposal | None:
    """The first proposal of a family to capture something instead of landing it as a file."""
    proposed = (each.sniffed(given, name, reached, as_of=clock()) for each in _sniffing())
    return next((each for each in proposed if each is not None), None)


@contextmanager
def _fetched(texts: Sequence[str], reached: Reached) -> Iterator[list[Path]]:
    """Files by their paths, and those by address as copies that are removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        found: list[Path] = []
        for number, text in enumerate(texts):
            if not ADDRESS.match(text):
                found.append(Path(text))
                continue
            address = Address.of(text)
            copy = Path(folder) / str(number) / address.name
            copy.parent.mkdir()
            address.fetch(copy, reached.access)
            found.append(copy)
        yield found


def _of_files(files: Sequence[Path], name: str, *, clock: Clock) -> Proposal:
    among = [file for each in files for file in (_in_folder(each) if each.is_dir() else [each])]
    chosen = among if len(among) <= _MOST_FILES else [*among[:: -(-len(among) // (_MOST_FILES - 1))], among[-1]]
    found = propose(chosen, name=name or _name_of(among, files), as_of=clock())
    if left := len(among) - len(chosen):
        found = replace(found, doubts=(*found.doubts, Doubt(kind=DoubtKind.MORE_FILES, records=left)))
    if len(among) == 1:
        return replace(
            found, doubts=(*found.doubts, *(d for each in _sniffing() for d in each.doubts_of(among[0], found)))
        )
    return found


def _in_folder(folder: Path) -> list[Path]:
    """The files of a folder with the most usual suffix of it, by name, with numbers in their order.

    Raises:
        BadFile: It has no file.
    """
    files = [path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"]
    if not files:
        why = "is a folder without files, and neither a Delta nor an Iceberg table"
        raise BadFile(path=str(folder), fault=Fault.FOLDER, why=why)
    ((suffixes, _),) = Counter(tuple(path.suffixes[-2:]) for path in files).most_common(1)
    return sorted((path for path in files if tuple(path.suffixes[-2:]) == suffixes), key=_by_numbers)


def _by_numbers(path: Path) -> list[tuple[int, str]]:
    return [(int(each), "") if each.isdigit() else (-1, each) for each in re.split(r"(\d+)", path.name) if each]


def _name_of(files: Sequence[Path], given: Sequence[Path]) -> str:
    """The name of the table of several files: what their names begin with, or else their folder's; empty of one."""
    if len(files) < 2:
        return ""
    common = re.sub(r"[\d\W_]+$", "", _beginning([path.name for path in files]))
    if len(common) >= _LEAST_LETTERS and common[:1].isalpha():
        return f"bronze.{table_name(common)}"
    place = given[-1].resolve()
    return f"bronze.{table_name((place if place.is_dir() else place.parent).name)}"


def _beginning(names: Sequence[str]) -> str:
    """The prefix that all names share."""
    first, last = min(names), max(names)
    return first[: next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
