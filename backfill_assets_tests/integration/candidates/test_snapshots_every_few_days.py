"""A state with a snapshot every seven days: only those days are planned, restated, shown and read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.live import live
from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.people import LIVE
from backfill_assets.domain import Policy
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration.launch import run_in_process
from backfill_assets.planning.errors import NoSnapshot, OutsideDays
from backfill_assets.planning.impact import unbuilt
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.restatement import SetRequest
from backfill_assets.report.calendar import calendar
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains.weeks import balances, totals
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.orchestration_examples import Bench
from backfill_assets_tests.support.shop import ticking_clock
from backfill_assets_tests.support.stateful_domain import StatefulDomain, move, open_stateful_domain

BALANCES, TOTALS = balances.name, totals.name
SINCE = date(2026, 1, 3)
WEEKS = [date(2026, 1, 9) + timedelta(days=7 * n) for n in range(4)]
"""The ends of the first four stretches of seven days."""
LAST = WEEKS[-1] + timedelta(days=3)
USUAL = [
    move(date(2026, 1, 1), "before", 1_000),
    move(SINCE, "a"),
    move(date(2026, 1, 8), "b", 20),
    move(date(2026, 1, 13), "a", 5),
    move(date(2026, 1, 20), "b", closes=True),
    move(date(2026, 1, 25), "c", 7),
    move(LAST, "c", 1),
]
LATE = move(date(2026, 1, 12), "b", 100, name="late")
"""Between the first snapshot and the second, of a case that is closed before the third."""


def opened(home: Path, spark: SparkSession) -> StatefulDomain:
    return open_stateful_domain(home, spark, domain="weeks", table=BALANCES)


def everything(stateful: StatefulDomain) -> None:
    """Lands moves until a few days after the fourth snapshot; a day without any is declared empty."""
    stateful.land("usual", USUAL)
    touched = {date.fromisoformat(each["at"][:10]) for each in USUAL}
    empty(stateful, [day for day in dates(date(2026, 1, 1), LAST) if day not in touched])


@pytest.mark.long
def test_days_before_a_state_begins_can_be_asked_of_all_tables(tmp_path: Path, spark: SparkSession) -> None:
    stateful = opened(tmp_path / "stateful", spark)
    before = DayRange.inclusive(date(2026, 1, 1), SINCE)
    assert [each.table for each in operations.stale_tables(stateful.ws, days=before)] == ["bronze.moves", TOTALS]
    months = DayRange.inclusive(date(2026, 1, 1), WEEKS[0])
    assert BALANCES in [each.table for each in operations.stale_tables(stateful.ws, days=months)]
    with pytest.raises(OutsideDays):
        operations.stale_tables(stateful.ws, table=BALANCES, days=before)
    with pytest.raises(OutsideDays):
        operations.stale_tables(stateful.ws, days=DayRange.inclusive(date(2025, 12, 1), SINCE))
    stateful.ws.close()


def dates(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def empty(stateful: StatefulDomain, days: list[date]) -> None:
    run = operations.plan_load(
        stateful.ws, "moves", partitions=tuple(days), empty=tuple(days), by="ana", reason="nothing"
    )
    assert run is not None
    operations.stage(stateful.ws, run.run_id, actor="ana")
    operations.gate(stateful.ws, run.run_id, actor="ana")
    operations.publish(stateful.ws, run.run_id, by="ana")


@pytest.fixture
def stateful(tmp_path: Path, spark: SparkSession) -> Iterator[StatefulDomain]:
    made = opened(tmp_path / "stateful", spark)
    everything(made)
    yield made
    made.ws.close()


@pytest.mark.long
def test_a_late_event_between_two_snapshots_is_restated_from_the_one_before_it_and_stops_where_equal(
    stateful: StatefulDomain,
) -> None:
    cold = stateful.planned(SINCE, WEEKS[2])
    assert (cold.manifest.base, list(cold.manifest.partitions)) == (None, WEEKS[:3])
    stateful.through(cold)
    newest = stateful.planned(WEEKS[3], WEEKS[3])
    assert newest.manifest.base is not None
    assert [pin.partition for pin in newest.manifest.base.partitions] == WEEKS[1:3]
    # From the snapshot of a week before and the days after it alone.
    assert list(newest.inputs[0].partitions) == dates(WEEKS[2] + timedelta(days=1), WEEKS[3])
    stateful.through(newest)
    assert stateful.verdict(newest.manifest.run_id) == (
        "2026-01-30 is the same from the snapshot of 2026-01-16 as from the snapshot of 2026-01-23"
    )
    rows = [
        (WEEKS[0], "a", 10, 1),
        (WEEKS[0], "b", 20, 1),
        (WEEKS[1], "a", 15, 2),
        (WEEKS[1], "b", 20, 1),
        (WEEKS[2], "a", 15, 2),
        (WEEKS[3], "a", 15, 2),
        (WEEKS[3], "c", 7, 1),
    ]
    assert stateful.rows() == rows
    accepted = {BALANCES: set(WEEKS), "bronze.moves": set(dates(date(2026, 1, 1), LAST))}
    assert BALANCES not in unbuilt(stateful.ws.graph, accepted)
    (fresh,) = [found for found in operations.stale_tables(stateful.ws) if found.table == BALANCES]
    assert (fresh.ranges, fresh.waiting, fresh.accepted) == ((), (), 4)

    stateful.land("late", [LATE])
    (stale,) = [found for found in operations.stale_tables(stateful.ws) if found.table == BALANCES]
    assert list(stale.partitions) == WEEKS[1:]
    (stretch,) = stale.ranges
    assert {reason.cause for reason in stretch.reasons} == {Cause.INPUT_CHANGED}
    planned, (published, *_) = stateful.restated()
    (manifest,) = [plan.manifest for plan in planned.plans if plan.manifest.table == BALANCES]
    assert list(manifest.partitions) == WEEKS[1:]
    assert manifest.base is not None
    assert [pin.partition for pin in manifest.base.partitions] == WEEKS[:1]
    assert [(each.after.partition, each.pin.partition) for each in manifest.settled] == [
        (WEEKS[1], WEEKS[2]),
        (WEEKS[2], WEEKS[3]),
    ]
    assert [change.partition for change in published.changes] == [WEEKS[1]]
    with stateful.ws.ledger.read() as tx:
        staged, now = tx.candidates.of_run(manifest.run_id), tx.versions.accepted(BALANCES)
    # The third was computed, and found equal; the fourth was not computed.
    assert staged[WEEKS[2]].files != now[WEEKS[2]].files
    assert staged[WEEKS[3]].files == now[WEEKS[3]].files
    assert audit(stateful.ws).problems == ()
    assert operations.reproduce(stateful.ws, newest.manifest.run_id, by="ana").identical
    rows[rows.index((WEEKS[1], "b", 20, 1))] = (WEEKS[1], "b", 120, 2)
    assert stateful.rows() == rows


@pytest.mark.long
def test_days_without_a_snapshot_are_refused_with_the_nearest_that_have_one(stateful: StatefulDomain) -> None:
    with pytest.raises(NoSnapshot) as refused:
        stateful.planned(WEEKS[0] + timedelta(days=1), WEEKS[1] - timedelta(days=1))
    assert refused.value.message == (
        "silver.balances has a snapshot every 7 days since 2026-01-03, and no snapshot of 2026-01-10..2026-01-15; "
        "the nearest: 2026-01-09 and 2026-01-16."
    )
    with pytest.raises(NoSnapshot, match="the nearest: 2026-01-09"):
        stateful.planned(SINCE, SINCE)
    between = DayRange.inclusive(SINCE, WEEKS[0] - timedelta(days=1))
    with pytest.raises(NoSnapshot):
        operations.stale_tables(stateful.ws, table=BALANCES, days=between)
    named = {found.table for found in operations.stale_tables(stateful.ws, days=between)}
    assert named == {"bronze.moves", TOTALS}


@pytest.mark.long
def test_the_live_path_builds_the_next_snapshot_when_the_last_of_its_days_is_there(
    tmp_path: Path, spark: SparkSession
) -> None:
    stateful = opened(tmp_path / "stateful", spark)
    ready = replace(balances, policy=Policy(live="auto"))
    domain = replace(stateful.ws.domain, derived=(ready, replace(totals, inputs={"balances": ready})))
    stateful = replace(stateful, ws=replace(stateful.ws, domain=domain))
    first_days = dates(date(2026, 1, 1), WEEKS[0])
    empty(stateful, first_days)
    stateful.through(stateful.planned(SINCE, WEEKS[0]))

    def advanced() -> str:
        found = [each.sentence for each in live(stateful.ws, Acting(by="x", recorder=Unrecorded()))]
        (said,) = [sentence for sentence in found if sentence.startswith(f"{BALANCES}: ")]
        return said

    empty(stateful, dates(WEEKS[0] + timedelta(days=1), WEEKS[1] - timedelta(days=1)))
    assert "2026-01-16, 1 day waits for its inputs: bronze.moves lacks 2026-01-16" in advanced()
    assert list(stateful.checksums()) == WEEKS[:1]
    stateful.land("last of the week", [move(WEEKS[1], "a")])
    advanced()
    assert list(stateful.checksums()) == WEEKS[:2]
    with stateful.ws.ledger.read() as tx:
        (run, *_) = tx.runs.records(table=BALANCES, limit=1)
    assert (run.manifest.requested_by, list(run.manifest.partitions)) == (LIVE, WEEKS[1:2])
    # When the snapshot is of a day that is not over, it is not yet one of the newest days.
    stateful = replace(stateful, ws=replace(stateful.ws, clock=ticking_clock(datetime(2026, 1, 20, tzinfo=UTC))))
    assert advanced() == f"{BALANCES}: its newest days are published."
    stateful.ws.close()


@pytest.mark.long
def test_a_table_of_days_reads_the_newest_snapshot_and_follows_each_of_them(stateful: StatefulDomain) -> None:
    stateful.through(stateful.planned(SINCE, WEEKS[2]))
    first = stateful.planned(SINCE, WEEKS[2], table=TOTALS)
    assert list(first.inputs[0].partitions) == WEEKS[:3]
    stateful.through(first)
    shown = {day: (as_of, total) for day, as_of, total in stateful.rows(TOTALS)}
    assert shown == {
        day: ((WEEKS[0], 30) if day < WEEKS[1] else (WEEKS[1], 35) if day < WEEKS[2] else (WEEKS[2], 15))
        for day in dates(WEEKS[0], WEEKS[2])
    }
    stateful.land("late", [LATE])
    planned = operations.plan_set(stateful.ws, SetRequest(reason="late", by="ana", stale=True))
    runs = {plan.manifest.table: plan.manifest for plan in planned.plans}  # type: ignore[union-attr]
    assert list(runs[BALANCES].partitions) == WEEKS[1:3]
    assert list(runs[TOTALS].partitions) == dates(WEEKS[1], WEEKS[2])


@pytest.mark.long
def test_dagster_and_the_calendar_show_snapshots_and_no_days_between_them(stateful: StatefulDomain) -> None:
    with open_record(stateful.ws.settings) as instance:
        made = Bench(workspace=stateful.ws, instance=instance)
        graph = made.definitions().resolve_asset_graph()
        key = next(each for each in graph.get_all_asset_keys() if each.path == ["silver", "balances"])
        definition = graph.get(key).partitions_def
        assert definition is not None
        assert definition.get_partition_keys()[:5] == [str(day) for day in [*WEEKS, WEEKS[3] + timedelta(days=7)]]
        run = stateful.planned(SINCE, WEEKS[2])
        run_id = run.manifest.run_id
        # One launch of all of its assets: there are no gaps between its partitions.
        assert run_in_process(stateful.ws, run_id, (Part.STAGE, Part.GATE), instance=instance, by="ana").succeeded
        operations.approve(stateful.ws, run_id, by="ben")
        assert run_in_process(stateful.ws, run_id, (Part.PUBLISH,), instance=instance, by="ana").succeeded
        assert made.materialized(key) == {str(day) for day in WEEKS[:3]}
        # By a person, over a range of the snapshots that pages offer.
        assets = [each for each in graph.get_all_asset_keys() if each.path[-1] == "balances"]
        launched = made.materialize(assets, WEEKS[1], WEEKS[3], by="ana")
        assert launched.success
    (shown,) = [each for each in calendar(stateful.ws, 2026, ()).tables if each.table == BALANCES]
    assert (list(shown.partitions), list(shown.accepted)) == (WEEKS[:3], WEEKS[:3])


@pytest.mark.long
def test_snapshots_of_days_that_have_none_any_more_are_neither_begun_with_nor_built_again(
    stateful: StatefulDomain,
) -> None:
    daily = replace(balances, every=1)
    domain = replace(stateful.ws.domain, derived=(daily, replace(totals, inputs={"balances": daily})))
    before = replace(stateful, ws=replace(stateful.ws, domain=domain))
    before.through(before.planned(SINCE, WEEKS[1]))
    (stale,) = [found for found in operations.stale_tables(stateful.ws) if found.table == BALANCES]
    assert list(stale.partitions) == WEEKS[:2]
    plan = stateful.planned(WEEKS[2], WEEKS[2])
    assert (plan.manifest.base, [day for day, _ in plan.skipped]) == (None, WEEKS[:2])
    again = operations.plan_set(stateful.ws, SetRequest(reason="every week", by="ana", stale=True))
    (rebuilt,) = [plan.manifest for plan in again.plans if plan.manifest.table == BALANCES]  # type: ignore[union-attr]
    assert list(rebuilt.partitions) == WEEKS[:2]
    assert stateful.gated(rebuilt.run_id) is RunState.VERIFIED
    assert [found.partitions for found in operations.stale_tables(stateful.ws) if found.table == BALANCES] == [()]
    (shown,) = [each for each in calendar(stateful.ws, 2026, ()).tables if each.table == BALANCES]
    assert list(shown.partitions) == dates(SINCE, WEEKS[1])
