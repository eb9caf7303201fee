"""Releases: files of one kind, some of which have another header: as one file, and what each header calls the columns.

Columns are the same where their names are, but for signs, blanks and upper case: `Last Update` is `Last_Update`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from backfill_assets.domain.dialects import Csv, Dialect
from backfill_assets.domain.file_names import FileName, parts_of
from backfill_assets.sniff.columns import Raw
from backfill_assets.sniff.look import Seen
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Proposal, ProposedColumn
from backfill_assets.sniff.texts import Numbers

_QUOTED = 5
_SPELLING = ("decimal", "thousands", "escape", "comment", "trim")
"""What a file that has none of it leaves open."""


def as_one(seen: Sequence[Seen]) -> Seen:
    """The columns of the last of some files, with the values of all."""
    last = seen[-1]
    if len(seen) == 1:
        return last
    reads = last.reads
    for each in seen[:-1]:
        reads = _both(reads, each.reads)
    numbers, nulls = last.numbers, frozenset[str]()
    if isinstance(reads, Csv):
        numbers, nulls = Numbers(decimal=reads.decimal, thousands=reads.thousands), frozenset(reads.null)
    columns = []
    for raw in last.columns:
        same = [_same(raw, each) for each in seen]
        texts = [
            None if text in nulls else text
            for found, each in zip(same, seen, strict=True)
            for text in (found.texts if found is not None else [None] * _records(each))
        ]
        is_text = any(found.is_text for found in same if found is not None)
        columns.append(replace(raw, texts=texts, is_text=is_text))
    doubts = tuple(dict.fromkeys(doubt for each in reversed(seen) for doubt in each.doubts))
    others = [each for each in seen if _both(each.reads, reads) != reads]
    return replace(
        last,
        reads=reads,
        columns=tuple(columns),
        numbers=numbers,
        doubts=(*(Doubt(kind=DoubtKind.OTHER_DIALECT, values=(each.looked.file,)) for each in others), *doubts),
    )


def _records(seen: Seen) -> int:
    return len(seen.columns[0].texts) if seen.columns else 0


def _both(one: Dialect | None, other: Dialect | None) -> Dialect | None:
    """The dialect of both of two files, where there is one; otherwise the first one."""
    if isinstance(one, Csv | None) and isinstance(other, Csv | None) and (one or other) is not None:
        first, second, usual = one or Csv(), other or Csv(), Csv()
        spelled = {
            name: getattr(first if getattr(first, name) != getattr(usual, name) else second, name) for name in _SPELLING
        }
        texts = {
            name: tuple(dict.fromkeys((*getattr(first, name), *getattr(second, name))))
            for name in ("null", "true", "false")
        }
        return replace(first, **spelled, **texts)  # type: ignore[arg-type]  # of the fields with these names
    return one if one is not None else other


def _same(raw: Raw, seen: Seen) -> Raw | None:
    return next((each for each in seen.columns if _spelled(each.written) == _spelled(raw.written)), None)


def _spelled(name: FileName) -> FileName:
    return re.sub(r"[\W_]+", "", name).casefold() or name if isinstance(name, str) else name


def with_releases(found: Proposal, seen: Sequence[Seen]) -> Proposal:
    """A proposal with the earlier headers of its files, as far as they have to be declared."""
    releases: list[Mapping[FileName, str]] = []
    doubts: list[Doubt] = []
    for each in seen[:-1]:
        names = _names(found, each)
        lost = [str(raw.written) for raw in each.columns if raw.values and _same(raw, seen[-1]) is None]
        if lost and not any(doubt.values[1:] == (*lost[:_QUOTED],) for doubt in doubts):
            doubts.append(Doubt(kind=DoubtKind.LOST_COLUMNS, values=(each.looked.file, *lost[:_QUOTED])))
        if not _is_needed(found, names):
            continue
        lacking = [column for column in _required(found) if column.name not in names.values()]
        if lacking:
            values = (each.looked.file, *(column.name for column in lacking[:_QUOTED]))
            doubts.append(Doubt(kind=DoubtKind.OTHER_COLUMNS, values=values))
        elif names not in releases:
            releases.append(names)
    return replace(found, releases=tuple(releases), doubts=(*doubts, *found.doubts))


def _names(found: Proposal, seen: Seen) -> dict[FileName, str]:
    """The names that a file gives the columns of the contract, as far as it has them."""
    written = {_spelled(raw.written): raw.written for raw in reversed(seen.columns)}
    names: dict[FileName, str] = {}
    for column in found.columns:
        same = [written[spelled] for part in parts_of(column.written) if (spelled := _spelled(part)) in written]
        if len(same) == len(parts_of(column.written)):
            names[same[0] if len(same) == 1 else tuple(same)] = column.name  # type: ignore[arg-type]  # names of columns
    return names


def _is_needed(found: Proposal, names: Mapping[FileName, str]) -> bool:
    """True if a file would be refused as one of the last header, or would lose values of a column."""
    written = {column.name: column.written for column in found.columns}
    lacks_declared = any(name not in names.values() for name in found.names.values())
    return lacks_declared or any(written[name] != each for each, name in names.items()) or not _has(found, names)


def _has(found: Proposal, names: Mapping[FileName, str]) -> bool:
    return all(column.name in names.values() for column in _required(found))


def _required(found: Proposal) -> list[ProposedColumn]:
    """The columns that no record may lack."""
    return [column for column in found.columns if column.name in (*found.key, found.event_time)]
