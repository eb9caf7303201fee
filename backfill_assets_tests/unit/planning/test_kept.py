"""Which snapshots expire: never the newest, always the same ones, and none that would stay beside newer ones."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import Grain, days_of, partition_of
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.planning.kinds.expire import MONTHS, RetentionRule

FIRST = date(2024, 1, 1)
DAYS = st.integers(0, 900).map(lambda n: FIRST + timedelta(days=n))
KEPT = st.builds(RetentionRule, days=st.integers(1, 120), then=st.sampled_from(sorted(MONTHS)))


def snapshots(grain: Grain, days: set[date]) -> set[date]:
    return {partition_of(grain, day) for day in days}


def stay(keep: RetentionRule, grain: Grain, accepted: set[date]) -> set[date]:
    return accepted - set(keep.expired(grain, accepted))


@given(KEPT, st.sampled_from(Grain), st.sets(DAYS, min_size=1))
def test_the_newest_stays_with_those_of_its_last_days_and_one_of_each_earlier_period(
    keep: RetentionRule, grain: Grain, days: set[date]
) -> None:
    accepted = snapshots(grain, days)
    left, end = stay(keep, grain, accepted), max(days_of(grain, each).last for each in accepted)
    assert max(accepted) in left
    assert left >= {each for each in accepted if (end - days_of(grain, each).last).days <= keep.days}

    def period(day: date) -> tuple[int, int]:
        return day.year, (day.month - 1) // MONTHS[keep.then]

    for gone in accepted - left:
        later = [each for each in left if each > gone and period(each) == period(gone)]
        assert later, f"nothing of the period of {gone} stays"


@given(KEPT, st.sampled_from(Grain), st.sets(DAYS, min_size=1), st.sets(DAYS))
def test_what_expires_once_never_stays_when_newer_ones_are_accepted(
    keep: RetentionRule, grain: Grain, days: set[date], more: set[date]
) -> None:
    accepted = snapshots(grain, days)
    newer = {each for each in snapshots(grain, more) if each > max(accepted)}
    left = stay(keep, grain, accepted)
    assert stay(keep, grain, left) == left
    assert stay(keep, grain, left | newer) == stay(keep, grain, accepted | newer)


def test_days_before_the_newest_are_counted_from_its_end_and_the_period_by_the_calendar() -> None:
    days = {date(2026, 3, 31) - timedelta(days=n) for n in range(70)}
    assert stay(RetentionRule(days=2, then="month"), Grain.DAILY, days) == {
        date(2026, 1, 31),
        date(2026, 2, 28),
        date(2026, 3, 29),
        date(2026, 3, 30),
        date(2026, 3, 31),
    }
    months = {date(2025, month, 1) for month in range(1, 13)}
    assert stay(RetentionRule(days=31, then="quarter"), Grain.MONTHLY, months) == {
        date(2025, month, 1) for month in (3, 6, 9, 11, 12)
    }
    assert stay(RetentionRule(days=1, then="year"), Grain.MONTHLY, months | {date(2024, 5, 1)}) == {
        date(2024, 5, 1),
        date(2025, 12, 1),
    }
    assert RetentionRule(days=1).expired(Grain.DAILY, ()) == ()


@pytest.mark.parametrize("days, then", [(0, "month"), (True, "month"), (1.5, "month"), ("7", "month"), (7, "week")])
def test_no_other_number_of_days_and_no_other_period_is_declared(days: object, then: str) -> None:
    with pytest.raises(InvalidDeclaration, match="snapshots are kept for a number of days from 1 on") as refused:
        RetentionRule(days=days, then=then)  # type: ignore[arg-type]
    assert f"days={days!r}" in str(refused.value) and repr(then) in str(refused.value)
