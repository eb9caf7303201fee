"""What a change reaches is seldom a range: one table is one run and one commit all the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.parts import Part
from backfill_assets.application.plan import described, plan_table
from backfill_assets.application.recorder import Acting
from backfill_assets.application.requests import Restatement, execute
from backfill_assets.calendar.partitions import DayRange, Grain, days_in, describe, partitions_over
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration.assets import candidate_key, validation_key
from backfill_assets.orchestration.partitions import published_key
from backfill_assets.orchestration.recorder import dagster_recorder
from backfill_assets.orchestration.storage import open_instance
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.planning.stages import Compute
from backfill_assets.report.errors import NotAsPlanned
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.planned import SetPlan, left_out_documents
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.month import FEBRUARY, TOTALS, open_month, total
from backfill_assets_tests.support.orchestration_examples import CANDIDATE, VALIDATION, Bench, failures
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale

FIFTH, TWENTIETH = date(2026, 2, 5), date(2026, 2, 20)
REACHED = (
    *DayRange.inclusive(date(2026, 2, 4), date(2026, 2, 7)),
    *DayRange.inclusive(date(2026, 2, 19), date(2026, 2, 22)),
)
READ = (
    *DayRange.inclusive(date(2026, 2, 2), date(2026, 2, 8)),
    *DayRange.inclusive(date(2026, 2, 17), date(2026, 2, 23)),
)


@pytest.fixture
def twice(tmp_path: Path, month_home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The shop after two late sales, two weeks apart."""
    copy_home(month_home, tmp_path / "home")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    opened = open_month(tmp_path / "home", spark=spark, hours=13)
    opened.land("late.jsonl", [sale(day, amount=5, sale_id=f"late-{day}") for day in (FIFTH, TWENTIETH)])
    yield opened
    opened.ws.close()


def both(shop: Shop) -> PlannedSet:
    because = tuple((SALES, DayRange.inclusive(day, day)) for day in (FIFTH, TWENTIETH))
    planned = operations.plan_set(shop.ws, SetRequest(reason="two late sales", by="ana", because=because))
    assert isinstance(planned, PlannedSet)
    return planned


def test_one_table_of_a_set_is_one_run_and_one_commit_whatever_gaps_it_has(twice: Shop) -> None:
    ws, planned = twice.ws, both(twice)
    assert [(p.manifest.table, p.manifest.partitions) for p in planned.plans] == [
        (RECENT, REACHED),
        (TOTALS, (FEBRUARY.start,)),
    ]
    (compute,) = [stage for stage in planned.stages if isinstance(stage, Compute) and stage.table == RECENT]
    assert (compute.chunk.partitions, compute.reads[0].partitions) == (REACHED, READ), "not what lies between"
    document = SetPlan(planned=planned, left_out=left_out_documents(planned.left_out))
    assert (
        describe(Grain.DAILY, document.planned.plans[0].manifest.output)
        == "2026-02-04..2026-02-07, 2026-02-19..2026-02-22, 8 days"
    )
    set_id = planned.manifest.set_id
    silver = planned.manifest.members[0].run_id
    before = ws.lake.open(RECENT).version()

    gold = planned.manifest.members[1].run_id
    with dagster_recorder(ws.settings) as recorder:
        Restatement(ws, silver).stage(Acting(by="ana", recorder=recorder))
    assert operations.state_of(ws, silver) is RunState.PASSED
    with ws.ledger.read() as reader:
        (chunk,) = reader.candidates.chunks(silver)
    assert (chunk.partitions, chunk.input_rows) == (REACHED, len(READ) + 2), "and only that was read"
    twice.staged(gold)
    operations.approve(ws, set_id, by="ben")

    def publish(run_id: str) -> None:
        if run_id == gold:
            operations.publish(ws, run_id, by="ben")
            return
        with dagster_recorder(ws.settings) as recorder:
            execute(ws, run_id, Acting(by="ben", recorder=recorder), (Part.PUBLISH,))

    operations.publish_set(ws, set_id, by="ben", publish=publish)

    assert ws.lake.open(RECENT).version() == before + 1, "one swap"
    assert twice.amounts() == {day: 45 if day in REACHED else 40 for day in FEBRUARY}
    assert total(twice) == 28 * 40 + 8 * 5
    table = ws.domain.derived_table(RECENT)
    with open_instance(ws.settings) as instance:
        for key in (candidate_key(table), validation_key(table), published_key(table)):
            assert instance.get_materialized_partitions(key) == {day.isoformat() for day in REACHED}, key
    rebuilt = operations.reproduce(ws, silver, by="ana", sample=3)
    assert rebuilt.identical
    assert len(rebuilt.partitions) == 3
    assert [found.ranges for found in operations.stale_tables(ws)] == [(), (), ()]
    operations.rollback_set(ws, set_id, by="ben", reason="second thoughts")
    assert ws.lake.open(RECENT).version() == before + 2
    assert audit(ws).problems == ()


