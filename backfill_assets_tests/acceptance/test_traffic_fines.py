"""The real events: landed, published under the defective version, restated, rolled back; rows equal the oracle's.

A quick run takes a twentieth of the cases and four days, with all days that they read; a thorough one the whole log
and a quarter, with its months.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.report import report_html
from backfill_assets.calendar.partitions import DayRange, Grain, partitions_over
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, Window
from backfill_assets.examples.enforcement_sla import DOMAIN as ENFORCEMENT
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.examples.enforcement_sla.sources import case_events
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.imports import ImportCounts
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.report import run_report
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.requests.errors import OnlyPart
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import ticking_clock

BRONZE, SILVER, GOLD = "bronze.case_events", "silver.case_sla_daily", "gold.sla_breach_monthly"
WEEK = DayRange.inclusive(date(2006, 7, 10), date(2006, 7, 16))
KEY = ["case_id", "clock", "business_date"]

AUTUMN = DayRange.inclusive(date(2006, 11, 15), date(2006, 11, 30))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of the log is landed, what of it is restated, and which event is corrected."""

    landed: DayRange | None  #: The days whose events are landed; None for the whole log.
    restated: DayRange  #: The days that are published, restated and rolled back.
    events: int  #: How many events are landed.
    event_days: int  #: On how many days.
    rows: int  #: How many rows the restated days have.
    months: tuple[date, ...]  #: The months that are published over the restated days.
    #: Days that are published after the restated ones, so that they end where the window of an event ends.
    later: DayRange | None
    notified: str  #: An event that started the payment clock of its case, and is corrected to one that starts none.
    notified_on: date  #: Its day, in UTC.
    changed: DayRange  #: The days on which that clock was tracked.
    reached: tuple[date, ...]  #: The published days whose window holds the event.

    @property
    def causes(self) -> set[Cause]:
        """Why anything is stale: the days between the restated ones and the later ones were never built."""
        return {Cause.NEVER_BUILT} if self.later else set()

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those of its cases: every twentieth of a part of the log."""
        return rows if self.landed is None else rows[rows["case_id"].str[1:].astype(int) % 20 == 11]


SHORT = Part(
    landed=DayRange.inclusive(date(2005, 11, 1), date(2006, 7, 17)),
    restated=DayRange.inclusive(date(2006, 7, 13), date(2006, 7, 16)),
    events=2_005,
    event_days=249,
    rows=1_236,
    months=(),
    later=None,
    # Of case N92091, which was paid on the second day.
    notified="rtfm-0255476",
    notified_on=date(2006, 7, 13),
    changed=DayRange.inclusive(date(2006, 7, 14), date(2006, 7, 15)),
    reached=tuple(DayRange.inclusive(date(2006, 7, 13), date(2006, 7, 16))),
)
QUARTER = Part(
    landed=None,
    restated=DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30)),
    events=561_470,
    event_days=4_905,
    rows=661_899,
    months=(date(2006, 7, 1), date(2006, 8, 1), date(2006, 9, 1)),
    later=AUTUMN,
    # Of case N87647; not stopped in 150 days. The window of a day is 251 days back: 21 November is the last.
    notified="rtfm-0248648",
    notified_on=date(2006, 3, 15),
    changed=DayRange.inclusive(date(2006, 7, 1), date(2006, 8, 13)),
    reached=(
        *DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30)),
        *DayRange.inclusive(AUTUMN.start, date(2006, 11, 21)),
    ),
)


@pytest.fixture(scope="module")
def part() -> Part:
    return QUARTER if is_thorough() else SHORT


@pytest.fixture(scope="module")
def events(traffic_fines: Path, part: Part, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the part's events."""
    whole = traffic_fines / "events.parquet"
    if part.landed is None:
        return whole
    first, end = (datetime.combine(day, time(), tzinfo=UTC) for day in (part.landed.start, part.landed.end))
    table = pq.read_table(whole, filters=[("event_time", ">=", first), ("event_time", "<", end)])
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(pa.Table.from_pandas(part.of(table.to_pandas()), table.schema, preserve_index=False), path)
    return path


