"""A first publication with its dependents: what was never built is planned with what it is computed from."""

from __future__ import annotations

import random
from pathlib import Path

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets_tests.faults.spark_free_compute import without_spark
from backfill_assets_tests.faults.story_generator import BUILT, DAYS, StoryGenerator
from backfill_assets_tests.support import operations

SILVER, BESIDE, GOLD = "silver.turnover", "silver.colours", "gold.palette"


def test_a_plan_with_dependents_has_those_that_were_never_built(tmp_path: Path) -> None:
    generator = StoryGenerator(home=tmp_path / "home", chance=random.Random(1))
    ws, days = generator.ws, DayRange.inclusive(BUILT[0], BUILT[-1])
    with without_spark(generator.compute):
        generator.compute.land(ws, dict.fromkeys(DAYS, (10, 1)), by="ana")
        generator.load(ws)

        def first(table: str) -> PlannedSet:
            request = SetRequest(table=table, days=days, with_dependents=True, reason="first", by="ana")
            planned = operations.plan_set(ws, request)
            assert isinstance(planned, PlannedSet)
            return planned

        # Gold reads both: as long as one of them was never built it cannot be built either.
        assert [rebuild.table for rebuild in first(SILVER).rebuilds] == [SILVER]

        run_id = operations.plan(ws, PlanRequest(table=BESIDE, days=days, reason="first", by="ana")).manifest.run_id
        generator._carry(ws, run_id)
        operations.approve(ws, run_id, by="ben")
        operations.publish(ws, run_id, by="ben")
        planned = first(SILVER)
        built = {rebuild.table: rebuild.partitions for rebuild in planned.rebuilds}
        # Of the first day gold lacks the day before.
        assert built == {SILVER: BUILT, GOLD: BUILT[1:]}

        set_id = planned.manifest.set_id
        for plan in planned.plans:
            generator._carry(ws, plan.manifest.run_id)
        operations.approve(ws, set_id, by="ben")
        operations.publish_set(ws, set_id, by="ben")
        with ws.ledger.read() as tx:
            assert set(tx.versions.accepted(GOLD)) == set(BUILT[1:])
    ws.close()
