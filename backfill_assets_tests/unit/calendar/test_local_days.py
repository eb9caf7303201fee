"""Days of a zone: exactly the instants at which its clocks show them, and the UTC dates that hold these."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_assets.calendar.local_days import LocalDays, newest_date
from backfill_assets.calendar.partitions import DayRange

ONE_DAY = timedelta(days=1)
ZONES = (
    "UTC",
    "Europe/Amsterdam",
    "America/New_York",
    "America/Sao_Paulo",  # clocks changed at midnight
    "America/St_Johns",  # by half an hour from others, and clocks changed at one minute past midnight
    "America/Havana",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",  # changes by half an hour
    "Pacific/Apia",  # left out a day in 2011
    "Pacific/Kiritimati",  # +14
    "Pacific/Pago_Pago",  # -11
)
SKIPPED = date(2011, 12, 30)


def shown(zone: str, near: date) -> dict[date, list[datetime]]:
    """By the day that clocks show, the quarters of an hour from four days before a date to four days after it."""
    found: dict[date, list[datetime]] = {}
    first = datetime(near.year, near.month, near.day, tzinfo=UTC) - 4 * ONE_DAY
    for number in range(8 * 96):
        at = first + number * timedelta(minutes=15)
        found.setdefault(at.astimezone(ZoneInfo(zone)).date(), []).append(at)
    return found


@given(zone=st.sampled_from(ZONES), day=st.dates(date(1976, 1, 1), date(2035, 1, 1)), length=st.integers(1, 3))
@example(zone="Pacific/Apia", day=SKIPPED, length=1)
@example(zone="Pacific/Apia", day=SKIPPED - ONE_DAY, length=2)
@example(zone="Europe/Amsterdam", day=date(2024, 10, 27), length=1)
@example(zone="Europe/Amsterdam", day=date(2024, 3, 31), length=1)
@example(zone="America/Sao_Paulo", day=date(2018, 11, 4), length=1)
@example(zone="America/Sao_Paulo", day=date(2018, 2, 17), length=1)
@example(zone="America/St_Johns", day=date(2006, 10, 28), length=1)
@example(zone="America/St_Johns", day=date(2006, 4, 2), length=1)
def test_days_are_the_instants_at_which_clocks_show_them(zone: str, day: date, length: int) -> None:
    days, clocks = DayRange(day, day + length * ONE_DAY), LocalDays(zone)
    by_day = shown(zone, day)
    mine = sorted(at for each in days for at in by_day.get(each, ()))
    begins, ends = clocks.instants(days)
    if not mine:
        assert begins == ends
        assert not len(clocks.partitions(days))
        return
    quarter = timedelta(minutes=15)
    assert mine[0] - quarter < begins <= mine[0]
    assert mine[-1] < ends <= mine[-1] + quarter
    assert list(clocks.partitions(days)) == sorted({at.date() for at in mine})
    quarters = [at for some in by_day.values() for at in some if begins <= at < ends]
    whole = {at.date() for at in quarters}
    whole = {each for each in whole if sum(at.date() == each for at in quarters) == 96}
    assert set(clocks.whole_partitions(days)) == whole
    assert {clocks.of(at) for at in mine} == {each for each in days if each in by_day}


@pytest.mark.parametrize("zone", ZONES)
def test_the_days_of_a_year_follow_each_other_without_a_gap(zone: str) -> None:
    ends = None
    for number in range(366):
        day = date(2011, 6, 1) + number * ONE_DAY
        begins, after = LocalDays(zone).instants(DayRange(day, day + ONE_DAY))
        # Where clocks go back over midnight, one day begins before the other has ended.
        assert ends is None or begins == ends or (zone == "America/St_Johns" and begins < ends)
        ends = after


def test_the_first_and_the_last_days_of_the_calendar_are_days() -> None:
    assert LocalDays("Pacific/Kiritimati").instants(DayRange(date.min, date.max))[0].year == 1
    assert LocalDays("Pacific/Pago_Pago").instants(DayRange(date.min, date.max))[1].year == 9999


@given(zone=st.sampled_from(ZONES), day=st.dates(date(1976, 1, 1), date(2035, 1, 1)), length=st.integers(1, 3))
def test_dates_are_their_own_partitions_in_every_zone(zone: str, day: date, length: int) -> None:
    days, clocks = DayRange(day, day + length * ONE_DAY), LocalDays(zone, are_dates=True)
    assert clocks.partitions(days) == clocks.whole_partitions(days) == days
    assert clocks.instants(days) == LocalDays(zone).instants(days)
    begins, last = clocks.span(day)
    assert begins == last or (clocks.of(begins), clocks.of(last)) == (day, day)


@given(at=st.datetimes(datetime(1980, 1, 1), datetime(2035, 1, 1)).map(lambda each: each.replace(tzinfo=UTC)))  # noqa: DTZ001
def test_a_date_begins_and_ends_with_the_first_and_the_last_clock_on_earth(at: datetime) -> None:
    shown = {(at + timedelta(hours=hours)).date() for hours in range(-12, 15)}
    dates = LocalDays(are_dates=True)
    assert (newest_date(at), dates.over_before(at)) == (max(shown), min(shown))
    assert LocalDays("Asia/Tokyo").over_before(at) == at.date()