@pytest.fixture(scope="module")
def ws(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, fines_reference: Path, events: Path
) -> Iterator[Workspace]:
    environment = {
        "BACKFILL_HOME": str(tmp_path_factory.mktemp("fines")),
        "BACKFILL_REFERENCE": str(fines_reference),
        **SPARK_ENVIRONMENT,
    }
    opened = Workspace.open(
        Settings.from_environment(environment), clock=ticking_clock(NOON), open_session=lambda: spark
    )
    operations.land(opened, BRONZE, events, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(opened, BRONZE, partitions=None, by="ana", reason="the log")
    assert load is not None
    published(opened, load.run_id)
    yield opened
    opened.close()


def published(ws: Workspace, run_id: str) -> str:
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ben")
    return run_id


def restated(ws: Workspace, table: str, version: str | None, days: DayRange) -> str:
    request = PlanRequest(table=table, days=days, reason="deadlines", by="ana", transform_version=version)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.approve(ws, run_id, by="ben")
    return published(ws, run_id)


def _rows(ws: Workspace, table: str, **filters: Any) -> pd.DataFrame:
    rows: pd.DataFrame = ws.lake.open(table).to_pyarrow_table(**filters).to_pandas()
    return rows


def _expected_week(expected: Path, part: Part, version: str) -> pd.DataFrame:
    week = part.of(pd.read_parquet(expected / f"case_sla_daily_2006-07-10_2006-07-16_{version}.parquet"))
    return week[week["business_date"].isin(list(part.restated))]


def _expected_counts(expected: Path, part: Part, version: str) -> pd.DataFrame:
    if part.landed is None:
        return pd.read_csv(expected / f"case_sla_daily_counts_2006Q3_{version}.csv")
    return _counts(_expected_week(expected, part, version))


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    counts = rows.groupby(["business_date", "clock", "sla_state"]).size().rename("rows").reset_index()
    return counts.assign(business_date=counts["business_date"].astype(str))


def _same(found: pd.DataFrame, wanted: pd.DataFrame, keys: list[str]) -> None:
    pd.testing.assert_frame_equal(
        found.sort_values(keys, ignore_index=True), wanted.sort_values(keys, ignore_index=True), check_dtype=False
    )


def equals_expected(ws: Workspace, part: Part, expected: Path, version: str) -> None:
    rows = _rows(ws, SILVER)
    _same(_counts(rows), _expected_counts(expected, part, version), ["business_date", "clock", "sla_state"])
    week = _expected_week(expected, part, version)
    _same(rows[rows["business_date"].isin(list(WEEK))][list(week.columns)], week, KEY)


def _months_equal_expected(ws: Workspace, expected: Path, version: str) -> None:
    wanted = pd.read_csv(expected / f"sla_breach_monthly_2006Q3_{version}.csv")
    rows = _rows(ws, GOLD)[list(wanted.columns)]
    _same(rows.assign(month=rows["month"].astype(str)), wanted, ["month", "jurisdiction", "clock"])


def _report_equals_expected(ws: Workspace, run_id: str, part: Part, expected: Path) -> None:
    """What a reviewer reads of the correction, before and after, by month, jurisdiction and clock."""
    report = run_report(ws, run_id)
    assert report.breakdown is not None
    assert report.breakdown.new == ()
    for side, version in (("before", "2.4.1"), ("after", "3.1.0")):
        counts = _expected_counts(expected, part, version)
        wanted = counts.groupby([counts["business_date"].astype(str).str[:7], "clock", "sla_state"])["rows"].sum()
        found = {
            (cell.month, cell.by["clock"], state.upper()): getattr(cell, side)[state]
            for cell in report.breakdown.restated
            for state in ("breached", "met", "paused", "running")
        }
        assert {key: count for key, count in found.items() if count} == wanted.to_dict()
        rows = sum(getattr(cell, side)["rows"] for cell in report.breakdown.restated)
        assert rows == counts["rows"].sum()
        assert f"{rows:,}" in report_html(ws, run_id)
    assert report.totals is not None
    assert (report.totals.rows, report.new) == (part.rows, None)
    assert (report.from_versions, report.run.manifest.transform_version) == (("2.4.1",), "3.1.0")
    assert len(report.sample) == 20


def _months_of_report_equal_expected(ws: Workspace, run_id: str, expected: Path) -> None:
    """The figures of the regulator in the report of their run, before and after."""
    breakdown = run_report(ws, run_id).breakdown
    assert breakdown is not None
    for side, version in (("before", "2.4.1"), ("after", "3.1.0")):
        wanted = pd.read_csv(expected / f"sla_breach_monthly_2006Q3_{version}.csv")
        measures = ["tracked_cases", "breached_cases", "newly_breached_cases", "met_cases"]
        found = pd.DataFrame(
            {
                "month": f"{cell.month}-01",
                "jurisdiction": cell.by["jurisdiction"],
                "clock": cell.by["clock"],
                **{name: getattr(cell, side)[name] for name in measures},
            }
            for cell in breakdown.restated
        )
        keys = ["month", "jurisdiction", "clock"]
        _same(found, wanted[[*keys, *measures]], keys)


@pytest.fixture(scope="module")
def corrected(ws: Workspace, part: Part, events: Path, traffic_fines: Path) -> str:
    """The run that restated the part, rolled back in the end."""
    return _wrong_right_and_brought_back(ws, part, events, traffic_fines / "expected")


@pytest.mark.long
def test_a_part_of_the_log_is_published_wrong_restated_right_and_brought_back(corrected: str) -> None:
    assert corrected


def _wrong_right_and_brought_back(ws: Workspace, part: Part, events: Path, expected: Path) -> str:
    with ws.ledger.read() as reader:
        bronze = reader.versions.accepted(BRONZE)
        (landed,) = reader.imports.records()
    assert landed.counts == ImportCounts(landed=part.events, accepted=part.events)
    assert landed.ignored_columns == ("event_date_local", "event_index", "event_time_raw", "trace_index")
    days = pq.read_table(events, columns=["event_time"])["event_time"].to_pandas().dt.date.value_counts()
    assert {day: version.rows for day, version in bronze.items() if version.rows} == days.to_dict()
    assert (len(days), len(bronze)) == (part.event_days, (days.index.max() - days.index.min()).days + 1)

    restated(ws, SILVER, "2.4.1", part.restated)
    equals_expected(ws, part, expected, "2.4.1")
    before = set(ws.lake.open(SILVER).file_uris())
    if part.months:
        restated(ws, GOLD, None, part.restated)
        _months_equal_expected(ws, expected, "2.4.1")

    corrected = restated(ws, SILVER, "3.1.0", part.restated)
    equals_expected(ws, part, expected, "3.1.0")
    _report_equals_expected(ws, corrected, part, expected)
    if part.months:
        _months_of_report_equal_expected(ws, restated(ws, GOLD, None, part.restated), expected)
        _months_equal_expected(ws, expected, "3.1.0")

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
    equals_expected(ws, part, expected, "2.4.1")
    assert audit(ws).problems == ()
    return corrected


@pytest.mark.long
def test_what_was_restated_is_reproduced_from_its_manifest_alone(ws: Workspace, part: Part, corrected: str) -> None:
    outcome = operations.reproduce(ws, corrected, by="ana")
    assert outcome.identical
    assert (len(outcome.partitions), outcome.rows) == (len(part.restated), part.rows)
    assert audit(ws).problems == ()


@pytest.mark.long
def test_a_month_of_warm_up_is_caught_and_the_declared_window_passes(ws: Workspace, part: Part, corrected: str) -> None:
    proven = [verdict_words(result) for result in _proofs(ws, corrected)]
    at_the_ends = [words for words in proven if "more day" in words]
    assert at_the_ends
    # The days between the ends rest on what these showed.
    assert all(words in at_the_ends or "proven on" in words for words in proven)

    short = replace(case_sla_daily, window=Window(days_back=31, days_ahead=1))
    domain = Domain(
        name=ENFORCEMENT.name,
        package=ENFORCEMENT.package,
        sources=(case_events,),
        derived=(short,),
        references=ENFORCEMENT.references,
    )
    wrong = replace(ws, domain=domain)
    days = DayRange.inclusive(part.restated.start, part.restated.start + timedelta(days=3))
    request = PlanRequest(table=SILVER, days=days, reason="deadlines", by="ana")
    run_id = operations.plan(wrong, request).manifest.run_id
    operations.stage(wrong, run_id, actor="ana")
    operations.gate(wrong, run_id, actor="ana")
    assert operations.state_of(wrong, run_id) is RunState.BLOCKED
    found = [verdict_words(each) for each in _proofs(wrong, run_id) if each.finding is Finding.DIFFERENT]
    assert found
    for verdict in found:
        assert "more day" in verdict
        assert verdict.endswith("the window is too short, or the transform does not give the same rows twice")
    with wrong.ledger.read() as reader:
        failed = {result.gate for result in reader.candidates.gate_results(run_id) if not result.passed}
    assert failed == {"warm_up"}, "no other gate would have noticed"


def _proofs(ws: Workspace, run_id: str) -> list[GateResult]:
    with ws.ledger.read() as reader:
        return [result for result in reader.candidates.gate_results(run_id) if result.gate == "warm_up"]


@pytest.mark.long
def test_one_corrected_event_moves_only_the_days_and_months_whose_rows_really_change(
    ws: Workspace, part: Part, corrected: str, events: Path, tmp_path: Path
) -> None:
    operations.approve(ws, corrected, by="ben")
    operations.publish(ws, corrected, by="ben")
    if part.later:
        restated(ws, SILVER, None, part.later)
    assert _causes(ws) == part.causes

    event = pd.read_parquet(events).set_index("event_id").loc[part.notified]
    assert event["event_type"] == "Insert Fine Notification"
    correction = {
        "event_id": part.notified,
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
    assert load.manifest.partitions == (part.notified_on,)
    published(ws, load.run_id)

    day = DayRange.inclusive(part.notified_on, part.notified_on)
    asked = SetRequest(reason="a correction", by="ana", because=((BRONZE, day),))
    if part.notified_on not in part.reached:
        # The day of the event itself was never built: a plan without it has to be asked for.
        with pytest.raises(OnlyPart, match=f"{SILVER} {part.notified_on}, 1 day: .* was never built"):
            operations.plan_set(ws, asked)
        asked = replace(asked, partial=True)
    planned = operations.plan_set(ws, asked)
    assert isinstance(planned, PlannedSet)
    days = [p for plan in planned.plans if plan.manifest.table == SILVER for p in plan.manifest.partitions]
    months = [p for plan in planned.plans if plan.manifest.table == GOLD for p in plan.manifest.partitions]
    assert tuple(days) == part.reached
    assert tuple(months) == part.months

    for member in planned.manifest.members:
        operations.stage(ws, member.run_id, actor="ana")
        operations.gate(ws, member.run_id, actor="ana")
    operations.approve(ws, planned.manifest.set_id, by="ben")
    operations.publish_set(ws, planned.manifest.set_id, by="ben")
    for table, partitions, changed in (
        (SILVER, part.reached, part.changed),
        (GOLD, part.months, partitions_over(Grain.MONTHLY, part.changed)),
    ):
        moved = [p for p in partitions if p in changed]
        assert _moved(ws, planned, table) == (moved, [p for p in partitions if p not in moved])
    assert _causes(ws) == part.causes
    assert audit(ws).problems == ()


def _causes(ws: Workspace) -> set[Cause]:
    """Why anything is stale."""
    found = [stretch for table in operations.stale_tables(ws) for stretch in table.ranges]
    return {reason.cause for stretch in found for reason in stretch.reasons}


def _moved(ws: Workspace, planned: PlannedSet, table: str) -> tuple[list[date], list[date]]:
    """The partitions of a table that the set swapped, and those that it found equal."""
    run_ids = [member.run_id for member in planned.manifest.members if member.table == table]
    with ws.ledger.read() as reader:
        intents = [reader.publications.records(run_id=run_id)[0] for run_id in run_ids]
    changed = sorted(change.partition for intent in intents for change in intent.changes)
    return changed, sorted(found.partition for intent in intents for found in intent.verified)
