"""A month of the shop: February 2026 in silver and gold, so that a set of two tables has something to restate."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.ledger.states import SetState
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import SALES, Shop, open_shop, sale, ticking_clock

TOTALS = "gold.sales_monthly"
FEBRUARY = DayRange.inclusive(date(2026, 2, 1), date(2026, 2, 28))
SOLD = DayRange.inclusive(date(2026, 1, 30), date(2026, 3, 1))
"""What February needs: two days back and one ahead."""
CARNIVAL = date(2026, 2, 16)
REACHED = DayRange.inclusive(date(2026, 2, 15), date(2026, 2, 18))
"""The days whose window holds CARNIVAL."""
IN_MARCH = datetime(2026, 3, 10, 12, tzinfo=UTC)


def open_month(home: Path, *, spark: SparkSession | None = None, hours: int = 0) -> Shop:
    """The shop in March, some hours later than the last time."""
    return open_shop(home, clock=ticking_clock(IN_MARCH.replace(hour=hours)), spark=spark)


def stock_month(home: Path, spark: SparkSession) -> None:
    """Lands what was sold, and publishes February in both tables."""
    shop = open_month(home, spark=spark)
    shop.land("sold.jsonl", [sale(day) for day in SOLD])
    shop.published(FEBRUARY)
    month = shop.staged(shop.planned(FEBRUARY, table=TOTALS))
    operations.approve(shop.ws, month, by="ben")
    shop.publish(month)
    shop.ws.close()


def planned_set(shop: Shop, *, days: DayRange | None = None, stale: bool = False) -> PlannedSet:
    """The set that ana asks for: because of changed sales, or of everything stale."""
    because = () if stale else ((SALES, days or DayRange.inclusive(CARNIVAL, CARNIVAL)),)
    request = SetRequest(reason="a late sale", by="ana", because=because, stale=stale, name="carnival")
    planned = operations.plan_set(shop.ws, request)
    assert isinstance(planned, PlannedSet)
    return planned


def ready_set(shop: Shop, planned: PlannedSet) -> str:
    """The set, staged, gated and approved."""
    operations.approve(shop.ws, planned.manifest.set_id, by="ben")
    for member in planned.manifest.members:
        shop.staged(member.run_id)
    return planned.manifest.set_id


def total(shop: Shop) -> int:
    """What readers see of February in gold."""
    (row,) = shop.ws.lake.open(TOTALS).to_pyarrow_table(columns=["month", "amount"]).to_pylist()
    assert row["month"] == FEBRUARY.start
    return int(row["amount"])


def set_state(shop: Shop, set_id: str) -> SetState:
    """The state of a set, as the ledger has it."""
    with shop.ws.ledger.read() as reader:
        return reader.sets.get(set_id).state
