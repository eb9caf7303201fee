"""Which partitions does a range of days name, and how is a set of partitions said to a person?

A partition is identified by the first day it covers: the day itself for daily tables, the first of the month for
monthly ones. Ranges are half-open in code and inclusive where a person types or reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from backfill_assets.errors import InvalidRange

ONE_DAY = timedelta(days=1)


class Grain(StrEnum):
    """How many days a partition covers."""

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
        """The range a person means by `first..last`."""
        if last < first:
            raise InvalidRange(
                f"the range is reversed: it starts on {first} and ends on {last}.",
                next_step=f"give the earlier day first: --from {last} --to {first}",
            )
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


def partitions_over(grain: Grain, days: DayRange) -> tuple[date, ...]:
    """Every partition that shares at least one day with the range, in order."""
    if not len(days):
        return ()
    found = [partition_of(grain, days.start)]
    while (following := next_partition(grain, found[-1])) < days.end:
        found.append(following)
    return tuple(found)


def compress(grain: Grain, partitions: Iterable[date]) -> tuple[DayRange, ...]:
    """The fewest ranges of consecutive partitions that cover exactly these partitions, as ranges of days."""
    ranges: list[DayRange] = []
    for partition in sorted(set(partitions)):
        days = days_of(grain, partition)
        if ranges and ranges[-1].end == days.start:
            ranges[-1] = DayRange(ranges[-1].start, days.end)
        else:
            ranges.append(days)
    return tuple(ranges)


def count_of(count: int, noun: str) -> str:
    """A count with its noun: `1 day`, `92 days`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def describe(grain: Grain, partitions: Iterable[date], *, most: int = 4) -> str:
    """Partitions as a person reads them: `2006-07-01..2006-09-30, 92 days`.

    Args:
        grain: The grain of the partitions.
        partitions: In any order.
        most: How many ranges are spelled out before the rest is counted.
    """
    chosen = sorted(set(partitions))
    if not chosen:
        return f"no {grain.noun}s"
    ranges = compress(grain, chosen)
    shown = ", ".join(_say(grain, days) for days in ranges[:most])
    rest = f" and {count_of(len(ranges) - most, 'more range')}" if len(ranges) > most else ""
    return f"{shown}{rest}, {count_of(len(chosen), grain.noun)}"


def _say(grain: Grain, days: DayRange) -> str:
    match grain:
        case Grain.DAILY:
            return f"{days.start}" if len(days) == 1 else f"{days.start}..{days.last}"
        case Grain.MONTHLY:
            first, last = f"{days.start:%Y-%m}", f"{days.last:%Y-%m}"
            return first if first == last else f"{first}..{last}"
