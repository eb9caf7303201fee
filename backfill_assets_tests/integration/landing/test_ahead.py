"""Times after the landing: rejected, unless clocks may run ahead or things are planned; judged anew when a file lands
again. What was accepted is what a rebuild from the landed bytes gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.settings import Settings
from backfill_assets.domain import seconds
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.imports import OnDuplicate, imports_for_days
from backfill_assets.ledger.imports import ImportCounts
from backfill_assets_tests.support.landing_examples import EVENTS, LandingRoom, event, json_lines, landing_room

NOW = datetime(2026, 1, 15, 23, 59, tzinfo=UTC)
OTHERWISE = "; declare ahead=seconds(60) of a clock that is ahead, planned=True of a schedule"
REJECTED = f"event_time lies in the future (after it was landed){OTHERWISE}"


@dataclass
class Watch:
    """A clock that a test sets."""

    at: datetime = NOW
    seen: list[datetime] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.at


def events(*offsets: int) -> bytes:
    return json_lines(*(event(f"e{n}", (NOW + timedelta(seconds=n)).isoformat()) for n in offsets))


def days_of(offsets: Sequence[int]) -> list[date]:
    return sorted({(NOW + timedelta(seconds=n)).date() for n in offsets})


def rows(room: LandingRoom, *, from_raw: bool) -> list[str]:
    days = [date(2026, 1, 15) + timedelta(days=n) for n in range(40)]
    with room.ledger.read() as tx:
        imports = imports_for_days(tx, room.source, days)
    found = bronze_rows(
        room.spark, room.settings, room.source, imports=imports, days=days, raw_owner="read-1" if from_raw else ""
    )
    return sorted(row["event_id"] for row in found.collect())


def of(room: LandingRoom, **declared: Any) -> LandingRoom:
    return replace(room, source=replace(room.source, **declared))


@pytest.mark.long
def test_a_file_that_lands_again_is_judged_by_the_present(spark: SparkSession, settings: Settings) -> None:
    watch = Watch()
    with landing_room(spark, settings, watch, EVENTS) as room:
        room = room.of()
        first = room.land(events(0, 60, 3600)).record
        assert first.counts == ImportCounts(landed=3, accepted=1, rejected=2)
        assert (first.judged_at, {row["reason"] for row in room.quarantined[first.import_id]}) == (NOW, {REJECTED})
        assert rows(room, from_raw=False) == rows(room, from_raw=True) == ["e0"]

        watch.at = NOW + timedelta(seconds=75)
        known = room.land(events(0, 60, 3600))
        assert (known.is_new, known.record.judged_at) == (False, NOW)
        again = room.land(events(0, 60, 3600), on_duplicate=OnDuplicate.REPROCESS).record
        assert (again.import_id, again.first_seen_at, again.judged_at) == (first.import_id, NOW, watch.at)
        assert again.counts == ImportCounts(landed=3, accepted=2, rejected=1)

        # Later still the landed bytes give the same rows: they are judged by when they landed, and not by now.
        watch.at = NOW + timedelta(days=10)
        assert rows(room, from_raw=False) == rows(room, from_raw=True) == ["e0", "e60"]
        with room.ledger.read() as tx:
            assert tx.row_checks.violations() == ()


@pytest.mark.long
def test_clocks_may_run_ahead_by_what_is_declared(spark: SparkSession, settings: Settings) -> None:
    watch = Watch()
    with landing_room(spark, settings, watch, replace(EVENTS, ahead=seconds(90))) as room:
        room = room.of()
        paths = [room.write(events(0, 60, 90, 91), "a.jsonl"), room.write(events(89, 3600), "b.jsonl")]
        first, second = (each.record for each in room.land_paths(paths))
        assert (first.counts.accepted, second.counts.accepted) == (3, 1)
        reason = "event_time lies in the future (more than 90 seconds after it was landed)"
        assert {row["reason"] for kept in room.quarantined.values() for row in kept} == {reason}
        expected = ["e0", "e60", "e89", "e90"]
        assert rows(room, from_raw=False) == rows(room, from_raw=True) == expected

        # Landed again, a file is judged by the present, and still with what is declared of clocks.
        watch.at = NOW + timedelta(seconds=3_509)
        content = events(89, 3600)
        assert room.land(content, "b.jsonl", on_duplicate=OnDuplicate.REPROCESS).record.counts.accepted == 1
        watch.at = NOW + timedelta(seconds=3_510)
        assert room.land(content, "b.jsonl", on_duplicate=OnDuplicate.REPROCESS).record.counts.accepted == 2
        assert rows(room, from_raw=True) == sorted([*expected, "e3600"])


@pytest.mark.long
def test_what_is_planned_has_no_limit_but_the_end_of_the_calendar(spark: SparkSession, settings: Settings) -> None:
    with landing_room(spark, settings, Watch(), replace(EVENTS, planned=True)) as room:
        room = room.of()
        later = [event("next month", "2026-02-14T09:00:00Z"), event("2999", "2999-01-01T00:00:00Z")]
        record = room.land(json_lines(*later, event("never", "9999-12-31T23:59:59Z"))).record
        assert record.counts == ImportCounts(landed=3, accepted=2, rejected=1)
        ((rejected,),) = room.quarantined.values()
        assert rejected["reason"] == "event_time is after 9998-12-31, the last day for which something is planned"
        assert rows(room, from_raw=True) == ["next month"]


def test_what_is_planned_is_not_ahead() -> None:
    with pytest.raises(InvalidDeclaration, match="leave ahead out"):
        replace(EVENTS, planned=True, ahead=seconds(1))
