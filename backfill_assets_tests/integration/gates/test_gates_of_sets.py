"""A gate of a table in a set that reads another table of the set is given its new rows, if it comes before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.domain import Domain, failing
from backfill_assets.ledger.states import SetState
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains.example import recent_sales, sales, sales_monthly
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.month import CARNIVAL, open_month, planned_set, ready_set, set_state
from backfill_assets_tests.support.shop import Shop, sale

AS_DAYS = """
    SELECT c.month, s.amount AS expected, c.amount AS found
    FROM candidate AS c JOIN (
        SELECT trunc(day, 'month') AS month, sum(amount) AS amount FROM days GROUP BY ALL
    ) AS s ON s.month = c.month
    WHERE s.amount <> c.amount
"""


@pytest.fixture
def late(tmp_path: Path, month_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """A month with a late sale, whose gate reads the days that the set restates before it."""
    copy_home(month_home, tmp_path / "home")
    opened = open_month(tmp_path / "home", spark=spark, hours=13)
    gate = failing("as_days", sql=AS_DAYS, reads={"days": recent_sales}, demands="a month is the sum of its days")
    domain = Domain(
        name="example",
        package="backfill_assets_tests.domains.example",
        sources=(sales,),
        derived=(recent_sales, replace(sales_monthly, gates=(*sales_monthly.gates, gate))),
    )
    shop = replace(opened, ws=replace(opened.ws, domain=domain))
    shop.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    yield shop
    shop.ws.close()


@pytest.mark.long
def test_a_gate_of_a_set_reads_the_candidate_of_a_table_before_its_own(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    silver, gold = (member.run_id for member in planned.manifest.members)
    with late.ws.ledger.read() as tx:
        (reads,) = tx.candidates.read_by_gates(gold)
        staged = tx.candidates.digests(silver)
        failed = [each.gate for each in tx.candidates.gate_results(gold) if not each.passed]
    assert failed == [], "the month is not the sum of the accepted days, but of those of the set"
    (pinned,) = reads.inputs
    restated = {pin.partition: pin.digest for pin in pinned.partitions if pin.from_run == silver}
    assert restated == staged
    assert len(restated) < len(pinned.partitions), "the other days are read as they are accepted"
    operations.publish_set(late.ws, set_id, by="ben")
    assert set_state(late, set_id) is SetState.PUBLISHED
    assert audit(late.ws).problems == ()
