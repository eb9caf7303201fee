"""The real events: landed, published under the defective version, restated, rolled back; rows equal the oracle's.

A quick run takes the events that July 2006 reads, a thorough one the whole log and the whole quarter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
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
from backfill_assets_tests.searches import is_thorough
from backfill_assets_tests.shop import ticking_clock

BRONZE, SILVER, GOLD = "bronze.case_events", "silver.case_sla_daily", "gold.sla_breach_monthly"
WEEK = DayRange.inclusive(date(2006, 7, 10), date(2006, 7, 16))
KEY = ["case_id", "clock", "business_date"]

NOTIFIED = "rtfm-0248648"
"""An event of 2006-03-15 in UTC that started the payment clock of case N87647, which nothing stopped in 150 days."""
CHANGED = DayRange.inclusive(date(2006, 7, 1), date(2006, 8, 13))
"""The days of the quarter on which that clock was tracked."""
AUTUMN = DayRange.inclusive(date(2006, 11, 15), date(2006, 11, 30))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of the log is landed, and what of it is restated.

    Attributes:
        landed: The days whose events are landed; None for the whole log.
        restated: The days that are published, restated and rolled back.
        events: How many events are landed.
        event_days: On how many days.
        rows: How many rows the restated days have.
    """

    landed: DayRange | None
    restated: DayRange
    events: int
    event_days: int
    rows: int

    @property
    def months(self) -> tuple[date, ...]:
        return partitions_over(Grain.MONTHLY, self.restated)


MONTH = Part(
    landed=DayRange.inclusive(date(2005, 10, 1), date(2006, 12, 4)),
    restated=DayRange.inclusive(date(2006, 7, 1), date(2006, 7, 31)),
    events=62_597,
    event_days=430,
    rows=201_055,
)
QUARTER = Part(
    landed=None,
    restated=DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30)),
    events=561_470,
    event_days=4_905,
    rows=661_899,
)


@pytest.fixture(scope="module")
def part() -> Part:
    return QUARTER if is_thorough() else MONTH


