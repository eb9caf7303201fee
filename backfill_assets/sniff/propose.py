"""Propose: brings together what a sample of one or several files tells, as the declaration of a source table and what
is not sure of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import compress, pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from backfill_assets.domain.source_files import Csv, Dialect, FileName, Json, parts_of
from backfill_assets.sniff.columns import Column, Raw, Typed, is_id, is_order, is_series, keys_of, plausible, typed
from backfill_assets.sniff.event_time import EventTime, event_times
from backfill_assets.sniff.look import Seen, look
from backfill_assets.sniff.proposal import (
    RESERVED,
    Doubt,
    DoubtKind,
    Proposal,
    ProposedColumn,
    contract_name,
    leaves,
    table_name,
)
from backfill_assets.sniff.texts import MONEY, Numbers, kind_of_numbers, time_form

# Repeated: an hour that a file has twice, as clocks showed it, and the key of which its times are a part.

_ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Europe/London",
    "Europe/Helsinki",
    "Australia/Sydney",
    "Pacific/Auckland",
)
"""One of each rule by which clocks go back."""


def key_of_clocks(
    columns: Sequence[Column], event_time: str, times: Sequence[datetime]
) -> tuple[tuple[str, ...], str, datetime] | None:
    """The key of records of which one hour is there twice, a zone whose clocks show it so, and its first time.

    Args:
        times: The event time of each record, without an offset.

    Returns:
        None where records have no such key, or other times are there twice.
    """
    for zone in _ZONES:
        is_shown = [_is_shown_twice(at, ZoneInfo(zone)) for at in times]
        if not any(is_shown):
            continue
        is_other = [not each for each in is_shown]
        others = [Column(name=c.name, kind=c.kind, values=list(compress(c.values, is_other))) for c in columns]
        for key in keys_of(others, event_time, is_series=is_series(list(compress(times, is_other)))):
            chosen = [each for each in columns if each.name in key]
            if sum(each.kind == "TIMESTAMP" for each in chosen) != 1 or event_time not in key:
                continue
            rows = list(zip(*(each.values for each in chosen), strict=True))
            counts = Counter(rows)
            if all(counts[row] == 1 + shown for row, shown in zip(rows, is_shown, strict=True)):
                return key, zone, min(compress(times, is_shown))
    return None


def _is_shown_twice(at: datetime, zone: ZoneInfo) -> bool:
    """True if clocks that go back show a time twice."""
    first, second = (at.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


# Releases: files of one kind, some of which have another header: as one file, and what each header calls the
# columns.
#
# Columns are the same where their names are, but for signs, blanks and upper case: `Last Update` is
# `Last_Update`.

_QUOTED = 5
_SPELLING = ("decimal", "thousands", "escape", "comment", "trim")
"""The doubts that a file leaves which has none of it."""


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


# Propose: brings together what a sample tells, as the declaration of a source table and what is not sure of it.

_PLAUSIBLE_GAP_DAYS = 31
_FIRST_YEAR = 1999


def propose(paths: Sequence[Path], *, name: str = "", as_of: datetime) -> Proposal:
    """The source table that files could land in, of which the last one has the columns.

    Args:
        paths: Files of the same kind, the newest last.
        name: The table; by default it is called like the last file, in bronze.
        as_of: The present: times after it are planned.

    Raises:
        UnreadableFile: A file is none of which records could be read.
    """
    seen = [look(path, as_of=as_of) for path in paths]
    table = name or f"bronze.{table_name(paths[-1].name)}"
    found = _proposal(as_one(seen), table, as_of=as_of)
    return with_releases(replace(found, looked=tuple(each.looked for each in seen)), seen)


def _proposal(seen: Seen, table: str, *, as_of: datetime) -> Proposal:
    columns = [plausible(typed(raw, seen.numbers), as_of) for raw in seen.columns]
    times = event_times(columns, as_of=as_of)
    chosen = times[0] if times else None
    rejects = () if chosen is None else tuple(_rejected(chosen.column))
    clocks = () if chosen is None else tuple(_clocks(chosen, times))
    if chosen is not None and rejects:
        columns = [plausible(typed(_with_time(raw, chosen.column), seen.numbers), as_of) for raw in seen.columns]
        times = event_times(columns, as_of=as_of)
        written = chosen.column.raw.written
        chosen = next((each for each in times if each.column.raw.written == written), chosen)
        times = [chosen, *(each for each in times if each is not chosen)]
    kept = [_without_year(column, chosen) for column in columns if chosen is None or column.raw not in chosen.parts]
    if chosen is not None and chosen.parts:
        place = next(place for place, column in enumerate(columns) if column.raw is chosen.parts[0])
        kept.insert(sum(column.raw not in chosen.parts for column in columns[:place]), chosen.column)
    taken: set[str] = set()
    called: list[FileName] = [column.raw.called or column.raw.written for column in kept]
    names = [contract_name(each, taken) for each in (leaves(called) if isinstance(seen.reads, Json) else called)]
    proposed = tuple(
        ProposedColumn(
            name=name,
            written=column.raw.written,
            kind=column.kind,
            forms=column.forms,
            is_local=column.is_local and column.kind == "TIMESTAMP",
            values=len(column.raw.values),
            nulls=len(column.raw.texts) - len(column.raw.values),
            fitting=column.fitting,
            example=next((text for text in column.raw.texts if text is not None), ""),
        )
        for name, column in zip(names, kept, strict=True)
    )
    by_written = {str(column.raw.written): name for name, column in zip(names, kept, strict=True)}
    found = Proposal(
        name=table,
        looked=(seen.looked,),
        reads=seen.reads,
        columns=proposed,
        left_out=seen.left_out,
        key=(),
        event_time="",
        doubts=tuple(replace(each, column=by_written.get(each.column, each.column)) for each in seen.doubts),
    )
    of_columns = tuple(_doubts_of_columns(names, kept, seen.numbers, chosen))
    if chosen is None:
        return replace(found, doubts=(*_why_no_time(seen), *found.doubts, *of_columns))
    by_raw = {id(column.raw): name for name, column in zip(names, kept, strict=True)}
    event_time = by_raw[id(chosen.column.raw)]
    found = _with_times(found, chosen.column, event_time, as_of=as_of)
    found = _with_key(found, names, kept, event_time, chosen.column)
    if found.has_row_number:
        found = _without_filled(found)
    rejects = tuple(replace(each, column=event_time) for each in rejects)
    clocks = tuple(replace(each, column=event_time) for each in clocks)
    return replace(
        found,
        event_times=tuple(by_raw[id(each.column.raw)] for each in times[1:] if id(each.column.raw) in by_raw),
        orders=tuple(name for name in names if is_order(name) and name != event_time),
        doubts=(*rejects, *clocks, *_doubts_of_time(found, chosen, event_time), *found.doubts, *of_columns),
    )


def _with_time(raw: Raw, time: Typed) -> Raw:
    """A column of the records that have an event time, because the others are rejected."""
    return replace(raw, texts=[text for text, at in zip(raw.texts, time.times(), strict=True) if at is not None])


def _rejected(time: Typed) -> Iterator[Doubt]:
    """The records without an event time: how many have none, and how many have another text."""
    without = [(number, time.raw.texts[number - 1]) for number, at in enumerate(time.times(), 1) if at is None]
    if without:
        texts = tuple(dict.fromkeys(text for _, text in without if text is not None))
        yield Doubt(
            kind=DoubtKind.NOT_A_VALUE, values=texts[:_QUOTED], records=len(without), first=without[0][0], rejects=True
        )


def _clocks(chosen: EventTime, times: Sequence[EventTime]) -> Iterator[Doubt]:
    """The times of a day that a date was not joined with, as many records have none."""
    for each in times:
        if len(each.parts) > 1 and each.parts[0] is chosen.column.raw and not chosen.parts:
            lacking = chosen.column.fitting - each.column.fitting
            yield Doubt(kind=DoubtKind.CLOCK, values=tuple(part.title for part in each.parts[1:]), records=lacking)


def _why_no_time(seen: Seen) -> Iterator[Doubt]:
    """The reason why no column has times, where the file tells it."""
    titles = [raw.title for raw in seen.columns]
    is_json = seen.looked.format.startswith("JSON")
    parts = dict.fromkeys(part for title in titles for part in (title.split(".") if is_json else [title]) if part)
    dates = [part for part in parts if time_form([part], numbers=True, years=True) is not None]
    lists = [title for title, raw in zip(titles, seen.columns, strict=True) if raw.values and raw.values[0][:1] == "["]
    if not seen.looked.records:
        yield Doubt(kind=DoubtKind.NO_RECORD)
    elif len(dates) > 2:
        yield Doubt(kind=DoubtKind.DATES_AS_NAMES, values=tuple(dates[:_QUOTED]), records=len(dates))
    elif len(seen.columns) == 1 and seen.looked.format == "CSV":
        yield Doubt(kind=DoubtKind.ONE_COLUMN, values=tuple(seen.columns[0].values[:1]))
    elif lists and is_json:
        yield Doubt(kind=DoubtKind.LISTS, values=tuple(lists[:_QUOTED]))
    else:
        yield Doubt(kind=DoubtKind.NO_EVENT_TIME)


def _without_filled(found: Proposal) -> Proposal:
    """A proposal without the columns of the file that have the names of those which landing fills."""
    filled = tuple(each.name for each in found.columns if each.written in RESERVED)
    taken = {*RESERVED, *(each.name.casefold() for each in found.columns)}
    columns = tuple(
        replace(each, name=contract_name(each.name, taken)) if each.name.casefold() in RESERVED else each
        for each in found.columns
        if each.name not in filled
    )
    return replace(found, columns=columns, left_out=(*found.left_out, *filled))


def _without_year(column: Typed, chosen: EventTime | None) -> Typed:
    """A column of the contract: the event time is as it was found, others by their own texts."""
    return chosen.column if chosen is not None and column.raw is chosen.column.raw else column


def _with_times(found: Proposal, column: Typed, event_time: str, *, as_of: datetime) -> Proposal:
    times = [at for at in column.times() if at is not None]
    if not times:
        return replace(found, event_time=event_time)
    days = sorted({at.date() for at in times})
    gap = max(((after - before).days - 1 for before, after in pairwise(days)), default=0)
    is_planned = max(times) > as_of.replace(tzinfo=None) + timedelta(days=1)
    return replace(
        found,
        event_time=event_time,
        is_planned=is_planned,
        first_on=days[0],
        last_on=days[-1],
        longest_gap_days=gap,
    )


def _with_key(found: Proposal, names: Sequence[str], kept: Sequence[Typed], event_time: str, time: Typed) -> Proposal:
    times = [at for at in time.times() if at is not None]
    of_records = [
        Column(name=name, kind=column.kind, values=column.raw.texts) for name, column in zip(names, kept, strict=True)
    ]
    keys = keys_of(of_records, event_time, is_series=is_series(times))
    doubts: tuple[Doubt, ...] = found.doubts
    if not keys and time.is_local and len(times) == found.records:
        clocks = key_of_clocks(of_records, event_time, times)
        if clocks is not None:
            key, zone, at = clocks
            said = Doubt(kind=DoubtKind.REPEATED_HOUR, column=event_time, values=(str(at), zone))
            return replace(found, key=key, timezone=zone, repeated_hour="both", doubts=(said, *doubts))
    if not keys:
        doubts = (Doubt(kind=DoubtKind.NO_KEY), *doubts)
    elif not found.is_whole or found.records < 1_000:
        named = [name for name in keys[0] if name == event_time or is_id(name)]
        kind = DoubtKind.KEY_OF_SAMPLE if len(named) == len(keys[0]) else DoubtKind.KEY_BY_VALUES
        doubts = (Doubt(kind=kind, values=keys[0], records=len(times)), *doubts)
    return replace(found, key=keys[0] if keys else (), keys=tuple(keys[1:]), has_row_number=not keys, doubts=doubts)


def _doubts_of_time(found: Proposal, chosen: EventTime, event_time: str) -> Iterator[Doubt]:
    column = chosen.column
    form = column.form
    if found.has_local_times and not found.repeated_hour:
        local = tuple(each.name for each in found.columns if each.is_local)
        yield Doubt(kind=DoubtKind.ZONE, column=event_time, values=local[:_QUOTED])
    yield from _several_forms(event_time, column)
    if form is not None and any("yy" in each and "yyyy" not in each for each in form.patterns):
        yield Doubt(kind=DoubtKind.TWO_DIGIT_YEAR, column=event_time, values=form.patterns)
    if column.unit is not None:
        yield Doubt(kind=DoubtKind.EPOCH, column=event_time, values=(column.unit, *column.raw.values[:1]))
    early = sum(at is not None and at.year < _FIRST_YEAR for at in column.times())
    if early:
        yield Doubt(
            kind=DoubtKind.FIRST_DAY, column=event_time, values=(str(found.first_on),), records=early, rejects=True
        )
    if found.is_planned:
        yield Doubt(kind=DoubtKind.FUTURE, column=event_time, values=(str(found.last_on),))
    if found.longest_gap_days > _PLAUSIBLE_GAP_DAYS:
        yield Doubt(kind=DoubtKind.GAPS, column=event_time, records=found.longest_gap_days)


def _several_forms(name: str, column: Typed) -> Iterator[Doubt]:
    if column.form is not None and column.form.others:
        forms = (*column.form.patterns[:1], *column.form.others[:2])
        yield Doubt(kind=DoubtKind.DAY_OR_MONTH, column=name, values=forms)


def _doubts_of_columns(
    names: Sequence[str], kept: Sequence[Typed], how: Numbers, chosen: EventTime | None
) -> Iterator[Doubt]:
    for name, column in zip(names, kept, strict=True):
        values = column.raw.values
        if chosen is None or column.raw is not chosen.column.raw:
            yield from _several_forms(name, column)
        if not values:
            yield Doubt(kind=DoubtKind.NO_VALUE, column=name)
        elif column.kind == "STRING" and not column.raw.kind:
            if all(MONEY.fullmatch(text) for text in values):
                yield Doubt(kind=DoubtKind.MONEY, column=name, values=tuple(values[:2]))
            elif not column.raw.is_text:
                yield from _mixed(name, values, how)


def _mixed(name: str, values: Sequence[str], how: Numbers) -> Iterator[Doubt]:
    """Texts among numbers or times, which keep the column from being a number or a time."""
    kind, fitting = kind_of_numbers(values, how)
    if kind and fitting < len(values):
        others = tuple(dict.fromkeys(text for text in values if how.plain(text) is None))
        yield Doubt(kind=DoubtKind.MIXED, column=name, values=(kind, *others[:_QUOTED]), records=len(values) - fitting)
    elif (form := time_form(values)) is not None and form.fitting < len(values):
        others = tuple(dict.fromkeys(text for text in values if form.read(text) is None))
        kind = "DATE" if form.is_date else "TIMESTAMP"
        yield Doubt(
            kind=DoubtKind.MIXED, column=name, values=(kind, *others[:_QUOTED]), records=len(values) - form.fitting
        )
