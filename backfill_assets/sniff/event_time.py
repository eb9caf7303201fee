"""Event time: which column, or which columns together, tell when something happened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.sniff.columns import Raw, Typed, as_epoch, as_year
from backfill_assets.sniff.dialect import is_time_of_day
from backfill_assets.sniff.keys import time_rank
from backfill_assets.sniff.times import time_form

_YEAR = re.compile(r"^(year|yr|yyyy|jahr|jaar)$", re.IGNORECASE)
_MONTH = re.compile(r"^(month|mon|mm|mo|period|monat|maand)$", re.IGNORECASE)
_DAY = re.compile(r"^(day|dd|dy|tag|dag)$", re.IGNORECASE)
_LEAST_COVERED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """A column that could be the event time.

    Attributes:
        column: The column; of several ones, joined.
        parts: The columns that were joined.
    """

    column: Typed
    parts: tuple[Raw, ...] = ()


def event_times(columns: Sequence[Typed]) -> list[EventTime]:
    """What could be the event time, the likeliest first."""
    ranked = sorted(enumerate(_candidates(columns)), key=lambda each: (*each[1][0], each[0]))
    return [found for _, (_, found) in ranked]


def _candidates(columns: Sequence[Typed]) -> Iterator[tuple[tuple[int, int, int], EventTime]]:
    for column in columns:
        if column.kind in ("DATE", "TIMESTAMP"):
            yield (_covered(column), 0, time_rank(column.raw.title) + 1), EventTime(column=column)
    clocks = [column.raw for column in columns if is_time_of_day(column.raw.values)]
    for day in columns:
        for clock in clocks:
            if day.kind == "DATE" and (found := joined((day.raw, clock))) is not None and found.kind == "TIMESTAMP":
                rank = time_rank(day.raw.title)
                yield (_covered(found), 0, rank), EventTime(column=found, parts=(day.raw, clock))
    yield from _of_parts(columns)
    for column in columns:
        if column.kind == "LONG" and (epoch := as_epoch(column.raw)) is not None:
            yield (_covered(epoch), 3, 0), EventTime(column=epoch)
        if (year := as_year(column.raw)) is not None:
            yield (_covered(year), 2, time_rank(column.raw.title)), EventTime(column=year)


def _of_parts(columns: Sequence[Typed]) -> Iterator[tuple[tuple[int, int, int], EventTime]]:
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
            yield (_covered(found), 1, len(raws) == 2), EventTime(column=found, parts=raws)


def _covered(column: Typed) -> int:
    """Whether most records have no value."""
    return int(column.fitting < _LEAST_COVERED * len(column.raw.texts))


def joined(raws: Sequence[Raw]) -> Typed | None:
    """Columns joined by blanks, as a time; None where they are none."""
    texts = [
        None if any(text is None for text in row) else " ".join(map(str, row))
        for row in zip(*(raw.texts for raw in raws), strict=True)
    ]
    written = tuple(raw.written for raw in raws)
    if any(isinstance(each, tuple) for each in written):
        return None
    raw = Raw(written=written, texts=texts)  # type: ignore[arg-type]
    form = time_form(raw.values, numbers=True)
    if form is None:
        return None
    return Typed(raw=raw, kind="DATE" if form.is_date else "TIMESTAMP", form=form, fitting=form.fitting)
