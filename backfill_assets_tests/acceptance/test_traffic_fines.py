"""The real events: landed, published under the defective version, restated, rolled back; rows equal the oracle's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.partitions import DayRange, Grain, partitions_over
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.settings import Settings
from backfill_assets.staleness.decide import Cause
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests import operations
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.shop import ticking_clock

BRONZE, SILVER, GOLD = "bronze.case_events", "silver.case_sla_daily", "gold.sla_breach_monthly"
QUARTER = DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30))
WEEK = DayRange.inclusive(date(2006, 7, 10), date(2006, 7, 16))
KEY = ["case_id", "clock", "business_date"]

NOTIFIED = "rtfm-0248648"
"""An event of 2006-03-15 in UTC that started the payment clock of case N87647, which nothing stopped in 150 days."""
CHANGED = DayRange.inclusive(date(2006, 7, 1), date(2006, 8, 13))
"""The days of the quarter on which that clock was tracked."""


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, traffic_fines: Path) -> Iterator[Workspace]:
    environment = {
        "BACKFILL_HOME": str(tmp_path_factory.mktemp("fines")),
        "BACKFILL_REFERENCE": str(traffic_fines / "reference"),
        **SPARK_ENVIRONMENT,
    }
    opened = Workspace.open(
        Settings.from_environment(environment), clock=ticking_clock(NOON), open_session=lambda: spark
    )
    operations.land(opened, BRONZE, traffic_fines / "events.parquet", on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(opened, BRONZE, partitions=None, by="ana", reason="the whole log")
    assert load is not None
    _published(opened, load.run_id)
    yield opened
    opened.close()


def _published(ws: Workspace, run_id: str) -> str:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ben")
    return run_id


def _restated(ws: Workspace, table: str, version: str | None, days: DayRange = QUARTER) -> str:
    request = PlanRequest(table=table, days=days, reason="deadlines", by="ana", transform_version=version)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.approve(ws, run_id, by="ben")
    return _published(ws, run_id)


def _rows(ws: Workspace, table: str, **filters: Any) -> pd.DataFrame:
    rows: pd.DataFrame = ws.lake.open(table).to_pyarrow_table(**filters).to_pandas()
    return rows


def _equals_expected(ws: Workspace, expected: Path, version: str) -> None:
    rows = _rows(ws, SILVER)
    counts = rows.groupby(["business_date", "clock", "sla_state"]).size().rename("rows").reset_index()
    counts["business_date"] = counts["business_date"].astype(str)
    wanted = pd.read_csv(expected / f"case_sla_daily_counts_2006Q3_{version}.csv")
    keys = ["business_date", "clock", "sla_state"]
    pd.testing.assert_frame_equal(
        counts.sort_values(keys, ignore_index=True), wanted.sort_values(keys, ignore_index=True), check_dtype=False
    )
    week = pd.read_parquet(expected / f"case_sla_daily_2006-07-10_2006-07-16_{version}.parquet")
    inside = rows[rows["business_date"].isin(list(WEEK))][list(week.columns)]
    pd.testing.assert_frame_equal(
        inside.sort_values(KEY, ignore_index=True), week.sort_values(KEY, ignore_index=True), check_dtype=False
    )


def _months_equal_expected(ws: Workspace, expected: Path, version: str) -> None:
    wanted = pd.read_csv(expected / f"sla_breach_monthly_2006Q3_{version}.csv")
    rows = _rows(ws, GOLD)[list(wanted.columns)]
    rows["month"] = rows["month"].astype(str)
    keys = ["month", "jurisdiction", "clock"]
    pd.testing.assert_frame_equal(
        rows.sort_values(keys, ignore_index=True), wanted.sort_values(keys, ignore_index=True), check_dtype=False
    )


@pytest.fixture(scope="module")
def corrected(ws: Workspace, traffic_fines: Path) -> str:
    """The run that restated the quarter, rolled back in the end."""
    return _wrong_right_and_brought_back(ws, traffic_fines)


def test_the_quarter_is_published_wrong_restated_right_and_brought_back(corrected: str) -> None:
    assert corrected


def _wrong_right_and_brought_back(ws: Workspace, traffic_fines: Path) -> str:
    expected = traffic_fines / "expected"
    with ws.ledger.read() as reader:
        bronze = reader.versions.accepted(BRONZE)
        (landed,) = reader.imports.records()
    assert sum(1 for version in bronze.values() if version.files.files) == 4_905
    assert sum(version.rows for version in bronze.values()) == landed.counts.accepted == 561_470

    _restated(ws, SILVER, "2.4.1")
    _equals_expected(ws, expected, "2.4.1")
    before = set(ws.lake.open(SILVER).file_uris())
    _restated(ws, GOLD, None)
    _months_equal_expected(ws, expected, "2.4.1")

    corrected = _restated(ws, SILVER, "3.1.0")
    _equals_expected(ws, expected, "3.1.0")
    _restated(ws, GOLD, None)
    _months_equal_expected(ws, expected, "3.1.0")

    with ws.ledger.read() as reader:
        compared = [r for r in reader.candidates.gate_results(corrected) if r.gate == "compared_with_accepted"]
    # Every event of this log is at local midnight, so the defect moved every row that both versions have.
    assert sum(r.observed["changed"] for r in compared) == 655_785
    assert sum(r.observed["unchanged"] for r in compared) == 0
    assert len(compared) == len(partitions_over(Grain.DAILY, QUARTER))

    operations.rollback(ws, corrected, by="ben", reason="to see that it works")
    assert set(ws.lake.open(SILVER).file_uris()) == before
    _equals_expected(ws, expected, "2.4.1")
    assert audit(ws).problems == ()
    return corrected


def test_the_restated_quarter_is_reproduced_from_its_manifest_alone(ws: Workspace, corrected: str) -> None:
    outcome = operations.reproduce(ws, corrected, by="ana")
    assert outcome.identical
    assert (outcome.partitions, outcome.rows) == (92, 661_899)
    assert audit(ws).problems == ()


def test_one_corrected_event_moves_only_the_days_and_months_whose_rows_really_change(
    ws: Workspace, corrected: str, traffic_fines: Path, tmp_path: Path
) -> None:
    operations.approve(ws, corrected, by="ben")
    operations.publish(ws, corrected, by="ben")
    _restated(ws, SILVER, None, DayRange.inclusive(date(2006, 11, 15), date(2006, 11, 30)))
    assert _causes(ws) == {Cause.NEVER_BUILT}  # the autumn between the quarter and the fifteenth of November

    events = pd.read_parquet(traffic_fines / "events.parquet").set_index("event_id")
    event = events.loc[NOTIFIED]
    assert event["event_type"] == "Insert Fine Notification"
    correction = {
        "event_id": NOTIFIED,
        "case_id": event["case_id"],
        "jurisdiction": event["jurisdiction"],
        "event_type": "Add penalty",
        "event_time": event["event_time"].isoformat(),
        "schema_version": 1,
    }
    path = tmp_path / "correction.jsonl"
    path.write_text(json.dumps(correction) + "\n", encoding="utf-8")
    operations.land(ws, BRONZE, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="a correction")
    assert load is not None
    assert load.manifest.partitions == (date(2006, 3, 15),)
    _published(ws, load.run_id)

    day = DayRange.inclusive(date(2006, 3, 15), date(2006, 3, 15))
    planned = operations.plan_set(ws, SetRequest(reason="a correction", by="ana", because=((BRONZE, day),)))
    assert isinstance(planned, PlannedSet)
    # The window of a day is 251 days back and one ahead: the fifteenth of March reaches up to 21 November.
    reached = [*QUARTER, *DayRange.inclusive(date(2006, 11, 15), date(2006, 11, 21))]
    days = [p for plan in planned.plans if plan.manifest.table == SILVER for p in plan.manifest.partitions]
    months = [p for plan in planned.plans if plan.manifest.table == GOLD for p in plan.manifest.partitions]
    assert days == reached
    assert months == [date(2006, 7, 1), date(2006, 8, 1), date(2006, 9, 1)]

    for member in planned.manifest.members:
        operations.stage(ws, member.run_id, actor="ana")
        operations.gate(ws, member.run_id, actor="ana")
    operations.approve_set(ws, planned.manifest.set_id, by="ben")
    operations.publish_set(ws, planned.manifest.set_id, by="ben")
    assert _moved(ws, planned, SILVER) == (list(CHANGED), [d for d in reached if d not in CHANGED])
    assert _moved(ws, planned, GOLD) == ([date(2006, 7, 1), date(2006, 8, 1)], [date(2006, 9, 1)])
    assert _causes(ws) == {Cause.NEVER_BUILT}  # the autumn between the quarter and the fifteenth of November
    assert audit(ws).problems == ()


def _causes(ws: Workspace) -> set[Cause]:
    """Why anything is stale."""
    found = [stretch for table in operations.stale_tables(ws) for stretch in table.ranges]
    return {reason.cause for stretch in found for reason in stretch.reasons}


def _moved(ws: Workspace, planned: PlannedSet, table: str) -> tuple[list[date], list[date]]:
    """The partitions of a table that the set swapped, and those that it found equal."""
    run_ids = [member.run_id for member in planned.manifest.members if member.table == table]
    with ws.ledger.read() as reader:
        intents = [reader.publications.records(run_id=run_id)[0].intent for run_id in run_ids]
    changed = sorted(change.partition for intent in intents for change in intent.changes)
    return changed, sorted(found.partition for intent in intents for found in intent.verified)
