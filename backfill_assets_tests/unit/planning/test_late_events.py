"""Only rows that were not there before follow by lateness, and days between which keys moved are one decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord, KeyCounts
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.staleness.landed_news import LandedChange, days_of_late_events, days_with_moved_keys
from backfill_assets_tests.support.ledger_examples import an_import

SOURCE = "bronze.events"
LANDED = datetime(2026, 1, 11, 12, tzinfo=UTC)
TODAY = LANDED.date()
LATE = an_import(landed_at=LANDED, counts=ImportCounts(landed=4, accepted=2, duplicate=1, rejected=1))


def ago(days: int) -> date:
    return TODAY - timedelta(days=days)


def brought(day: date, *, record: ImportRecord = LATE, **counts: int) -> LandedChange:
    touched = ImportDay(import_id=record.import_id, event_date=day, **{"events": 1, **counts})
    return LandedChange(record=record, day=touched, rows=1)


def follows(*news: LandedChange, lateness: int = 3) -> bool:
    day = (SOURCE, news[0].day.event_date)
    return days_of_late_events({day: news}, {SOURCE: lateness}) == {day}


def test_new_keys_of_recent_days_follow_and_repeated_and_rejected_records_are_no_obstacle() -> None:
    assert follows(brought(ago(3)))
    assert follows(brought(ago(0)), brought(ago(0), record=replace(LATE, import_id="imp-000008")))
    assert not follows(brought(ago(4)))
    assert days_of_late_events({(SOURCE, ago(1)): [brought(ago(1))]}, {}) == frozenset()
    # A load that was rolled back, with no new file.
    assert days_of_late_events({(SOURCE, ago(1)): []}, {SOURCE: 3}) == frozenset()


@pytest.mark.parametrize(
    "changed",
    [
        {"format": STATEMENT},
        {"on_duplicate": "correct"},
        {"on_duplicate": "reprocess"},
        {"keys": KeyCounts(current=1)},  # one of both keys was there before
        {"keys": KeyCounts(current=2, deleted=-1)},
        {"keys": KeyCounts(current=2, withdrawn=-1)},
        {"keys": KeyCounts(current=1, deleted=1)},
        {"counts": ImportCounts(landed=3, accepted=2, superseded=1)},
    ],
)
def test_what_corrects_takes_back_or_restores_is_for_a_person(changed: dict[str, Any]) -> None:
    assert not follows(brought(ago(1), record=replace(LATE, **changed)))
    assert not follows(brought(ago(1)), brought(ago(1), record=replace(LATE, import_id="imp-000008", **changed)))


@pytest.mark.parametrize("counts", [{"displaced": 1}, {"deleted": 1}, {"withdrawn": 1}, {"restored": 1}])
def test_a_day_that_loses_or_gets_back_a_row_is_for_a_person(counts: Mapping[str, Any]) -> None:
    assert not follows(brought(ago(1), **counts))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 8), st.booleans()), max_size=20))
def test_days_of_a_file_that_moved_keys_are_in_one_group_and_no_day_is_in_two(
    touched: list[tuple[int, int, bool]],
) -> None:
    news: dict[SourceDay, list[LandedChange]] = {}
    for number, days, moves in touched:
        record = replace(LATE, import_id=f"imp-{number:06d}")
        news.setdefault((SOURCE, ago(days)), []).append(brought(ago(days), record=record, displaced=int(moves)))
    groups = days_with_moved_keys(news)
    assert all(one.isdisjoint(other) for one, other in combinations(groups, 2))
    linking: list[set[SourceDay]] = []
    for number in range(1, 6):
        own = {(SOURCE, ago(days)) for other, days, _ in touched if other == number}
        if any(moves for other, _, moves in touched if other == number) and len(own) > 1:
            linking.append(own)
            assert any(own <= group for group in groups)
    assert frozenset().union(*groups) == frozenset().union(*linking)
    # No group is larger than it has to be: any two parts of it share a file that moved keys.
    for group in groups:
        for day in group:
            reached = {day}
            while grown := [own for own in linking if not own.isdisjoint(reached) and not own <= reached]:
                reached.update(*grown)
            assert reached == group
