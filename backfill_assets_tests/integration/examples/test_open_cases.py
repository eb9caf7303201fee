"""The open cases of the reference domain: what a snapshot says, from whichever earlier one it is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import EXAMPLE_REFERENCE
from backfill_assets.domain import RowExpression
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.case_histories import generate_events
from backfill_assets.examples.enforcement_sla.open_cases import open_cases
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.testing import CHECKS, Check, DomainKit
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.integration.examples.test_sla_by_the_rules import (
    CALENDAR,
    POLICY,
    awkward_events,
    bronze,
    context,
)
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.open_cases_oracle import open_clocks
from backfill_assets_tests.support.searches import examples
from backfill_assets_tests.support.sla_oracle import Event, expected_rows

TABLE = open_cases.name
FIRST_EVENT, LAST_EVENT = date(2018, 9, 27), date(2018, 12, 1)
COLUMNS = [name for name in open_cases.schema.fieldNames() if name != "as_of_date"]


def snapshot(
    spark: SparkSession,
    events: Sequence[Event],
    day: date,
    state: DataFrame | None = None,
    *,
    since: date = FIRST_EVENT,
) -> DataFrame:
    """The snapshot of a day, from an earlier one and the events since a day, or from a cold start."""
    ctx = replace(context(spark, DayRange.inclusive(day, day)), input_days={"events": DayRange.inclusive(since, day)})
    known = [each for each in events if since <= each.event_time.date() <= day]
    before = spark.createDataFrame([], open_cases.schema) if state is None else state
    frame: DataFrame = open_cases.release(None).function(before, bronze(spark, known), ctx)
    return frame


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows without the day of the snapshot, in order; instants are in UTC."""
    return by_key(frame.select(*COLUMNS).toArrow().to_pylist())


def by_key(found: Iterable[Mapping[Any, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in COLUMNS) for row in found), key=lambda row: row[:3])


def by_hand(
    events: Iterable[Event], day: date, calendar: Any = CALENDAR, policy: Any = POLICY
) -> list[tuple[Any, ...]]:
    known = pd.DataFrame([{name: getattr(e, name) for name in Event.__dataclass_fields__} for e in events])
    known["event_time"] = pd.to_datetime(known["event_time"], utc=True)
    found = open_clocks(known, calendar, policy, day + timedelta(days=1))
    return by_key(found.astype(object).where(found.notna(), None).to_dict("records"))


@pytest.mark.long
def test_snapshots_are_what_pandas_finds_walking_day_by_day_from_whichever_one_they_are_computed(
    spark: SparkSession,
) -> None:
    events = awkward_events(3, cases=examples(2_000))
    days = [date(2018, 10, 27), date(2018, 10, 28), date(2018, 11, 4), LAST_EVENT]
    expected = {day: by_hand(events, day) for day in days}
    assert min(map(len, expected.values())) > 10
    states = {row[COLUMNS.index("sla_state")] for found in expected.values() for row in found}
    assert states == {"BREACHED", "PAUSED", "RUNNING"}
    state, since = None, FIRST_EVENT
    for day in days:
        # One after the other, and each from the beginning.
        state = snapshot(spark, events, day, state, since=since).localCheckpoint()
        assert rows(state) == expected[day], day
        since = day + timedelta(days=1)
        if day == LAST_EVENT:
            assert rows(snapshot(spark, events, day)) == expected[day]


def test_a_clock_stands_where_the_daily_clocks_say_it_stands_on_that_day(spark: SparkSession) -> None:
    """Of clocks that `silver.case_sla_daily` still tracks, and which nothing has happened to since that day ended."""
    events, day = awkward_events(4, cases=examples(4_000)), date(2018, 10, 30)
    compared = 0
    daily = {
        (row[0], row[1], row[2]): row
        for row in expected_rows(events, CALENDAR, POLICY, "3.1.0", DayRange(day - timedelta(days=2), day))
        if row[10] != "MET"
    }
    for found in snapshot(spark, events, day).collect():
        row = daily.get((found.case_id, found.clock, found.counted_on))
        if row is not None and row[4] == found.started_on and row[6] == found.paused:
            same = (
                found.started_on,
                found.paused,
                found.elapsed_days,
                found.due_on,
                found.sla_state,
                found.breached_on,
            )
            assert same == (row[4], row[6], row[7], row[9], row[10], row[11])
            compared += 1
    assert compared > 100


