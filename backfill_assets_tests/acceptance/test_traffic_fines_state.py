"""The open clocks of the real log: a late event of 2006, restated from a snapshot, gives what a cold start gives.

A thorough run takes the whole log, 4,918 days in 163 monthly snapshots; a quick one a twentieth of the cases and two
years.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.domain import RowExpression, monthly
from backfill_assets.examples.enforcement_sla import DOMAIN as ENFORCEMENT
from backfill_assets.examples.enforcement_sla.open_cases import open_cases
from backfill_assets.examples.enforcement_sla.sources import case_events
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import ticking_clock

BRONZE, TABLE = case_events.name, open_cases.name
WHOLE = DayRange.inclusive(date(1999, 12, 31), date(2013, 6, 30))
PART = DayRange.inclusive(date(2005, 11, 1), date(2007, 10, 31))
LATE_ON = datetime(2006, 5, 20, 10, tzinfo=UTC)
BY_MONTH = replace(
    open_cases,
    partition=monthly("as_of_date"),
    since=None,
    keep=None,
    gates=tuple(
        gate for gate in open_cases.gates if not (isinstance(gate, RowExpression) and "as_of_date" in gate.condition)
    ),
)
"""A snapshot a month instead of a day: the same function."""
DOMAIN = replace(ENFORCEMENT, sources=(case_events,), derived=(BY_MONTH,))


@dataclass(frozen=True, kw_only=True)
class Log:
    """The events that are landed, and the days that they are of."""

    days: DayRange
    events: pd.DataFrame

    @property
    def paid(self) -> tuple[str, date]:
        """A case that was notified before the late event and closed within months after it, with the month of that."""
        appealed = self.events[self.events["event_type"].str.contains("Appeal")]["case_id"]
        others = self.events[~self.events["case_id"].isin(appealed)]
        notified = others[others["event_type"] == "Insert Fine Notification"].groupby("case_id")["event_time"].max()
        closing = others[others["event_type"].isin(["Payment", "Send for Credit Collection"])]
        closed = closing.groupby("case_id")["event_time"].min().reindex(notified.index)
        chosen = notified.between("2006-01-01", "2006-05-15") & closed.between("2006-06-03", "2006-10-28")
        case_id = str(min(chosen.index[chosen]))
        return case_id, date(2006, closed[case_id].month, 1)


@pytest.fixture(scope="module")
def log(traffic_fines: Path) -> Log:
    events = pq.read_table(traffic_fines / "events.parquet").to_pandas()
    if is_thorough():
        return Log(days=WHOLE, events=events)
    kept = events["event_time"].between("2005-11-01", "2007-11-01", inclusive="left")
    return Log(days=PART, events=events[kept & (events["case_id"].str[1:].astype(int) % 20 == 11)])


def opened(home: Path, reference: Path, spark: SparkSession, first_day: date, *, at: datetime = NOON) -> Workspace:
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_REFERENCE": str(reference),
        "BACKFILL_FIRST_DAY": str(first_day),
        **SPARK_ENVIRONMENT,
    }
    settings = Settings.from_environment(environment)
    ws = Workspace.open(settings, clock=ticking_clock(at), open_session=lambda: spark)
    return replace(ws, domain=DOMAIN)


def built(ws: Workspace, path: Path, days: DayRange | None = None) -> None:
    """Lands a file and builds the days that it touches, or of these all that have no event too."""
    operations.land(ws, BRONZE, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    chosen = tuple(days) if days else None
    empty = operations.days_without_events(ws, BRONZE, chosen or ())
    run = operations.plan_load(ws, BRONZE, partitions=chosen, by="ana", reason="landed", empty=empty)
    assert run is not None
    through(ws, run.run_id)


def through(ws: Workspace, run_id: str) -> None:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    assert operations.state_of(ws, run_id) is RunState.PASSED
    operations.publish(ws, run_id, by="ben")


def cold_start(ws: Workspace, days: DayRange) -> Manifest:
    manifest = operations.plan(ws, PlanRequest(table=TABLE, days=days, reason="cold", by="ana")).manifest
    assert manifest.base is None
    operations.approve(ws, manifest.run_id, by="ben")
    through(ws, manifest.run_id)
    return manifest


def stale_set(ws: Workspace) -> tuple[str, Manifest]:
    planned = operations.plan_set(ws, SetRequest(reason="late", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    (plan,) = planned.plans
    return planned.manifest.set_id, plan.manifest


def checksums(ws: Workspace) -> Mapping[date, tuple[str, int]]:
    with ws.ledger.read() as tx:
        return {month: (held.checksum, held.rows) for month, held in tx.versions.accepted(TABLE).items()}


def rows_of_month(ws: Workspace, month: date) -> pa.Table:
    """The rows that readers see of a month, in one order."""
    columns = BY_MONTH.schema.fieldNames()
    rows = ws.lake.open(TABLE).to_pyarrow_table(columns=columns, filters=[("as_of_date", "=", month)])
    return rows.sort_by([("case_id", "ascending"), ("clock", "ascending")])


@pytest.mark.long
def test_a_late_event_restated_from_a_snapshot_gives_what_a_cold_start_gives(
    log: Log, fines_reference: Path, tmp_path: Path, spark: SparkSession
) -> None:
    case_id, paid_in = log.paid
    whole, late = tmp_path / "log.parquet", tmp_path / "late.jsonl"
    log.events.to_parquet(whole)
    record = {
        "event_id": "late",
        "case_id": case_id,
        "jurisdiction": "IT",
        "event_type": "Insert Date Appeal to Prefecture",
        "event_time": LATE_ON.isoformat(),
    }
    late.write_text(json.dumps(record) + "\n")
    ws = opened(tmp_path / "home", fines_reference, spark, log.days.start)
    built(ws, whole, log.days)
    ws.close()
    shutil.copytree(tmp_path / "home", tmp_path / "fresh")

    later = NOON + timedelta(days=30)
    ws = opened(tmp_path / "home", fines_reference, spark, log.days.start, at=later)
    began = time.monotonic()
    cold = cold_start(ws, log.days)
    cold_s = time.monotonic() - began
    built(ws, late)
    began = time.monotonic()
    set_id, manifest = stale_set(ws)
    planned_s = time.monotonic() - began
    operations.stage(ws, manifest.run_id, actor="ana")
    staged_s = time.monotonic() - began
    operations.gate(ws, manifest.run_id, actor="ana")
    operations.approve(ws, set_id, by="ben")
    operations.publish_set(ws, set_id, by="ben")
    late_s = time.monotonic() - began
    assert manifest.base is not None
    assert manifest.base.partitions[-1].partition == date(2006, 4, 1)
    with ws.ledger.read() as tx:
        staged, accepted = tx.candidates.of_run(manifest.run_id), tx.versions.accepted(TABLE)
        changed = {month for month, held in accepted.items() if held.run_id == manifest.run_id}
    assert changed == {month for month in manifest.partitions if month < paid_in}
    kept = [month for month in manifest.partitions if staged[month].files == accepted[month].files]
    assert set(kept) == changed | {month for month in manifest.partitions if month > paid_in}

    # Cold from all events before it at once, and then month by month.
    fresh = opened(tmp_path / "fresh", fines_reference, spark, log.days.start, at=later)
    built(fresh, late)
    cold_start(fresh, DayRange(date(2006, 4, 1), log.days.end))
    found, wanted = checksums(ws), checksums(fresh)
    assert {month: held for month, held in found.items() if month in wanted} == wanted
    assert wanted.keys() > set(manifest.partitions)
    compared = 0
    for month in wanted:
        rows = rows_of_month(ws, month)
        assert rows.equals(rows_of_month(fresh, month)), month
        compared += len(rows)
    assert audit(ws).problems == ()
    sys.stderr.write(
        f"{len(log.events):,} events, {len(log.days):,} days, {len(cold.partitions)} snapshots, {compared:,} rows "
        f"compared: cold {cold_s:.1f} s; of {len(manifest.partitions)} stale ones {len(changed) + 1} computed, "
        f"in {late_s:.1f} s (planned {planned_s:.1f}, staged {staged_s - planned_s:.1f}): {cold_s / late_s:.1f} times "
        "faster\n"
    )
    assert late_s * (4 if is_thorough() else 1) < cold_s
    _is_not_begun_with_when_broken(ws, tmp_path)
    fresh.close()
    ws.close()


def _is_not_begun_with_when_broken(ws: Workspace, folder: Path) -> None:
    """The snapshot before the next late event is gone, and the one before that has other bytes."""
    with ws.ledger.read() as tx:
        accepted = tx.versions.accepted(TABLE, [date(2006, 3, 1), date(2006, 4, 1)])
    edited, gone = ([folder_of(ws.lake, TABLE) / file.path for file in held.files.files] for held in accepted.values())
    gone[0].unlink()
    content = edited[0].read_bytes()
    edited[0].unlink()
    edited[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = folder / "again.jsonl"
    again.write_text((folder / "late.jsonl").read_text().replace('"late"', '"again"'))
    built(ws, again)
    _, manifest = stale_set(ws)
    assert manifest.base is not None
    assert manifest.base.partitions[-1].partition == date(2006, 2, 1)
