"""Gaps between events of a file: short ones are believed, long ones are not."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain, compress, plausible_gaps

FIRST = date(2026, 1, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def test_a_weekend_is_filled_and_a_year_is_not() -> None:
    assert plausible_gaps([[day(0), day(3), day(399)]], plausible_days=31) == {day(1), day(2)}


def test_what_lies_between_two_files_is_no_gap_of_either() -> None:
    assert plausible_gaps([[day(0), day(1)], [day(5)]], plausible_days=31) == frozenset()


def test_files_that_follow_each_other_are_two_files() -> None:
    assert plausible_gaps([[day(0), day(3)], [day(5), day(6)]], plausible_days=31) == {day(1), day(2)}


def test_events_of_another_file_do_not_make_a_long_gap_shorter() -> None:
    week = [day(number) for number in range(7)]
    assert plausible_gaps([week, [day(0), day(8)]], plausible_days=5) == frozenset()
    assert plausible_gaps([week, [day(0), day(8)]], plausible_days=7) == set(DayRange(day(1), day(8)))


def test_a_gap_that_is_short_in_one_file_is_plausible_though_it_is_long_in_another() -> None:
    assert plausible_gaps([[day(0), day(10)], [day(4), day(6)]], plausible_days=2) == {day(5)}


@given(st.sets(st.integers(min_value=0, max_value=200), min_size=1), st.integers(min_value=0, max_value=40))
def test_every_day_without_events_is_filled_where_its_gap_is_plausible(numbers: set[int], plausible: int) -> None:
    events = {day(number) for number in numbers}
    span = DayRange(min(events), max(events) + timedelta(days=1))
    found = plausible_gaps([events], plausible_days=plausible)
    for gap in compress(Grain.DAILY, set(span) - events):
        assert set(gap) <= found if len(gap) <= plausible else not found & set(gap)
    assert not found & events
