"""Event time: which column, or which columns together, tell when something happened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from backfill_assets.sniff.columns import Raw, Typed, as_epoch, as_nearly_time, as_year, plausible, time_rank
from backfill_assets.sniff.dialect import is_time_of_day
from backfill_assets.sniff.texts import time_form

_YEAR = re.compile(r"^(year|yr|yyyy|jahr|jaar)$", re.IGNORECASE)
_MONTH = re.compile(r"^(month|mon|mm|mo|period|monat|maand)$", re.IGNORECASE)
_DAY = re.compile(r"^(day|dd|dy|tag|dag)$", re.IGNORECASE)
_CLOCK = re.compile(r"time", re.IGNORECASE)
_DAY_NAME = re.compile(r"date|day", re.IGNORECASE)
_DIGITS = re.compile(r"([01][0-9]|2[0-3])[0-5][0-9]([0-5][0-9])?")
_LEAST_COVERED = 0.5
_NEARLY_ALL = 0.95
_PLAUSIBLE_DAYS = 730


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """A column that could be the event time."""

    column: Typed  #: The column; of several ones, joined.
    parts: tuple[Raw, ...] = ()  #: The columns that were joined.


def event_times(columns: Sequence[Typed], *, as_of: datetime) -> list[EventTime]:
    """The columns that could be the event time, the likeliest first.

    Args:
        as_of: The present: years of two digits that are far after it are more likely of another century.
    """
    candidates = [(rank, replace(each, column=plausible(each.column, as_of))) for rank, each in _candidates(columns)]
    ranked = sorted(
        enumerate(candidates),
        key=lambda each: (_doubtful(each[1][1].column, as_of=as_of), *each[1][0], each[0]),
    )
    return [found for _, (_, found) in ranked]


def _doubtful(column: Typed, *, as_of: datetime) -> int:
    """True if most records have no value, all records have the same one, or they are in another century."""
    if column.fitting < _LEAST_COVERED * len(column.raw.texts):
        return 3
    if column.form is not None and any("yy" in each and "yyyy" not in each for each in column.form.patterns):
        latest = max((at for at in column.times() if at is not None), default=None)
        if latest is not None and latest > as_of.replace(tzinfo=None) + timedelta(days=_PLAUSIBLE_DAYS):
            return 2
    return int(len(column.raw.texts) > 1 and len(set(column.raw.values)) == 1)


def _candidates(columns: Sequence[Typed]) -> Iterator[tuple[tuple[int, int], EventTime]]:
    for column in columns:
        if column.kind in ("DATE", "TIMESTAMP"):
            yield (0, time_rank(column.raw.title) + 1), EventTime(column=column)
        elif (nearly := as_nearly_time(column)) is not None:
            yield (1, time_rank(column.raw.title)), EventTime(column=nearly)
    for day, clock in _days_and_clocks(columns):
        if (found := joined((day.raw, clock))) is not None and found.kind == "TIMESTAMP":
            # Without a time in many records, the day alone rejects fewer of them.
            is_whole = found.fitting >= _NEARLY_ALL * day.fitting
            yield (
                (0, time_rank(day.raw.title) + (0 if is_whole else 2)),
                EventTime(column=found, parts=(day.raw, clock)),
            )
    yield from _of_parts(columns)
    for column in columns:
        if column.kind == "LONG" and (epoch := as_epoch(column.raw)) is not None:
            yield (4, 0), EventTime(column=epoch)
        if (year := as_year(column.raw)) is not None:
            yield (3, time_rank(column.raw.title)), EventTime(column=year)


def _days_and_clocks(columns: Sequence[Typed]) -> Iterator[tuple[Typed, Raw]]:
    """Columns of days with those of times of a day that could belong to them."""
    days = [column for column in columns if column.kind == "DATE"]
    for column in columns:
        raw = column.raw
        if is_time_of_day(raw.values):
            yield from ((day, raw) for day in days)
        elif _is_clock_in_digits(raw):
            # Others, such as scheduled times, are none of this day for sure.
            yield from ((day, raw) for day in days if _CLOCK.sub("", raw.title) == _DAY_NAME.sub("", day.raw.title))
    for one, other in pairwise(columns):
        if _starts_and_ends(one.raw.values, "[") and _starts_and_ends(other.raw.values, "]"):
            yield one, other.raw


def _is_clock_in_digits(raw: Raw) -> bool:
    """True if texts are times of a day such as 0930, and not midnight alone."""
    values = raw.values
    return (
        bool(values)
        and _CLOCK.search(raw.title) is not None
        and set(map(len, values)) in ({4}, {6})
        and (all(map(_DIGITS.fullmatch, values)) and any(text.strip("0") for text in values))
    )


def _starts_and_ends(values: Sequence[str], mark: str) -> bool:
    return bool(values) and all(text[:: -1 if mark == "]" else 1].startswith(mark) for text in values)


def _of_parts(columns: Sequence[Typed]) -> Iterator[tuple[tuple[int, int], EventTime]]:
    """Years with months, and with days, in columns of their own."""
    year, month, day = (
        next((column.raw for column in columns if name.search(column.raw.title)), None)
        for name in (_YEAR, _MONTH, _DAY)
    )
    if year is None or month is None:
        return
    for parts in ((year, month, day), (year, month)):
        raws = tuple(each for each in parts if each is not None)
        if len(raws) == len(parts) and (found := joined(raws)) is not None and found.kind == "DATE":
            yield (2, len(raws) == 2), EventTime(column=found, parts=raws)


def joined(raws: Sequence[Raw]) -> Typed | None:
    """Columns joined by blanks, as a time; None where they are none."""
    texts = [
        None if any(text is None for text in row) else " ".join(map(str, row))
        for row in zip(*(raw.texts for raw in raws), strict=True)
    ]
    written = tuple(raw.written for raw in raws)
    if any(isinstance(each, tuple) for each in written):
        return None
    called = "_".join(raw.called for raw in raws).lower() if all(raw.called for raw in raws) else ""
    raw = Raw(written=written, texts=texts, called=called)  # type: ignore[arg-type]
    form = time_form(raw.values, numbers=True)
    if form is None:
        return None
    return Typed(raw=raw, kind="DATE" if form.is_date else "TIMESTAMP", form=form, fitting=form.fitting)
