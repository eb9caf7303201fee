"""Partitions: which ones a range of days names, and how a set of them is described.

A partition is identified by the first day it covers: the day itself for daily tables, the first of the month for
monthly ones. Ranges are half-open in code and inclusive in commands and messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from backfill_assets.core.errors import BackfillError, InvalidRange, sentence
from backfill_assets.core.next_steps import Advice, Option, step

ONE_DAY = timedelta(days=1)
_MOST_SHOWN = 4


@sentence
class ReversedRange(InvalidRange):
    """the range is reversed: it starts on {first} and ends on {last}.

    Next: give the earlier day first: [first={last}] [last={first}]
    """

    first: date
    last: date


@sentence
class MalformedDays(InvalidRange):
    """{why}."""

    why: str
    example: str
    option: str | None = None
    is_meant: bool = False

    @property
    def advice(self) -> Advice:
        return step("write it like ", Option(self.option, self.example) if self.option else self.example)


class Grain(StrEnum):
    """The period that a partition covers: a day or a month."""

    DAILY = "daily"
    MONTHLY = "monthly"

    @property
    def noun(self) -> str:
        return "day" if self is Grain.DAILY else "month"


@dataclass(frozen=True, slots=True, order=True)
class DayRange:
    """The days from `start` up to and not including `end`.

    Raises:
        InvalidRange: The end comes before the start.
    """

    start: date
    end: date

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise InvalidRange(f"the range is reversed: {self.start} comes after {self.end - ONE_DAY}.")

    @staticmethod
    def inclusive(first: date, last: date) -> DayRange:
        """The range from the first day to the last, both included."""
        if last < first:
            raise ReversedRange(first=first, last=last)
        return DayRange(first, last + ONE_DAY)

    @property
    def last(self) -> date:
        """The last day in the range; meaningless for an empty one."""
        return self.end - ONE_DAY

    def __iter__(self) -> Iterator[date]:
        day = self.start
        while day < self.end:
            yield day
            day += ONE_DAY

    def __len__(self) -> int:
        return (self.end - self.start).days

    def __contains__(self, day: date) -> bool:
        return self.start <= day < self.end

    def __str__(self) -> str:
        return f"{self.start}..{self.last}" if len(self) else "no days"

    @property
    def ranges(self) -> tuple[DayRange, ...]:
        """Itself, as the ranges of `Ranges`."""
        return (self,)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Several ranges of days, in order and with days between them; see `days_in`."""

    ranges: tuple[DayRange, ...]

    @property
    def start(self) -> date:
        return self.ranges[0].start

    @property
    def end(self) -> date:
        return self.ranges[-1].end

    @property
    def last(self) -> date:
        return self.end - ONE_DAY

    def __iter__(self) -> Iterator[date]:
        return (day for days in self.ranges for day in days)

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __contains__(self, day: date) -> bool:
        return any(day in days for days in self.ranges)

    def __str__(self) -> str:
        more = len(self.ranges) - _MOST_SHOWN
        shown = ", ".join(map(str, self.ranges[:_MOST_SHOWN]))
        return f"{shown} and {count_of(more, 'more range')}" if more > 0 else shown


Days = DayRange | Ranges


def days_in(ranges: Iterable[DayRange]) -> Days:
    """The days of some ranges, in any order: those that overlap or touch are one, and each day counts once."""
    spans = merged(sorted((days.start.toordinal(), days.end.toordinal()) for days in ranges if len(days)))
    found = tuple(DayRange(date.fromordinal(start), date.fromordinal(end)) for start, end in spans)
    return found[0] if len(found) == 1 else Ranges(found)


_DAYS = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_MEANT = re.compile(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?|(\d{4})(\d{2})(\d{2})?")


def days_named(text: str) -> DayRange:
    """The days of a date, a month or a year: `2006-02-03`, `2006-02`, `2006`.

    Raises:
        InvalidRange: It is none of them.
    """
    found = _DAYS.fullmatch(text)
    try:
        return _days_of(found.groups() if found else ())
    except (ValueError, OverflowError):
        why = "is neither a date like 2006-07-01 nor a month like 2006-07 nor a year like 2006"
        why = f"{text[:100]!r} {'is not in the calendar' if found else why}"
        meant = _meant(text)
        raise MalformedDays(why=why, example=meant or "2006-07-01", is_meant=bool(meant)) from None


def _days_of(parts: Sequence[str | None]) -> DayRange:
    """The days of a year, and of its month and its day where they are given. Raises: ValueError, OverflowError."""
    year, month, day, *_ = (*(int(part) if part else None for part in parts), None, None, None)
    first = date(year or 0, month or 1, day or 1)
    last = first if day else next_partition(Grain.MONTHLY, date(first.year, month or 12, 1)) - ONE_DAY
    return DayRange.inclusive(first, last)


def _meant(text: str) -> str | None:
    """The day or the month that a text means which has its parts in order, but not in the form; None for others."""
    found = _MEANT.fullmatch(text.strip())
    try:
        days = _days_of([part for part in found.groups() if part] if found else ())
    except (ValueError, OverflowError):
        return None
    return f"{days.start}" if len(days) == 1 else f"{days.start:%Y-%m}"


_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z| ?UTC|[+-]\d{2}:\d{2})?)?")


