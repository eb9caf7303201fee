"""A dependent of several tables that are published together is computed once, for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.spark_free_compute import SparkFreeCompute, without_spark
from backfill_assets_tests.faults.story_generator import BUILT, DAYS, SILVER, Time, open_home
from backfill_assets_tests.support import operations

GOLD = "gold.palette"
CORRECTED = BUILT[2]


@pytest.fixture
def compute() -> Iterator[SparkFreeCompute]:
    written = SparkFreeCompute()
    with without_spark(written):
        yield written


@pytest.fixture
def ws(tmp_path: Path, compute: SparkFreeCompute) -> Iterator[Workspace]:
    """Both silver tables are published; gold was never built, and does not follow them."""
    opened = open_home(tmp_path / "home", Time())
    landed(opened, compute, amount=10, colour=1)
    for table in SILVER:
        days = DayRange.inclusive(BUILT[0], BUILT[-1])
        run_id = operations.plan(opened, PlanRequest(table=table, days=days, reason="first", by="ana")).manifest.run_id
        computed(opened, run_id)
        operations.approve(opened, run_id, by="ben")
        publication = operations.publish(opened, run_id, by="ben")
        operations.dismiss_follow_ups(opened, publication.publication_id, by="ben", reason="gold comes later")
    assert followed(opened) == ()
    yield opened
    opened.close()


def landed(ws: Workspace, compute: SparkFreeCompute, *, amount: int, colour: int) -> None:
    days = [day for day in DAYS if amount == 10 or day == CORRECTED]
    compute.land(ws, dict.fromkeys(days, (amount, colour)), by="ana")
    load = operations.plan_load(ws, "bronze.orders", partitions=None, by="ana", reason="landed")
    assert load is not None
    computed(ws, load.run_id)
    operations.publish(ws, load.run_id, by="ana")


def computed(ws: Workspace, run_id: str) -> None:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")


def ready_set(ws: Workspace) -> str:
    """Both silver tables of the day that was corrected, to be published."""
    because = (("bronze.orders", DayRange.inclusive(CORRECTED, CORRECTED)),)
    planned = operations.plan_set(ws, SetRequest(reason="corrected", by="ana", because=because))
    assert isinstance(planned, PlannedSet)
    assert {member.table for member in planned.manifest.members} == set(SILVER)
    for member in planned.manifest.members:
        computed(ws, member.run_id)
    operations.approve(ws, planned.manifest.set_id, by="ben")
    return planned.manifest.set_id


def followed(ws: Workspace) -> tuple[RunRecord, ...]:
    return operations.plan_follow_ups(ws, by="ops").runs


@pytest.mark.long
def test_two_tables_that_a_set_publishes_are_followed_by_one_run(ws: Workspace, compute: SparkFreeCompute) -> None:
    landed(ws, compute, amount=20, colour=2)
    set_id = ready_set(ws)
    half_way: list[tuple[RunRecord, ...]] = []

    def reached(point: Point) -> None:
        if point is Point.SET_TABLE_PUBLISHED:
            half_way.append(followed(ws))

    operations.publish_set(replace(ws, reached=reached), set_id, by="ben")
    assert half_way == [(), ()], "between the two tables nothing follows"
    (run,) = followed(ws)
    with ws.ledger.read() as reader:
        members = {member.run_id for member in reader.sets.get(set_id).manifest.members}
        both = {r.publication_id for r in reader.publications.records() if r.run_id in members}
    assert (len(both), set(run.manifest.cause.publications)) == (2, both)
    assert {pinned.table for pinned in run.manifest.inputs} == set(SILVER)
    assert followed(ws) == ()

    computed(ws, run.run_id)
    operations.publish(ws, run.run_id, by="follow")
    assert (followed(ws), operations.asked_follow_ups(ws)) == ((), ())
    with ws.ledger.read() as reader:
        assert [each.state for each in reader.runs.records(table=GOLD)] == [RunState.PUBLISHED]
    rows = ws.lake.open(GOLD).to_pyarrow_table().to_pylist()
    days = {row["day"]: (row["amount"], row["colours"]) for row in rows}
    # A turnover is of a day and the next one, and gold is of a day and the one before.
    assert days[CORRECTED] == ((20 + 10) + (10 + 20), 2 + 1)
    assert audit(ws).problems == ()
