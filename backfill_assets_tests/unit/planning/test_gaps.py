"""Gaps between events of a file: short ones are believed, long ones are not."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.planning.partitions import DayRange, Grain, compress, plausible_gaps

FIRST = date(2026, 1, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def test_a_weekend_is_filled_and_a_year_is_not() -> None:
    found = plausible_gaps([DayRange(day(0), day(400))], [day(0), day(3), day(399)], plausible_days=31)
    assert found == {day(1), day(2)}


def test_what_lies_between_two_files_is_no_gap_of_either() -> None:
    spans = [DayRange(day(0), day(2)), DayRange(day(5), day(6))]
    assert plausible_gaps(spans, [day(0), day(1), day(5)], plausible_days=31) == frozenset()


def test_files_that_follow_each_other_are_two_files() -> None:
    spans = [DayRange(day(0), day(5)), DayRange(day(5), day(6))]
    assert plausible_gaps(spans, [day(0), day(5)], plausible_days=31) == frozenset()


def test_events_of_another_file_make_a_long_gap_shorter() -> None:
    spans = [DayRange(day(0), day(11)), DayRange(day(5), day(6))]
    events = [day(0), day(10), day(5)]
    assert plausible_gaps(spans, events, plausible_days=4) == set(DayRange(day(1), day(10))) - {day(5)}


@given(st.sets(st.integers(min_value=0, max_value=200), min_size=1), st.integers(min_value=0, max_value=40))
def test_every_day_without_events_is_filled_where_its_gap_is_plausible(numbers: set[int], plausible: int) -> None:
    events = {day(number) for number in numbers}
    span = DayRange(min(events), max(events) + timedelta(days=1))
    found = plausible_gaps([span], events, plausible_days=plausible)
    for gap in compress(Grain.DAILY, set(span) - events):
        assert set(gap) <= found if len(gap) <= plausible else not found & set(gap)
    assert not found & events