@pytest.mark.long
def test_rows_keep_the_contract_and_every_gate(spark: SparkSession) -> None:
    found = snapshot(spark, awkward_events(5, cases=200), LAST_EVENT)
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in open_cases.schema]
    strict = spark.createDataFrame(found.collect(), open_cases.schema)  # which refuses a null where none may be
    for gate in open_cases.gates:
        if isinstance(gate, RowExpression):
            assert strict.where(~sf.expr(gate.condition)).count() == 0, gate.name


# ------------------------------------------------------------------------------------------------- governed

FIRST, LAST = date(2024, 10, 1), date(2024, 10, 12)
BEGUN = date(2024, 10, 6)
"""The first snapshot that is wanted: it is computed from all days before it at once."""


def record(event_id: str, case_id: str, event_type: str, at: datetime, jurisdiction: str = "US-NY") -> dict[str, Any]:
    return {
        "event_id": event_id,
        "case_id": case_id,
        "jurisdiction": jurisdiction,
        "event_type": event_type,
        "event_time": at.isoformat(),
    }


SHORT_CASE = [
    record("s1", "short", "CASE_OPENED", datetime(2024, 10, 7, 15, tzinfo=UTC)),
    record("s2", "short", "DECISION_ISSUED", datetime(2024, 10, 9, 15, tzinfo=UTC)),
]
LATE = record("s3", "short", "INFORMATION_REQUESTED", datetime(2024, 10, 8, 15, tzinfo=UTC))
"""Of a case that is decided a day later: from then on it makes no difference."""


def history() -> list[dict[str, Any]]:
    made = [
        record(e.event_id, e.case_id, e.event_type, e.happened_at, e.jurisdiction)
        for e in generate_events(cases=600, seed=7)
        if e.happened_at.date() <= LAST
    ]
    return [
        *made,
        *SHORT_CASE,
        *(record(f"x{day}", f"x{day}", "OTHER", noon(day)) for day in DayRange.inclusive(FIRST, LAST)),
    ]


def noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[DomainKit]:
    reference = {"BACKFILL_REFERENCE": str(EXAMPLE_REFERENCE)}
    opened = DomainKit.open(DOMAIN, tmp_path_factory.mktemp("cases"), first_day=FIRST, settings=reference)
    opened.land("case_events", history())
    yield opened
    opened.close()


def expected(kit: DomainKit, records: Iterable[dict[str, Any]], day: date) -> list[tuple[Any, ...]]:
    events = [Event(**{**each, "event_time": datetime.fromisoformat(each["event_time"])}) for each in records]
    values = [kit.ws.references[name].value for name in ("jurisdiction_calendar", "sla_policy")]
    return by_hand(events, day, *values)


def published(kit: DomainKit, day: date) -> list[tuple[Any, ...]]:
    return by_key(row for row in kit.rows(TABLE) if row["as_of_date"] == day)


@pytest.mark.long
def test_a_late_event_is_restated_from_the_snapshot_before_it_until_the_state_is_equal(kit: DomainKit) -> None:
    kit.published(TABLE, DayRange.inclusive(BEGUN, LAST))
    assert all(published(kit, day) == expected(kit, history(), day) != [] for day in DayRange.inclusive(BEGUN, LAST))
    before = {day: version.checksum for day, version in kit.accepted(TABLE).items()}

    kit.land("case_events", [LATE], name="late.jsonl")
    planned = operations.plan_set(kit.ws, SetRequest(reason="a late event", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    (manifest,) = [plan.manifest for plan in planned.plans]
    assert manifest.base is not None
    assert [pin.partition for pin in manifest.base.partitions] == [date(2024, 10, 6), date(2024, 10, 7)]
    assert manifest.partitions == tuple(DayRange.inclusive(date(2024, 10, 8), LAST))
    staged = kit.stage(manifest.run_id)
    kit.gate(manifest.run_id)
    operations.approve(kit.ws, planned.manifest.set_id, by="ben")
    operations.publish_set(kit.ws, planned.manifest.set_id, by="ben")

    after = kit.accepted(TABLE)
    assert [day for day in after if after[day].checksum != before[day]] == [date(2024, 10, 8)]
    # The day of the decision was computed and found equal; those after it were not computed.
    kept = {day for day in staged if staged[day].files == after[day].files} - {date(2024, 10, 8)}
    assert kept == set(DayRange.inclusive(date(2024, 10, 10), LAST))
    records = [*history(), LATE]
    assert all(published(kit, day) == expected(kit, records, day) for day in DayRange.inclusive(BEGUN, LAST))
    assert audit(kit.ws).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_what_every_table_has_to_keep(kit: DomainKit, check: Check) -> None:
    check(kit, "open_cases", DayRange.inclusive(date(2024, 10, 8), date(2024, 10, 10)))
