"""The part of the landing oracle that is about clocks: local times of a zone, dates, and what is in the future.

`zoneinfo` and integers, and nothing of the product. Instants are microseconds since 1970, dates are days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import types as T

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of local times as well
_A_DAY = 24 * 60 * 60 * 10**6


class NoInstant(ValueError):
    """No instant, or none that can be told from another one, is meant by a local time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What a source declares of its times."""

    event: str  #: The column of the event time, a date or a timestamp.
    partition: str  #: The column of the partition.
    key: tuple[str, ...]
    landed_at: datetime
    first_day: date
    zone: str = ""  #: Where local times are read; empty for nowhere.
    repeated: str = ""  #: Which of two hours; empty where that is not declared.
    ahead: timedelta = timedelta(0)  #: How far events may be after the landing.
    planned: bool = False  #: Whether they may be as far as they like.

    def rule(self, column: str) -> str:
        """Which of two hours the times of a column are."""
        if not self.repeated:
            return "reject" if column in self.key else "first"
        if self.repeated == "both":
            return "first" if column in self.key else "reject"
        return self.repeated


_READ: ContextVar[tuple[str, str]] = ContextVar("read", default=("", ""))


@contextmanager
def reading(times: Times | None, column: str, rule: str = "") -> Iterator[None]:
    """Local times inside are those of a column."""
    token = _READ.set((times.zone, rule or times.rule(column)) if times else ("", ""))
    try:
        yield
    finally:
        _READ.reset(token)


def has_zone() -> bool:
    """Whether a local time is an instant here."""
    return bool(_READ.get()[0])


def instant_of(local: int) -> int:
    """The instant at which clocks show a local time.

    Raises:
        NoInstant: They skip it, or show it twice and nothing tells which one it is.
    """
    zone, rule = _READ.get()
    whole, fraction = divmod(local, 10**6)
    try:
        shown = _EPOCH + timedelta(seconds=whole)
    except OverflowError as error:
        raise NoInstant from error
    found = set()
    for fold in (0, 1):
        at = shown.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)
        if at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == shown:
            found.add((at.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
    if not found or (len(found) > 1 and rule == "reject"):
        raise NoInstant
    return (max(found) if rule == "second" else min(found)) + fraction


def judged(
    rows: Sequence[dict[str, Any]],
    again: Sequence[dict[str, Any]],
    types: Mapping[str, T.DataType],
    times: Times,
    wrong: Callable[[], Any],
) -> None:
    """Puts the second of two hours into rows, and the partition; what is wrong about a time takes its place.

    Args:
        rows: The values of the records of a file, in its order, with the first of two hours.
        again: The same with the second.
        wrong: Makes what stands for a value that is rejected.
    """
    if times.repeated == "both":
        for name in times.key:
            if isinstance(types[name], T.TimestampType):
                _tell_hours(name, rows, again, times, wrong)
    for row in rows:
        at = row[times.event]
        if not isinstance(at, int):
            row[times.partition] = None
            continue
        is_date = isinstance(types[times.event], T.DateType)
        day = at if is_date else at // _A_DAY
        row[times.partition] = day if day >= _days(times.first_day) else wrong()
        latest = times.landed_at + times.ahead
        if times.planned:
            is_late = day > _days(date(9998, 12, 31))
        elif is_date:
            # The clocks of Kiribati are fourteen hours ahead of those of Greenwich.
            is_late = day > _days((latest + timedelta(hours=14)).date())
        else:
            is_late = at > (latest.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
        if is_late:
            row[times.event] = wrong()


def _tell_hours(
    name: str, rows: Sequence[dict[str, Any]], again: Sequence[dict[str, Any]], times: Times, wrong: Callable[[], Any]
) -> None:
    rest = [each for each in times.key if each != name]
    twice = [isinstance(row[name], int) and _differs(row, two, name) for row, two in zip(rows, again, strict=True)]
    places = [(*(str(row[each]) for each in rest), row[name]) for row in rows]
    many = Counter(place for place, is_twice in zip(places, twice, strict=True) if is_twice)
    seen: Counter[Any] = Counter()
    for row, two, place, is_twice in zip(rows, again, places, twice, strict=True):
        if not is_twice:
            continue
        seen[place] += 1
        if many[place] == 1 or seen[place] > 2:
            row[name] = wrong()
        elif seen[place] == 2:
            row[name] = two[name]


def _differs(row: Mapping[str, Any], two: Mapping[str, Any], name: str) -> bool:
    return bool(row[name] != two[name])


def _days(day: date) -> int:
    return day.toordinal() - date(1970, 1, 1).toordinal()
