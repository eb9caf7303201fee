"""Days that lose all of their rows are built as empty days, also where Spark drops what it finds to be empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import Refused
from backfill_assets.landing.extract import Extract
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.upkeep.check import check
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop

DAY = date(2026, 1, 6)


@pytest.fixture
def adapting(spark: SparkSession) -> Iterator[None]:
    """Spark as people have it: it replaces a plan whose rows turn out to be none, and what observes them with it."""
    before = spark.conf.get("spark.sql.adaptive.enabled", "true")
    assert before is not None
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", before)


def built(shop: Shop) -> str:
    """What waits is built and published."""
    run = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="withdrawn")
    assert run is not None
    operations.stage(shop.ws, run.run_id, actor="ana")
    assert operations.gate(shop.ws, run.run_id, actor="ana").passed
    operations.publish(shop.ws, run.run_id, by="ana")
    return run.run_id


def rows_of(shop: Shop, run_id: str) -> Mapping[date, int]:
    with shop.ws.ledger.read() as tx:
        return {day: each.rows for day, each in tx.candidates.of_run(run_id).items()}


def sold_on(shop: Shop) -> set[date]:
    return set(shop.ws.lake.open(SALES).to_pyarrow_table(columns=["sold_on"]).column(0).to_pylist())


@pytest.mark.long
@pytest.mark.usefixtures("adapting")
def test_a_day_whose_only_sale_is_withdrawn_is_built_reproduced_and_undone(shop: Shop) -> None:
    before = sold_on(shop)
    operations.withdraw(shop.ws, SALES, {"sale_id": f"sale-{DAY}"}, by="ana", reason="never happened")
    run_id = built(shop)
    assert sold_on(shop) == before - {DAY}
    assert rows_of(shop, run_id) == {DAY: 0}
    assert [each.empty_partitions for each in check(shop.ws).tables if each.table == SALES] == [1]
    with pytest.raises(Refused, match="is withdrawn already") as refused:
        operations.withdraw(shop.ws, SALES, {"sale_id": f"sale-{DAY}"}, by="ana", reason="again")
    undo = "backfill restore imp-000002 --reason WHY --by NAME undoes the withdrawal"
    assert advised(refused.value) == undo
    assert operations.reproduce(shop.ws, run_id, by="rita").identical
    operations.rollback(shop.ws, run_id, by="ben", reason="second thoughts")
    assert sold_on(shop) == before


@pytest.mark.long
@pytest.mark.usefixtures("adapting")
def test_what_reads_days_without_rows_is_computed_in_chunks_and_proven_where_they_meet(shop: Shop) -> None:
    days = DayRange.inclusive(min(sold_on(shop)), max(sold_on(shop)))
    nothing = shop.folder / "nothing.jsonl"
    nothing.write_text("")
    stated = Extract(days=days, where={}, reason="there were none", confirmed_by="bea")
    operations.land_extract(shop.ws, SALES, [nothing], stated, by="ana")
    built(shop)
    one_by_one = AskedLimits(chunk_partitions=3)
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="in parts", by="ana", limits=one_by_one)
    run_id = operations.plan(shop.ws, request).manifest.run_id
    operations.stage(shop.ws, run_id, actor="ana")
    assert set(rows_of(shop, run_id).values()) == {0}
    gated = operations.gate(shop.ws, run_id, actor="ana")
    assert {result.gate: result.passed for result in gated.results}["warm_up"]