@pytest.fixture(scope="module")
def events(traffic_fines: Path, part: Part, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the part's events."""
    whole = traffic_fines / "events.parquet"
    if part.landed is None:
        return whole
    first, end = (datetime.combine(day, time(), tzinfo=UTC) for day in (part.landed.start, part.landed.end))
    table = pq.read_table(whole, filters=[("event_time", ">=", first), ("event_time", "<", end)])
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(table, path)
    return path


@pytest.fixture(scope="module")
def ws(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, traffic_fines: Path, events: Path
) -> Iterator[Workspace]:
    environment = {
        "BACKFILL_HOME": str(tmp_path_factory.mktemp("fines")),
        "BACKFILL_REFERENCE": str(traffic_fines / "reference"),
        **SPARK_ENVIRONMENT,
    }
    opened = Workspace.open(
        Settings.from_environment(environment), clock=ticking_clock(NOON), open_session=lambda: spark
    )
    operations.land(opened, BRONZE, events, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(opened, BRONZE, partitions=None, by="ana", reason="the log")
    assert load is not None
    _published(opened, load.run_id)
    yield opened
    opened.close()


def _published(ws: Workspace, run_id: str) -> str:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ben")
    return run_id


def _restated(ws: Workspace, table: str, version: str | None, days: DayRange) -> str:
    request = PlanRequest(table=table, days=days, reason="deadlines", by="ana", transform_version=version)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.approve(ws, run_id, by="ben")
    return _published(ws, run_id)


def _rows(ws: Workspace, table: str, **filters: Any) -> pd.DataFrame:
    rows: pd.DataFrame = ws.lake.open(table).to_pyarrow_table(**filters).to_pandas()
    return rows


def _expected_counts(expected: Path, part: Part, version: str) -> pd.DataFrame:
    counts = pd.read_csv(expected / f"case_sla_daily_counts_2006Q3_{version}.csv")
    return counts[counts["business_date"] <= part.restated.last.isoformat()]


def _equals_expected(ws: Workspace, part: Part, expected: Path, version: str) -> None:
    rows = _rows(ws, SILVER)
    counts = rows.groupby(["business_date", "clock", "sla_state"]).size().rename("rows").reset_index()
    counts["business_date"] = counts["business_date"].astype(str)
    wanted = _expected_counts(expected, part, version)
    keys = ["business_date", "clock", "sla_state"]
    pd.testing.assert_frame_equal(
        counts.sort_values(keys, ignore_index=True), wanted.sort_values(keys, ignore_index=True), check_dtype=False
    )
    week = pd.read_parquet(expected / f"case_sla_daily_2006-07-10_2006-07-16_{version}.parquet")
    inside = rows[rows["business_date"].isin(list(WEEK))][list(week.columns)]
    pd.testing.assert_frame_equal(
        inside.sort_values(KEY, ignore_index=True), week.sort_values(KEY, ignore_index=True), check_dtype=False
    )


def _months_equal_expected(ws: Workspace, part: Part, expected: Path, version: str) -> None:
    wanted = pd.read_csv(expected / f"sla_breach_monthly_2006Q3_{version}.csv")
    wanted = wanted[wanted["month"] <= part.restated.last.isoformat()]
    rows = _rows(ws, GOLD)[list(wanted.columns)]
    rows["month"] = rows["month"].astype(str)
    keys = ["month", "jurisdiction", "clock"]
    pd.testing.assert_frame_equal(
        rows.sort_values(keys, ignore_index=True), wanted.sort_values(keys, ignore_index=True), check_dtype=False
    )


@pytest.fixture(scope="module")
def corrected(ws: Workspace, part: Part, traffic_fines: Path) -> str:
    """The run that restated the part, rolled back in the end."""
    return _wrong_right_and_brought_back(ws, part, traffic_fines / "expected")


def test_a_part_of_the_log_is_published_wrong_restated_right_and_brought_back(corrected: str) -> None:
    assert corrected


def _wrong_right_and_brought_back(ws: Workspace, part: Part, expected: Path) -> str:
    with ws.ledger.read() as reader:
        bronze = reader.versions.accepted(BRONZE)
        (landed,) = reader.imports.records()
    assert sum(1 for version in bronze.values() if version.files.files) == part.event_days
    assert sum(version.rows for version in bronze.values()) == landed.counts.accepted == part.events

    _restated(ws, SILVER, "2.4.1", part.restated)
    _equals_expected(ws, part, expected, "2.4.1")
    before = set(ws.lake.open(SILVER).file_uris())
    _restated(ws, GOLD, None, part.restated)
    _months_equal_expected(ws, part, expected, "2.4.1")

    corrected = _restated(ws, SILVER, "3.1.0", part.restated)
    _equals_expected(ws, part, expected, "3.1.0")
    _restated(ws, GOLD, None, part.restated)
    _months_equal_expected(ws, part, expected, "3.1.0")

    with ws.ledger.read() as reader:
        compared = [r for r in reader.candidates.gate_results(corrected) if r.gate == "compared_with_accepted"]
    found = {name: sum(r.observed[name] for r in compared) for name in ("changed", "unchanged", "added", "removed")}
    # Every event of this log is at local midnight, so the defect moved every row that both versions have.
    assert found["unchanged"] == 0
    assert found["changed"] + found["added"] == part.rows
    assert found["changed"] + found["removed"] == _expected_counts(expected, part, "2.4.1")["rows"].sum()
    assert len(compared) == len(part.restated)

    operations.rollback(ws, corrected, by="ben", reason="to see that it works")
    assert set(ws.lake.open(SILVER).file_uris()) == before
    _equals_expected(ws, part, expected, "2.4.1")
    assert audit(ws).problems == ()
    return corrected


def test_what_was_restated_is_reproduced_from_its_manifest_alone(ws: Workspace, part: Part, corrected: str) -> None:
    outcome = operations.reproduce(ws, corrected, by="ana")
    assert outcome.identical
    assert (outcome.partitions, outcome.rows) == (len(part.restated), part.rows)
    assert audit(ws).problems == ()


def test_one_corrected_event_moves_only_the_days_and_months_whose_rows_really_change(
    ws: Workspace, part: Part, corrected: str, events: Path, tmp_path: Path
) -> None:
    operations.approve(ws, corrected, by="ben")
    operations.publish(ws, corrected, by="ben")
    _restated(ws, SILVER, None, AUTUMN)
    assert _causes(ws) == {Cause.NEVER_BUILT}  # the days between the part and the fifteenth of November

    event = pd.read_parquet(events).set_index("event_id").loc[NOTIFIED]
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
    reached = [*part.restated, *DayRange.inclusive(AUTUMN.start, date(2006, 11, 21))]
    days = [p for plan in planned.plans if plan.manifest.table == SILVER for p in plan.manifest.partitions]
    months = [p for plan in planned.plans if plan.manifest.table == GOLD for p in plan.manifest.partitions]
    assert days == reached
    assert months == list(part.months)

    for member in planned.manifest.members:
        operations.stage(ws, member.run_id, actor="ana")
        operations.gate(ws, member.run_id, actor="ana")
    operations.approve_set(ws, planned.manifest.set_id, by="ben")
    operations.publish_set(ws, planned.manifest.set_id, by="ben")
    assert _moved(ws, planned, SILVER) == (
        [d for d in reached if d in CHANGED],
        [d for d in reached if d not in CHANGED],
    )
    changed = [month for month in part.months if month in CHANGED]
    assert _moved(ws, planned, GOLD) == (changed, [month for month in part.months if month not in changed])
    assert _causes(ws) == {Cause.NEVER_BUILT}
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
