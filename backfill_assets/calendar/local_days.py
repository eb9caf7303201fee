"""Local days: the instants of a day where clocks show the time of a zone, and the partitions that hold them.

A person names days of a source as its clocks show them; bronze has one partition per UTC date. Only here one becomes
the other. A local day has 23 to 25 hours where clocks change, and none where a zone has left it out.

Where the event time of a source is a date, days are these dates, and so are its partitions: a zone moves none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from backfill_assets.calendar.partitions import ONE_DAY, DayRange

_TICK = timedelta(microseconds=1)
FIRST_TO_BEGIN, _LAST_TO_END = timedelta(hours=14), timedelta(hours=12)
"""By how much clocks are ahead of UTC, and behind it, where a date begins first and ends last."""

LAST_PLANNED = date(9998, 12, 31)
"""The last day of planned times. Later ones stand for no end, and the days after them for none of a calendar."""

_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LocalDays:
    """The days of a zone."""

    zone: str = "UTC"  #: Where clocks show them.
    #: Records have a date and no time, which is their day and their partition whatever a clock shows.
    are_dates: bool = False

    def instants(self, days: DayRange) -> tuple[datetime, datetime]:
        """From the first instant of some days to the one after their last, which are the same for days that the zone
        has left out.

        Where clocks go back over midnight, two days alternate, and both have all of it.
        """
        return self._midnights(days.start)[0], self._midnights(days.end)[1]

    def of(self, at: datetime) -> date:
        """The day that clocks show at an instant."""
        return at.astimezone(ZoneInfo(self.zone)).date()

    def partitions(self, days: DayRange) -> DayRange:
        """The UTC dates with instants of some days."""
        if self.are_dates:
            return days
        begins, ends = self.instants(days)
        first = begins.date()
        return DayRange(first, max(first, (ends - _TICK).date() + ONE_DAY) if begins < ends else first)

    def whole_partitions(self, days: DayRange) -> DayRange:
        """The UTC dates of which all instants are of some days."""
        if self.are_dates:
            return days
        begins, ends = self.instants(days)
        first = begins.date() + (ONE_DAY if begins.time() > time() else timedelta())
        return DayRange(first, max(first, ends.date()))

    def span(self, day: date) -> tuple[datetime, datetime]:
        """The first and the last instant of a day.

        Raises:
            OverflowError: It is the last day of the calendar.
        """
        begins, ends = self.instants(DayRange.inclusive(day, day))
        return begins, max(begins, ends - _TICK)

    def over_before(self, at: datetime) -> date:
        """The first partition that is not over at an instant: of dates, that some place on Earth still has."""
        return (at - _LAST_TO_END).date() if self.are_dates else at.date()

    def _midnights(self, day: date) -> tuple[datetime, datetime]:
        """When a day begins, and when the one before it ends: earlier and later where clocks go back over midnight."""
        zone, midnight = ZoneInfo(self.zone), datetime.combine(day, time())
        first, last = sorted(_in_utc(midnight.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
        if first == last:
            return first, last
        if self.of(first) == day:  # shown twice; between the two the clock may have shown the day before
            return (first, last) if self.of(last - _TICK) < day else (first, first)
        while last - first > _TICK:  # skipped: the day begins with the change of the clock
            middle = first + (last - first) // 2
            first, last = (middle, last) if self.of(middle) < day else (first, middle)
        return last, last


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return _EARLIEST if at.year == 1 else _LATEST


UTC_DAYS = LocalDays()


def newest_date(at: datetime) -> date:
    """The newest date that a clock anywhere on Earth shows at an instant."""
    return (at + FIRST_TO_BEGIN).date()
