"""Each input by its own window: a long one on events, none on a slow dimension, months on a monthly table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

WORTH, QUARTER, GROWTH = "silver.worth", "gold.quarter", "gold.growth"
SOLD = DayRange.inclusive(date(2026, 1, 2), date(2026, 5, 31))
RATED = DayRange.inclusive(date(2026, 2, 1), date(2026, 5, 31))
"""No rate is known before the first day that is valued."""
MARCH = date(2026, 3, 10)
APRIL, MAY = date(2026, 4, 1), date(2026, 5, 1)


def land(ws: Workspace, source: str, file: str, records: list[dict[str, object]]) -> None:
    path = ws.settings.home / file
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    operations.land(ws, source, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    run = operations.plan_load(ws, source, partitions=None, by="ana", reason="landed")
    assert run is not None
    operations.stage(ws, run.run_id, actor="ana")
    operations.gate(ws, run.run_id, actor="ana")
    operations.publish(ws, run.run_id, by="ana")


def sold(day: date, amount: int = 10, name: str = "s") -> dict[str, object]:
    return {"sold_id": f"{name}-{day}", "sold_at": f"{day}T12:00:00Z", "amount": amount}


def rated(day: date, rate: int = 2, name: str = "r") -> dict[str, object]:
    return {"rated_id": f"{name}-{day}", "rated_at": f"{day}T12:00:00Z", "rate": rate}


def plan(ws: Workspace, table: str, days: DayRange) -> Plan:
    return operations.plan(ws, PlanRequest(table=table, days=days, reason="why not", by="ana"))


def published(ws: Workspace, planned: Plan) -> None:
    run_id = planned.manifest.run_id
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.approve(ws, run_id, by="ben")
    operations.publish(ws, run_id, by="ben")


def amounts(ws: Workspace, table: str) -> Mapping[date, int]:
    column = "day" if table == WORTH else "month"
    rows = ws.lake.open(table).to_pyarrow_table(columns=[column, "amount"]).to_pylist()
    return {row[column]: row["amount"] for row in rows}


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Workspace]:
    """Sales and rates have landed; February to May are published in every table that can have them."""
    home = tmp_path_factory.mktemp("rates")
    environment = {
        **shop_environment(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.rates",
        "BACKFILL_FIRST_DAY": str(SOLD.start),
    }
    clock = ticking_clock(datetime(2026, 6, 1, 12, tzinfo=UTC))
    opened = Workspace.open(Settings.from_environment(environment), clock=clock, open_session=lambda: spark)
    land(opened, "sales", "sales.jsonl", [sold(day) for day in SOLD])
    land(opened, "rates", "rates.jsonl", [rated(day) for day in RATED])
    yield opened
    opened.close()


@pytest.mark.long
def test_a_slow_dimension_has_no_warm_up_of_its_own(ws: Workspace) -> None:
    planned = plan(ws, WORTH, RATED)
    assert planned.missing == {}
    sales, rates = planned.inputs
    assert (sales.partitions[0], len(sales.warm_up)) == (SOLD.start, 30)
    assert (rates.partitions, rates.warm_up) == (tuple(RATED), ())
    published(ws, planned)
    assert amounts(ws, WORTH) == dict.fromkeys(RATED, 31 * 10 * 2)

    # A month reads the days of the two months before it, and another monthly table the month before.
    of_quarter = plan(ws, QUARTER, DayRange.inclusive(APRIL, SOLD.last))
    (read,) = of_quarter.inputs
    assert (read.partitions, len(read.warm_up)) == (tuple(RATED), 28 + 31)
    published(ws, of_quarter)
    assert amounts(ws, QUARTER) == {APRIL: (28 + 31 + 30) * 620, MAY: (31 + 30 + 31) * 620}
    of_growth = plan(ws, GROWTH, DayRange.inclusive(MAY, SOLD.last))
    of_months, of_days = of_growth.inputs
    assert (of_months.partitions, of_months.warm_up) == ((APRIL, MAY), (APRIL,))
    assert (len(of_days.partitions), of_days.warm_up) == (31, ())
    published(ws, of_growth)
    assert amounts(ws, GROWTH) == {MAY: 3 * 620}
    assert [found.ranges for found in operations.stale_tables(ws)] == [()] * 5


@pytest.mark.long
def test_the_proof_reads_a_week_more_of_each_input(ws: Workspace) -> None:
    alone = plan(ws, WORTH, DayRange.inclusive(RATED.last, RATED.last)).manifest
    assert alone.proof is not None
    assert [(more.argument, more.back, more.ahead) for more in alone.proof.more] == [("sales", 7, 7), ("rates", 7, 7)]
    operations.stage(ws, alone.run_id, actor="ana")
    operations.gate(ws, alone.run_id, actor="ana")
    with ws.ledger.read() as reader:
        (found,) = [result for result in reader.candidates.gate_results(alone.run_id) if result.gate == "warm_up"]
    assert verdict_words(found) == "the same 1 row with 7 more days back"


@pytest.mark.long
def test_a_corrected_day_of_the_dimension_restates_exactly_that_day(ws: Workspace) -> None:
    land(ws, "rates", "corrected.jsonl", [rated(MARCH, rate=3)])
    (found,) = [each for each in operations.stale_tables(ws) if each.table == WORTH]
    assert found.partitions == (MARCH,)
    ((reason,),) = (stale.reasons for stale in found.ranges)
    assert (reason.cause, reason.name) == (Cause.INPUT_CHANGED, "bronze.rates")
    assert reason.days == (DayRange.inclusive(MARCH, MARCH),)

    request = SetRequest(reason="a rate was wrong", by="ana", because=(("bronze.rates", reason.days[0]),))
    planned = operations.plan_set(ws, request)
    assert isinstance(planned, PlannedSet)
    assert {each.manifest.table: each.manifest.partitions for each in planned.plans} == {
        WORTH: (MARCH,),
        # April and May read March; growth of May reads both of them.
        QUARTER: (APRIL, MAY),
        GROWTH: (MAY,),
    }
    assert len(planned.plans[0].inputs[0].warm_up) == 30
    assert planned.plans[0].inputs[1].warm_up == ()
    for member in planned.manifest.members:
        operations.stage(ws, member.run_id, actor="ana")
        operations.gate(ws, member.run_id, actor="ana")
    operations.approve(ws, planned.manifest.set_id, by="ben")
    operations.publish_set(ws, planned.manifest.set_id, by="ben")
    assert amounts(ws, WORTH) == {**dict.fromkeys(RATED, 620), MARCH: 930}
    assert amounts(ws, QUARTER) == {APRIL: 89 * 620 + 310, MAY: 92 * 620 + 310}
    assert amounts(ws, GROWTH) == {MAY: 3 * 620}
    assert [each.ranges for each in operations.stale_tables(ws)] == [()] * 5


@pytest.mark.long
def test_a_corrected_sale_reaches_the_31_days_that_read_it(ws: Workspace) -> None:
    request = SetRequest(reason="what if", by="ana", because=(("bronze.sales", DayRange.inclusive(MARCH, MARCH)),))
    planned = operations.plan_set(ws, request)
    assert isinstance(planned, PlannedSet)
    reached = {each.manifest.table: each.manifest.partitions for each in planned.plans}
    assert reached[WORTH] == tuple(DayRange.inclusive(MARCH, date(2026, 4, 9)))