@pytest.mark.long
def test_a_launch_over_gaps_says_what_to_launch_before_anything_is_computed(twice: Shop) -> None:
    silver = both(twice).manifest.members[0].run_id
    given = {"by": "ana", "run_id": silver}
    with open_instance(twice.ws.settings) as instance:
        bench = Bench(workspace=twice.ws, instance=instance)
        together = bench.materialize([CANDIDATE, VALIDATION], REACHED[0], REACHED[-1], **given)
        assert f"{silver} has gaps between its partitions, so that Dagster would skip" in failures(together)[0]
        assert (
            f"with the tag backfill/run_id={silver}; or the job backfill_plan (planned {silver})"
            in failures(together)[0]
        )
        part = bench.materialize([CANDIDATE], REACHED[0], REACHED[3], **given)
        assert "launch every partition from 2026-02-04 to 2026-02-22, also those of its gaps" in failures(part)[0]
        assert operations.state_of(twice.ws, silver) is RunState.PLANNED
        for asset in (CANDIDATE, VALIDATION):
            assert bench.materialize([asset], REACHED[0], REACHED[-1], **given).success
    assert operations.state_of(twice.ws, silver) is RunState.PASSED


@pytest.mark.long
def test_a_dagster_run_names_the_range_from_the_first_to_the_last_partition_of_its_manifest(twice: Shop) -> None:
    from backfill_assets.orchestration.runs import _must_span

    silver = operations.run_named(twice.ws, both(twice).manifest.members[0].run_id)
    table = twice.ws.domain.derived_table(RECENT)
    around = partitions_over(table.partition.grain, DayRange(REACHED[0], REACHED[-1])) + (REACHED[-1],)
    assert _must_span(silver, table, around) is silver
    for other in (around[1:], around[:-1], around[:3] + around[4:], (date(2026, 2, 3), *around)):
        with pytest.raises(NotAsPlanned, match="were chosen"):
            _must_span(silver, table, other)


APART = days_in([DayRange.inclusive(date(2026, 2, 20), date(2026, 2, 21)), DayRange.inclusive(date(2026, 2, 4), FIFTH)])


@pytest.mark.long
def test_separate_ranges_of_one_plan_publish_exactly_their_days_and_nothing_between(twice: Shop) -> None:
    ws = twice.ws
    planned = plan_table(ws, PlanRequest(table=RECENT, days=APART, reason="two late sales", by="ana"))
    assert isinstance(planned, Plan)
    assert planned.manifest.partitions == tuple(APART)
    (read,) = planned.inputs
    around = [DayRange.inclusive(date(2026, 2, day - 2), date(2026, 2, day + 2)) for day in (4, 20)]
    assert read.partitions == tuple(days_in(around)), "each range has a warm-up of its own"
    assert planned.between == tuple(DayRange.inclusive(date(2026, 2, 6), date(2026, 2, 19)))
    shown = markdown_page(page_of(described(ws, planned)))
    assert "2026-02-04..2026-02-05, 2026-02-20..2026-02-21, 4 days" in shown
    assert "2026-02-06..2026-02-19, 14 days between them" in shown
    run_id = twice.staged(planned.manifest.run_id)
    operations.approve(ws, run_id, by="ben")
    before = twice.amounts()
    twice.publish(run_id)
    assert twice.amounts() == {day: 45 if day in APART else before[day] for day in FEBRUARY}
    operations.rollback(ws, run_id, by="ben", reason="second thoughts")
    assert twice.amounts() == before


@pytest.mark.long
def test_separate_ranges_are_planned_with_their_dependents_in_phases_and_as_what_is_stale(twice: Shop) -> None:
    ws = twice.ws
    asked: Any = {"reason": "two late sales", "by": "ana", "table": RECENT, "days": APART}
    sets = [
        operations.plan_set(ws, SetRequest(**asked, with_dependents=True)),
        operations.plan_set(ws, SetRequest(**asked, stale=True, partial=True)),
    ]
    for each in sets:
        assert isinstance(each, PlannedSet)
        assert {plan.manifest.table: plan.manifest.partitions for plan in each.plans} == {
            RECENT: tuple(APART),
            TOTALS: (FEBRUARY.start,),
        }
    phases = plan_table(ws, PlanRequest(**asked), AskedPhases(count=2, terms=Phases()))
    assert isinstance(phases, PlannedSet)
    assert [plan.manifest.partitions for plan in phases.plans] == [tuple(APART)[:2], tuple(APART)[2:]]
    three = plan_table(ws, PlanRequest(**asked), AskedPhases(count=3, terms=Phases()))
    assert isinstance(three, PlannedSet)
    assert [day for plan in three.plans for day in plan.manifest.partitions] == list(APART)
    pilot = PlanRequest(**asked, scope=Scope(where=(("amount", "40"),)), kind=RunPurpose.REPAIR)
    assert operations.plan(ws, pilot).manifest.partitions == tuple(APART)
    monthly = operations.plan(ws, PlanRequest(**{**asked, "table": TOTALS}))
    assert monthly.manifest.partitions == (FEBRUARY.start,), "two ranges of one month"
    assert monthly.widened == APART
