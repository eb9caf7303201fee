"""Runs that have passed and wait for an approval, planned under several policies, beside what readers see."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import Domain, Policy
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, ticking_clock

FINANCE = Policy(approvers=("finance",))
AUTO = Policy(backfill="auto")
RUNS = {"plain": (4, Policy()), "finance": (5, FINANCE), "auto": (6, AUTO)}
"""By the reason of the run: its day of January, and the policy under which it was planned."""


def day_of(name: str) -> date:
    """The one partition of a run that waits."""
    return date(2026, 1, RUNS[name][0])


def declared(shop: Shop, policy: Policy) -> Shop:
    """The same shop, where the table is declared with another policy by now."""
    table = replace(recent_sales, policy=policy)
    domain = Domain(name="example", package="backfill_assets_tests.domains.example", sources=(sales,), derived=(table,))
    return replace(shop, ws=replace(shop.ws, domain=domain))


def add_waiting_runs(home: Path, spark: SparkSession) -> None:
    """Plans, stages and gates one run per policy, by the present release where readers see the earlier one."""
    shop = open_shop(home, clock=ticking_clock(NOON.replace(hour=14)), spark=spark)
    for name, (_, policy) in RUNS.items():
        shop.staged(declared(shop, policy).planned(DayRange.inclusive(day_of(name), day_of(name)), reason=name))
    shop.ws.close()


def run_of(ws: Workspace, name: str) -> str:
    """The id of a run that waits."""
    with ws.ledger.read() as reader:
        return next(run.run_id for run in reader.runs.records(table=RECENT) if run.manifest.reason == name)
