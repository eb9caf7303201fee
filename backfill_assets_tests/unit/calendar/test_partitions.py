"""Partition algebra: ranges, grains and how they are said."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import (
    DayRange,
    Grain,
    compress,
    days_between,
    days_listed,
    days_named,
    days_of,
    describe,
    instant_named,
    next_partition,
    partition_of,
    partitions_over,
)
from backfill_assets.core.errors import InvalidRange
from backfill_assets_tests.support.advice import advised

DAYS = st.dates(min_value=date(1999, 1, 1), max_value=date(2030, 12, 31))
GRAINS = st.sampled_from(Grain)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2006-02-03", date(2006, 2, 3), date(2006, 2, 3)),
        ("2006-02", date(2006, 2, 1), date(2006, 2, 28)),
        ("2004-02", date(2004, 2, 1), date(2004, 2, 29)),
        ("2006-12", date(2006, 12, 1), date(2006, 12, 31)),
        ("2006", date(2006, 1, 1), date(2006, 12, 31)),
    ],
)
def test_a_month_and_a_year_name_all_their_days(text: str, first: date, last: date) -> None:
    assert days_named(text) == DayRange.inclusive(first, last)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("2026-11-27T20:22", 0),
        ("2026-11-27T20:22:05", 5),
        ("2026-11-27T20:22:05Z", 5),
        ("2026-11-27 20:22:05", 5),
        ("2026-11-27 20:22:05 UTC", 5),
        ("2026-11-27T20:22:05+00:00", 5),
        ("2026-11-27T22:22:05+02:00", 5),
    ],
)
def test_an_instant_is_named_as_pages_and_json_have_it(text: str, second: int) -> None:
    assert instant_named(text) == datetime(2026, 11, 27, 20, 22, second, tzinfo=UTC)
    assert instant_named("2026-11-27") == datetime(2026, 11, 27, tzinfo=UTC)


def test_an_instant_has_the_fraction_that_json_has() -> None:
    assert instant_named("2026-11-27T20:22:05.250000+00:00").microsecond == 250_000


@pytest.mark.parametrize(
    "text", ["", "UTC", "tomorrow", "2026-11", "20261127", "2026-11-27T25:00", "0001-01-01T00:00+09:00"]
)
def test_what_is_no_instant_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(InvalidRange, match=re.escape(f"{text!r} is not a time in UTC")) as refused:
        instant_named(text)
    assert advised(refused.value) == "write it like 2026-03-10T08:00"


@pytest.mark.parametrize("text", ["2026-02-30", "2026-02-30T10:00:00Z", "2026-13-01 10:00 UTC"])
def test_a_time_of_a_date_that_no_calendar_has_is_not_called_a_wrong_form(text: str) -> None:
    with pytest.raises(InvalidRange, match=re.escape(f"{text!r} is not in the calendar")):
        instant_named(text)


def test_a_range_does_not_end_before_it_starts() -> None:
    with pytest.raises(InvalidRange, match="2006-02-03 comes after 2006-02-01"):
        DayRange(date(2006, 2, 3), date(2006, 2, 2))


def test_a_list_names_each_of_its_days_once_in_order() -> None:
    found = days_listed("2006-02-03,2006-02-01..2006-02-02,2006-02-02")
    assert found == tuple(date(2006, 2, number) for number in (1, 2, 3))


@pytest.mark.parametrize("text", ["", "yesterday", "06-02", "2006-2", "20060203"])
def test_what_names_no_days_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InvalidRange, match="neither a date like 2006-07-01 nor a month"):
        days_named(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2006-2", "2006-02"),
        ("200602", "2006-02"),
        ("2006/02", "2006-02"),
        ("2006-2-1", "2006-02-01"),
        ("2006/2/1", "2006-02-01"),
        ("20060203", "2006-02-03"),
        ("2006-13", "2006-07-01"),
        ("2006-123", "2006-07-01"),
        ("01.02.2006", "2006-07-01"),
    ],
)
def test_days_that_are_written_in_another_form_are_advised_in_the_right_one(text: str, meant: str) -> None:
    with pytest.raises(InvalidRange) as refusal:
        days_named(text)
    assert advised(refusal.value) == f"write it like {meant}"


@pytest.mark.parametrize("text", ["2006-13", "2006-02-30", "9999-12-31", "9999"])
def test_a_day_that_no_calendar_has_is_not_called_a_wrong_form(text: str) -> None:
    with pytest.raises(InvalidRange, match=f"'{text}' is not in the calendar"):
        days_named(text)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2006-02-03..2006-02-05", date(2006, 2, 3), date(2006, 2, 5)),
        (" 2006-02-03 .. 2006-02-05 ", date(2006, 2, 3), date(2006, 2, 5)),
        ("2006-02..2006-03", date(2006, 2, 1), date(2006, 3, 31)),
        ("2006-02-05..2006-02", date(2006, 2, 5), date(2006, 2, 28)),
        ("2006", date(2006, 1, 1), date(2006, 12, 31)),
    ],
)
def test_a_range_names_the_days_from_its_first_to_its_last(text: str, first: date, last: date) -> None:
    assert days_between(text) == DayRange.inclusive(first, last)


@pytest.mark.parametrize(
    ("text", "sentence", "advice"),
    [
        ("2006-02-03..", "'2006-02-03..' has no last day", "like 2006-07-01..2006-07-31"),
        ("..2006-02-03", "'..2006-02-03' has no first day", "like 2006-07-01..2006-07-31"),
        ("2006-03..2006-02", "the range is reversed: '2006-03..2006-02' starts on 2006-03-01", "2006-02..2006-03"),
        ("2006-02-03...2006-02-05", "'.2006-02-05' is neither a date", "write it like 2006-07-01"),
        ("", "'' is neither a date", "write it like 2006-07-01"),
    ],
)
def test_a_range_that_is_none_is_refused_with_what_to_write(text: str, sentence: str, advice: str) -> None:
    with pytest.raises(InvalidRange, match=re.escape(sentence)) as refusal:
        days_between(text)
    assert advice in advised(refusal.value)
    assert "--from" not in advised(refusal.value), "not every command that takes a range has that option"


@given(GRAINS, DAYS)
def test_a_day_lies_in_its_partition(grain: Grain, day: date) -> None:
    partition = partition_of(grain, day)
    assert day in days_of(grain, partition)
    assert partition_of(grain, partition) == partition


@given(GRAINS, DAYS)
def test_partitions_follow_each_other_without_gap_or_overlap(grain: Grain, day: date) -> None:
    partition = partition_of(grain, day)
    assert days_of(grain, partition).end == next_partition(grain, partition)


@given(GRAINS, DAYS, st.integers(min_value=0, max_value=400))
def test_partitions_over_a_range_are_those_of_its_days(grain: Grain, day: date, length: int) -> None:
    days = DayRange(day, day + timedelta(days=length))
    assert partitions_over(grain, days) == tuple(sorted({partition_of(grain, each) for each in days}))


@given(GRAINS, st.sets(DAYS, max_size=30))
def test_compressed_ranges_cover_exactly_the_partitions_and_cannot_be_fewer(grain: Grain, days: set[date]) -> None:
    partitions = {partition_of(grain, day) for day in days}
    ranges = compress(grain, partitions)
    assert {p for days_ in ranges for p in partitions_over(grain, days_)} == partitions
    assert all(left.end < right.start for left, right in pairwise(ranges))


def test_a_quarter_is_said_as_a_person_reads_it() -> None:
    quarter = DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30))
    assert describe(Grain.DAILY, quarter) == "2006-07-01..2006-09-30, 92 days"
    assert describe(Grain.MONTHLY, partitions_over(Grain.MONTHLY, quarter)) == "2006-07..2006-09, 3 months"
    assert describe(Grain.DAILY, [date(2006, 7, 1)]) == "2006-07-01, 1 day"
    assert describe(Grain.DAILY, []) == "no days"


def test_many_ranges_are_counted_after_the_first_few() -> None:
    odd_days = [date(2006, 7, day) for day in range(1, 31, 2)]
    assert describe(Grain.DAILY, odd_days, most=2) == "2006-07-01, 2006-07-03 and 13 more ranges, 15 days"


def test_a_reversed_range_is_refused_with_the_range_that_was_meant() -> None:
    with pytest.raises(InvalidRange, match="reversed") as refusal:
        DayRange.inclusive(date(2006, 9, 30), date(2006, 7, 1))
    assert advised(refusal.value) == "give the earlier day first: --from 2006-07-01 --to 2006-09-30"
