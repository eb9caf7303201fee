"""Windows: how far around a partition a table reads an input, in days for daily tables, in months for monthly ones.

A window counts partitions of the table that declares it, whatever the partitions of the input are: the same rule by
which Dagster's mappings count, so that a window always has a mapping that says the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from backfill_assets.calendar.partitions import DayRange, SnapshotInterval
from backfill_assets.core.errors import InvalidDeclaration


class AnyWindow(ABC):
    """A window in days or in months: what both can be asked."""

    __slots__ = ()

    @property
    def is_unbounded(self) -> bool:
        """True if it begins with the first day, whatever the partition."""
        return False

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """The number of partitions back and ahead."""

    @property
    @abstractmethod
    def document(self) -> Mapping[str, int]:
        """The rule as manifests keep it."""

    @abstractmethod
    def widened(self, start: int, end: int, before: int, after: int) -> tuple[int, int]:
        """A half-open range of day ordinals, with so many days or months more before and after it."""

    def needed_by(self, start: int, end: int) -> tuple[int, int]:
        """The input days that output days need, as half-open ranges of day ordinals."""
        back, ahead = self.counts
        return self.widened(start, end, back, ahead)

    def touched_by(self, start: int, end: int) -> tuple[int, int]:
        """The output days whose window touches input days: the window read backwards."""
        back, ahead = self.counts
        return self.widened(start, end, ahead, back)

    def around(self, days: DayRange) -> DayRange:
        """The input days that a range of output days needs."""
        return _range(self.needed_by(days.start.toordinal(), days.end.toordinal()))

    def reached_from(self, days: DayRange) -> DayRange:
        """The output days whose window touches these input days."""
        return _range(self.touched_by(days.start.toordinal(), days.end.toordinal()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(AnyWindow):
    """The input days that an output day needs: `[d - days_back, d + days_ahead]`. None more for a monthly table.

    Args:
        days_back: How many days before an output day are read.
        days_ahead: How many days after it are read.

    Raises:
        InvalidDeclaration: A negative number of days.
    """

    days_back: int = 0
    days_ahead: int = 0

    def __post_init__(self) -> None:
        _require_counts("days", days_back=self.days_back, days_ahead=self.days_ahead)

    @property
    def counts(self) -> tuple[int, int]:
        return self.days_back, self.days_ahead

    @property
    def document(self) -> Mapping[str, int]:
        return {"days_back": self.days_back, "days_ahead": self.days_ahead}

    def widened(self, start: int, end: int, before: int, after: int) -> tuple[int, int]:
        return start - before, end + after


@dataclass(frozen=True, slots=True, kw_only=True)
class Months(AnyWindow):
    """The input months that an output month needs, whole ones: from `back` months before it to `ahead` after it.

    Args:
        back: How many months before an output month are read.
        ahead: How many months after it are read.

    Raises:
        InvalidDeclaration: A negative number of months.
    """

    back: int = 0
    ahead: int = 0

    def __post_init__(self) -> None:
        _require_counts("months", back=self.back, ahead=self.ahead)

    @property
    def counts(self) -> tuple[int, int]:
        return self.back, self.ahead

    @property
    def document(self) -> Mapping[str, int]:
        return {"months_back": self.back, "months_ahead": self.ahead}

    def widened(self, start: int, end: int, before: int, after: int) -> tuple[int, int]:
        first, last = date.fromordinal(start), date.fromordinal(end - 1)
        return (
            _first_day_of(first.year * 12 + first.month - 1 - before),
            _first_day_of(last.year * 12 + last.month + after),
        )


@dataclass(frozen=True, slots=True)
class SinceFirstDay(AnyWindow):
    """Every input day from the first one to the output partition: what a state rests on.

    A hundred years stand for "every": the graph leaves out what lies before the first day. Counted in partitions, it is
    more than any table has.
    """

    #: The first day, where the table declares one; None for the first day that tables can have.
    since: date | None = None
    every: int = 1  #: After how many days since then a daily table has a partition.

    @property
    def is_unbounded(self) -> bool:
        return True

    @property
    def counts(self) -> tuple[int, int]:
        return -(-10_000 // self.every), 0

    @property
    def stretches(self) -> SnapshotInterval | None:
        """The stretches of days that have a partition; None where every day, or month, has one."""
        return None if self.since is None or self.every == 1 else SnapshotInterval(self.since, self.every)

    @property
    def document(self) -> Mapping[str, int]:
        declared = {} if self.since is None else {"since": int(f"{self.since:%Y%m%d}")}
        return {"since_first_day": 1, **declared, **({"every": self.every} if self.every > 1 else {})}

    def widened(self, start: int, end: int, before: int, after: int) -> tuple[int, int]:
        return max(1, start - _A_HUNDRED_YEARS) if before else start, end + _A_HUNDRED_YEARS if after else end


_A_HUNDRED_YEARS = 36_525


def parse_window(document: Mapping[str, int]) -> AnyWindow:
    """The window that a manifest keeps; `parse_window(window.document) == window`."""
    return _window_of(tuple(document.items()))


@lru_cache(maxsize=1_000)
def _window_of(named: tuple[tuple[str, int], ...]) -> AnyWindow:
    # Thousands of manifests of a history have the same few windows.
    document = dict(named)
    if "since_first_day" in document:
        since = document.get("since")
        return SinceFirstDay(None if since is None else date.fromisoformat(f"{since:08}"), document.get("every", 1))
    if "months_back" in document:
        return Months(back=document["months_back"], ahead=document["months_ahead"])
    return Window(**document)


def _require_counts(unit: str, **counts: int) -> None:
    found = ", ".join(f"{name}={count!r}" for name, count in counts.items())
    if not all(isinstance(count, int) and not isinstance(count, bool) for count in counts.values()):
        raise InvalidDeclaration(f"a window counts {unit}: {found} are not two numbers.")
    if any(count < 0 for count in counts.values()):
        raise InvalidDeclaration(f"a window counts {unit} back and ahead, so neither can be negative: {found}.")


def _first_day_of(month: int) -> int:
    """The ordinal of the first day of a month, counted from the year 0."""
    return date(month // 12, month % 12 + 1, 1).toordinal()


def _range(ordinals: tuple[int, int]) -> DayRange:
    start, end = ordinals
    return DayRange(date.fromordinal(start), date.fromordinal(end))


SAME_DAYS = Window()
"""Nothing before and after the partition itself."""
