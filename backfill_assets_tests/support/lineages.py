"""Tables whose rows carry the lineage of their run, or only name it, and the rows whose lineage is not there."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain.tables import Lineage
from backfill_assets.lake.append import lineage_rows
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import RECENT, Shop


def declaring(shop: Shop, declared: Lineage) -> Shop:
    """The shop without the months, whose table of days declares what its rows carry."""
    domain = shop.ws.domain
    days = replace(domain.derived_table(RECENT), lineage=declared)
    return replace(shop, ws=replace(shop.ws, domain=replace(domain, derived=(days,))))


def published(shop: Shop, days: DayRange, *, reason: str, version: str = "1.0.0") -> str:
    """A published run; not through the remembered acts, because the declarations of these tests change."""
    run_id = shop.planned(days, version=version, reason=reason)
    operations.stage(shop.ws, run_id, actor="ana")
    operations.gate(shop.ws, run_id, actor="ana")
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    return run_id


def unexplained(shop: Shop) -> list[str]:
    """The runs of rows that a reader sees and whose lineage is not there; the rows are read first."""
    lake = shop.ws.lake
    tables = [name for name in shop.ws.domain.tables if lake.exists(name)]
    seen = {
        row for name in tables for row in lake.open(name).to_pyarrow_table(columns=["_run_id"])["_run_id"].to_pylist()
    }
    return sorted(seen - {row["_run_id"] for row in lineage_rows(lake)})
