"""Gaps between events: short ones are believed, long ones are asked about."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.planning.gaps import gaps_within
from backfill_assets.planning.partitions import DayRange

FIRST = date(2026, 1, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def test_a_weekend_is_filled_and_a_year_is_asked_about() -> None:
    gaps = gaps_within([DayRange(day(0), day(400))], [day(0), day(3), day(399)], plausible_days=31)
    assert gaps.plausible == {day(1), day(2)}
    assert gaps.asked == (DayRange(day(4), day(399)),)


def test_what_lies_between_two_files_is_no_gap_of_either() -> None:
    gaps = gaps_within(
        [DayRange(day(0), day(2)), DayRange(day(5), day(6))], [day(0), day(1), day(5)], plausible_days=31
    )
    assert (gaps.plausible, gaps.asked) == (frozenset(), ())


def test_events_of_another_file_make_a_long_gap_shorter() -> None:
    spans = [DayRange(day(0), day(11)), DayRange(day(5), day(6))]
    assert gaps_within(spans, [day(0), day(10), day(5)], plausible_days=4).asked == ()


@given(st.sets(st.integers(min_value=0, max_value=200), min_size=1), st.integers(min_value=0, max_value=40))
def test_every_day_of_a_span_has_events_or_is_in_exactly_one_gap(numbers: set[int], plausible: int) -> None:
    events = {day(number) for number in numbers}
    span = DayRange(min(events), max(events) + timedelta(days=1))
    gaps = gaps_within([span], events, plausible_days=plausible)
    asked = [each for gap in gaps.asked for each in gap]
    assert sorted([*events, *gaps.plausible, *asked]) == list(span)
    assert all(len(gap) > plausible for gap in gaps.asked)