def instant_named(text: str) -> datetime:
    """The instant in UTC of a time as pages and JSON have it, or without its seconds; of a day, its beginning.

    Raises:
        InvalidRange: It has another form, or is not in the calendar.
    """
    try:
        named = datetime.fromisoformat(text.removesuffix("UTC").rstrip() if _INSTANT.fullmatch(text) else "")
        return (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        is_of_no_day = bool(_INSTANT.fullmatch(text)) and _is_of_no_day(text)
        why = "is not in the calendar" if is_of_no_day else "is not a time in UTC"
        raise MalformedDays(why=f"{text[:100]!r} {why}", example="2026-03-10T08:00") from None


def _is_of_no_day(text: str) -> bool:
    """True if a text begins with a date that does not exist."""
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return True
    return False


def moment_named(text: str) -> datetime | DayRange:
    """A time, as `instant_named` has it, or the days of a day, month or year, whose end is meant.

    Raises:
        InvalidRange: It has another form, or is not in the calendar.
    """
    return days_named(text) if _DAYS.fullmatch(text) else instant_named(text)


def days_between(text: str) -> DayRange:
    """The days of a range: `2026-01-01..2026-01-03`, `2026-01..2026-03`, or one day, month or year alone.

    Raises:
        InvalidRange: It has another form, lacks one of its ends, or is reversed.
    """
    first, between, last = (part.strip() for part in text.partition(".."))
    if between and not (first and last):
        why = f"the range {text[:100]!r} has no {'last' if first else 'first'} day"
        raise MalformedDays(why=why, example="2006-07-01..2006-07-31")
    start, end = days_named(first), days_named(last or first)
    if end.last < start.start:
        why = f"the range is reversed: {text[:100]!r} starts on {start.start} and ends on {end.last}"
        raise MalformedDays(why=why, example=f"{last}..{first}")
    return DayRange.inclusive(start.start, end.last)


def are_apart(some: Partitions, others: Partitions) -> bool:
    """True if all of some partitions are before or after all of the others, with at least one between them."""
    after = next_partition(some.grain, others.days[-1]) < some.days[0]
    return after or next_partition(some.grain, some.days[-1]) < others.days[0]


def days_listed(text: str) -> tuple[date, ...]:
    """The days of a list: `2026-01-01..2026-01-03,2026-01-07`."""
    found: set[date] = set()
    for part in text.split(","):
        found.update(days_between(part))
    return tuple(sorted(found))


def next_partition(grain: Grain, partition: date) -> date:
    """The partition that follows this one."""
    match grain:
        case Grain.DAILY:
            return partition + ONE_DAY
        case Grain.MONTHLY:
            return (partition.replace(day=28) + timedelta(days=4)).replace(day=1)


def partition_of(grain: Grain, day: date) -> date:
    """The partition that a day falls into."""
    return day if grain is Grain.DAILY else day.replace(day=1)


def days_of(grain: Grain, partition: date) -> DayRange:
    """The days that a partition covers."""
    return DayRange(partition, next_partition(grain, partition))


def partitions_over(grain: Grain, days: Days) -> tuple[date, ...]:
    """Every partition that shares at least one day with the days, in order."""
    spans = [(each.start.toordinal(), each.end.toordinal()) for each in days.ranges if len(each)]
    return partitions_of_spans(grain, spans)


@dataclass(frozen=True, slots=True)
class SnapshotInterval:
    """Stretches of so many days since a first day. A table with snapshots of them has only their last days."""

    since: date
    days: int

    def ends(self, days: Iterable[date]) -> tuple[date, ...]:
        """Those of some days on which a stretch ends."""
        last = self.days - 1
        return tuple(day for day in days if day >= self.since and (day - self.since).days % self.days == last)


def compress(grain: Grain, partitions: Iterable[date]) -> tuple[DayRange, ...]:
    """The fewest ranges of consecutive partitions that cover exactly these partitions, as ranges of days."""
    return tuple(DayRange(date.fromordinal(start), date.fromordinal(end)) for start, end in spans_of(grain, partitions))


Spans = list[tuple[int, int]]
"""Half-open ranges of day ordinals. A plan touches 100,000 partitions and more: numbers keep it below a second."""


def spans_of(grain: Grain, partitions: Iterable[date]) -> Spans:
    """The fewest ranges of consecutive partitions that cover exactly these, in order and apart from each other."""
    match grain:
        case Grain.DAILY:
            days = sorted({day.toordinal() for day in partitions})
            if not days:
                return []
            breaks = [place for place in range(1, len(days)) if days[place] != days[place - 1] + 1]
            return [
                (days[first], days[last - 1] + 1)
                for first, last in zip([0, *breaks], [*breaks, len(days)], strict=True)
            ]
        case Grain.MONTHLY:
            months = sorted(set(partitions))
            return merged((month.toordinal(), next_partition(grain, month).toordinal()) for month in months)


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """Ordered spans, with those that overlap or touch merged."""
    found: Spans = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def partitions_of_spans(grain: Grain, spans: Spans) -> tuple[date, ...]:
    """Every partition that shares at least one day with one of these spans, which are in order and apart."""
    match grain:
        case Grain.DAILY:
            return tuple(date.fromordinal(day) for start, end in spans for day in range(start, end))
        case Grain.MONTHLY:
            months: dict[date, None] = {}
            for start, end in spans:
                first, last = date.fromordinal(start), date.fromordinal(end - 1)
                for month in range(first.year * 12 + first.month - 1, last.year * 12 + last.month):
                    months[date(month // 12, month % 12 + 1, 1)] = None
            return tuple(months)


def count_of(count: int, noun: str) -> str:
    """A count with its noun: `1 day`, `92 days`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def describe(grain: Grain, partitions: Iterable[date], *, most: int = _MOST_SHOWN) -> str:
    """Partitions in words: `2006-07-01..2006-09-30, 92 days`.

    Args:
        partitions: In any order.
        most: How many ranges are spelled out before the rest is counted.
    """
    chosen = sorted(set(partitions))
    if not chosen:
        return f"no {grain.noun}s"
    return f"{describe_ranges(grain, chosen, most=most)}, {count_of(len(chosen), grain.noun)}"


def describe_ranges(grain: Grain, partitions: Iterable[date], *, most: int = _MOST_SHOWN) -> str:
    """The ranges without the total count: `2006-07-01..2006-09-30`."""
    ranges = compress(grain, partitions)
    shown = ", ".join(_days_text(grain, days) for days in ranges[:most])
    rest = f" and {count_of(len(ranges) - most, 'more range')}" if len(ranges) > most else ""
    return f"{shown}{rest}"


@dataclass(frozen=True, slots=True)
class Partitions:
    """Some partitions of a table, in order; as text they are ranges and a count, as `describe` gives them."""

    grain: Grain
    days: tuple[date, ...]  #: Their first days, in order.

    @staticmethod
    def of(grain: Grain, days: Iterable[date]) -> Partitions:
        return Partitions(grain, tuple(sorted(set(days))))

    def __iter__(self) -> Iterator[date]:
        return iter(self.days)

    def __len__(self) -> int:
        return len(self.days)

    def __contains__(self, day: object) -> bool:
        return day in self.days

    def __str__(self) -> str:
        return describe(self.grain, self.days)

    @property
    def span(self) -> str:
        """From the first to the last of them, whatever is missing between."""
        return _days_text(self.grain, DayRange(self.days[0], days_of(self.grain, self.days[-1]).end))

    @property
    def ranges(self) -> tuple[str, ...]:
        """The fewest ranges that cover exactly these, each as a person reads it."""
        return tuple(_days_text(self.grain, days) for days in compress(self.grain, self.days))


@sentence
class OfPartitions(BackfillError):
    """{partitions}"""

    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePartitions:
    """Some partitions of a table, in order."""

    table: str  #: The table.
    grain: Grain  #: Whether a partition is a day or a month.
    partitions: tuple[date, ...]  #: Which ones.

    def __str__(self) -> str:
        return f"{self.table} {describe(self.grain, self.partitions)}"


def partition_text(grain: Grain, partition: date) -> str:
    """One partition as a person reads it: a month as `2025-02`."""
    return _days_text(grain, days_of(grain, partition))


def _days_text(grain: Grain, days: DayRange) -> str:
    match grain:
        case Grain.DAILY:
            return f"{days.start}" if len(days) == 1 else f"{days.start}..{days.last}"
        case Grain.MONTHLY:
            first, last = f"{days.start:%Y-%m}", f"{days.last:%Y-%m}"
            return first if first == last else f"{first}..{last}"


def plausible_gaps(files: Iterable[Iterable[date]], *, plausible_days: int) -> frozenset[date]:
    """The days of plausible gaps of files.

    A gap is as long as it is in its file: what other files have of its days does not make it shorter.

    Args:
        files: The days with events, per file.
        plausible_days: The length of the longest plausible gap.
    """
    gaps = {
        (before + 1, after)
        for days in files
        for before, after in pairwise(sorted({day.toordinal() for day in days}))
        if 1 < after - before <= plausible_days + 1
    }
    return frozenset(partitions_of_spans(Grain.DAILY, merged(sorted(gaps))))
