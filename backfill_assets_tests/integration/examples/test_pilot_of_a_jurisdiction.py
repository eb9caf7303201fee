"""The corrected release reaches one jurisdiction first, then the rest: every row outside stays in every checksum."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.examples.enforcement_sla.case_histories import generate_events
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.examples.enforcement_sla.sources import case_events
from backfill_assets.lake.checksums import partition_checksums
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.request import PlanRequest
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

SILVER = case_sla_daily.name
DAYS = DayRange.inclusive(date(2025, 4, 1), date(2025, 4, 4))
REFERENCE = PROJECT_ROOT / "backfill_assets" / "examples" / "enforcement_sla" / "reference"
NEW_YORK = (("jurisdiction", "US-NY"),)


@pytest.fixture
def ws(tmp_path: Path, spark: SparkSession) -> Iterator[Workspace]:
    """Some hundred cases up to April, and the deadlines of four days by the defective release."""
    events = [
        {
            "event_id": each.event_id,
            "case_id": each.case_id,
            "jurisdiction": each.jurisdiction,
            "event_type": each.event_type,
            "event_time": each.happened_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "schema_version": 1,
        }
        for each in generate_events(cases=400, seed=7)
        if each.happened_at.date() <= DAYS.end + timedelta(days=1)
    ]
    first = min(str(each["event_time"])[:10] for each in events)
    environment = {
        **shop_environment(tmp_path / "home"),
        "BACKFILL_DOMAIN": "backfill_assets.examples.enforcement_sla",
        "BACKFILL_FIRST_DAY": first,
        "BACKFILL_REFERENCE": str(REFERENCE),
    }
    (tmp_path / "home").mkdir()
    clock = ticking_clock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    opened = Workspace.open(Settings.from_environment(environment), clock=clock, open_session=lambda: spark)
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in events), encoding="utf-8")
    operations.land(opened, case_events.name, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    days = tuple(DayRange.inclusive(date.fromisoformat(first), DAYS.end + timedelta(days=1)))
    silent = operations.days_without_events(opened, case_events.name, days)
    load = operations.plan_load(opened, case_events.name, partitions=days, by="ana", reason="the log", empty=silent)
    assert load is not None
    through(opened, load.run_id)
    published(opened, version="2.4.1")
    yield opened
    opened.close()


def through(ws: Workspace, run_id: str) -> None:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    assert operations.state_of(ws, run_id) is RunState.PASSED
    operations.publish(ws, run_id, by="ben")


def published(ws: Workspace, *, scope: Scope | None = None, version: str = "3.1.0") -> str:
    request = PlanRequest(table=SILVER, days=DAYS, reason="a defect", by="ana", transform_version=version, scope=scope)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.approve(ws, run_id, by="ben")
    through(ws, run_id)
    return run_id


def checksums(ws: Workspace, *, inside: bool) -> Mapping[date, str]:
    """Of the accepted rows of New York, or of all others, by day."""
    is_inside = sf.col("jurisdiction") == "US-NY"
    with ws.ledger.read() as tx:
        files = [version.files for version in tx.versions.accepted(SILVER, tuple(DAYS)).values()]
    rows = rows_of(ws, case_sla_daily, files).where(is_inside if inside else ~is_inside)
    return partition_checksums(rows, "business_date", business_schema(case_sla_daily))


@pytest.mark.long
def test_a_pilot_of_one_jurisdiction_then_the_rest(ws: Workspace) -> None:
    inside, outside = checksums(ws, inside=True), checksums(ws, inside=False)
    assert set(inside) == set(outside) == set(DAYS)
    pilot = published(ws, scope=Scope(where=NEW_YORK))
    assert checksums(ws, inside=False) == outside
    piloted = checksums(ws, inside=True)
    assert piloted != inside
    rest = published(ws, scope=Scope(where=NEW_YORK, is_rest=True))
    assert checksums(ws, inside=True) == piloted
    assert checksums(ws, inside=False) != outside
    version = ws.lake.open(SILVER).version()
    published(ws)
    assert ws.lake.open(SILVER).version() == version
    for run_id in (rest, pilot):
        operations.rollback(ws, run_id, by="cara", reason="was right before")
    assert (checksums(ws, inside=True), checksums(ws, inside=False)) == (inside, outside)
    assert audit(ws).problems == ()
