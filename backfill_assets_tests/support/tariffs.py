"""Sales that are charged by tariffs: what a test of references plans, publishes and reads.

Sales of 10 on every day of January, and on the day before. The first tariff takes them once and counts the day alone;
the second takes them twice and counts the day before as well. The first four days are charged by the first tariff, the
others by the second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.manifest_parts import Mode, ReferenceSemantics
from backfill_assets.planning.request import THE_PRESENT, AskedReferences, Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.staleness.decide import Staleness
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_at, reference_environment
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

SALES, CHARGES, BILLS = "bronze.sales", "silver.charges", "gold.bills"
SOLD = DayRange.inclusive(date(2025, 12, 31), date(2026, 1, 31))
JANUARY = DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 31))
CURRENT, CORRECTED, AS_RECORDED = ReferenceSemantics
RECORDED = AskedReferences(semantics=AS_RECORDED)

Open = Callable[[], Workspace]


def january(first: int, last: int) -> DayRange:
    return DayRange.inclusive(date(2026, 1, first), date(2026, 1, last))


FIRST, SECOND = january(1, 4), january(5, 31)


def environment(home: Path) -> Mapping[str, str]:
    return {
        **shop_environment(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.tariff",
        "BACKFILL_FIRST_DAY": str(SOLD.start),
        **reference_environment(home),
    }


def opened(home: Path, spark: SparkSession) -> Workspace:
    """A process that starts: it reads the references as they are now."""
    clock = ticking_clock(datetime(2026, 6, 1, 12, tzinfo=UTC))
    return Workspace.open(Settings.from_environment(environment(home)), clock=clock, open_session=lambda: spark)


def write(home: Path, name: str, version: str, factor: int, days_back: int = 0) -> None:
    write_file(folder_at(Settings.from_environment(environment(home)).reference), name, version, factor, days_back)


def write_file(folder: Path, name: str, version: str, factor: int, days_back: int = 0) -> None:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'version: "{version}"\nfactor: {factor}\ndays_back: {days_back}\n', encoding="utf-8")


def land(ws: Workspace, file: str, amounts: Mapping[date, int], *, approver: str = "") -> None:
    records = [{"sale_id": f"{file}-{d}", "sold_at": f"{d}T12:00:00Z", "amount": n} for d, n in amounts.items()]
    path = ws.settings.home / file
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    operations.land(ws, "sales", path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    run = operations.plan_load(ws, "sales", partitions=None, by="ana", reason="landed")
    assert run is not None
    operations.stage(ws, run.run_id, actor="ana")
    operations.gate(ws, run.run_id, actor="ana")
    if approver:
        operations.approve(ws, run.run_id, by=approver)
    operations.publish(ws, run.run_id, by="ana")


def plan(
    ws: Workspace,
    days: DayRange,
    asked: AskedReferences = THE_PRESENT,
    *,
    table: str = CHARGES,
    mode: Mode = Mode.BACKFILL,
) -> Plan:
    return operations.plan(
        ws, PlanRequest(table=table, days=days, reason="why not", by="ana", mode=mode, references=asked)
    )


def plan_set(ws: Workspace, asked: AskedReferences, *days: DayRange) -> PlannedSet:
    because = tuple((SALES, some) for some in days)
    planned = operations.plan_set(ws, SetRequest(reason="why not", by="ana", because=because, references=asked))
    assert isinstance(planned, PlannedSet)
    return planned


def published(ws: Workspace, planned: Plan) -> str:
    run_id = planned.manifest.run_id
    # Approved before it is measured, it waits for its publication even where it would change nothing.
    operations.approve(ws, run_id, by="ben")
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ben")
    return run_id


def published_set(ws: Workspace, planned: PlannedSet) -> str:
    set_id = planned.manifest.set_id
    operations.approve(ws, set_id, by="ben")
    for each in planned.plans:
        operations.stage(ws, each.manifest.run_id, actor="ana")
        operations.gate(ws, each.manifest.run_id, actor="ana")
    operations.publish_set(ws, set_id, by="ben")
    return set_id


def amounts(ws: Workspace, table: str = CHARGES) -> Mapping[date, int]:
    column = "day" if table == CHARGES else "month"
    rows = ws.lake.open(table).to_pyarrow_table(columns=[column, "amount"]).to_pylist()
    assert len({row[column] for row in rows}) == len(rows)
    return {row[column]: row["amount"] for row in rows}


def charged(ws: Workspace, days: Iterable[date]) -> set[int]:
    found = amounts(ws)
    return {found[day] for day in days}


def versions(planned: Plan) -> list[tuple[str, str, ReferenceSemantics]]:
    return [(pinned.name, pinned.version, pinned.semantics) for pinned in planned.manifest.references]


def window(planned: Plan) -> object:
    return planned.inputs[0].window


def stale(ws: Workspace, table: str = CHARGES) -> Staleness:
    (found,) = operations.stale_tables(ws, table=table)
    return found
