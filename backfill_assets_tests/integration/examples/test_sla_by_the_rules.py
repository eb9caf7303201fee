"""Do the transforms say what the rules say, on small cases that are as awkward as possible?"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import InvalidReference
from backfill_assets.domain import RowExpression, TransformContext
from backfill_assets.examples.enforcement_sla.references import (
    Clock,
    DayKind,
    Jurisdiction,
    JurisdictionCalendar,
    SlaPolicy,
)
from backfill_assets.examples.enforcement_sla.sla_breaches import sla_breach_monthly
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets_tests.support.searches import examples
from backfill_assets_tests.support.sla_oracle import Event, SlaRow, expected_rows

FIRST = date(2018, 10, 1)
DAYS = 50
"""Two months in which clocks change: Rome on 28 October, New York on 4 November, Sao Paulo then at midnight."""

EVERY_DAY = DayRange(FIRST - timedelta(days=3), FIRST + timedelta(days=DAYS + 30))
VERSIONS = ("3.1.0", "2.4.1")
EVENT_COLUMNS = "event_id string, case_id string, jurisdiction string, event_type string, event_time timestamp"

CALENDAR = JurisdictionCalendar(
    version="calendar-test",
    jurisdictions=(
        Jurisdiction(
            name="ROME",
            timezone="Europe/Rome",
            weekend=frozenset({5, 6}),
            holidays=frozenset({date(2018, 10, 3), date(2018, 11, 1), date(2018, 11, 4)}),
        ),
        Jurisdiction(name="YORK", timezone="America/New_York", weekend=frozenset(), holidays=frozenset()),
        Jurisdiction(
            name="PAULO",
            timezone="America/Sao_Paulo",
            weekend=frozenset({0, 1, 2, 3, 4, 5}),
            holidays=frozenset({date(2018, 10, 14)}),
        ),
        Jurisdiction(name="CHATHAM", timezone="Pacific/Chatham", weekend=frozenset({4}), holidays=frozenset()),
        Jurisdiction(name="IDLE", timezone="Asia/Kathmandu", weekend=frozenset({5}), holidays=frozenset()),
    ),
)


def clock(jurisdiction: str, name: str, limit: int, kind: DayKind, tracked: int, **types: str) -> Clock:
    roles = {"starts": "S T B", "stops": "X B", "pauses": "P T", "resumes": "R", **types}
    return Clock(
        jurisdiction=jurisdiction,
        name=name,
        starts_on=frozenset(roles["starts"].split()),
        stops_on=frozenset(roles["stops"].split()),
        pauses_on=frozenset(roles["pauses"].split()),
        resumes_on=frozenset(roles["resumes"].split()),
        limit_days=limit,
        day_kind=kind,
        tracked_days=tracked,
    )


POLICY = SlaPolicy(
    version="policy-test",
    clocks=(
        clock("ROME", "business", 5, DayKind.BUSINESS, 20),
        clock("ROME", "calendar", 5, DayKind.CALENDAR, 12),
        clock("ROME", "at_once", 0, DayKind.BUSINESS, 9),
        clock("YORK", "long", 12, DayKind.CALENDAR, 30),
        clock("YORK", "short", 1, DayKind.BUSINESS, 1),
        clock("YORK", "crossed", 3, DayKind.CALENDAR, 15, starts="P", stops="R", pauses="S", resumes="X"),
        clock("PAULO", "sundays", 2, DayKind.BUSINESS, 25),
        clock("PAULO", "calendar", 4, DayKind.CALENDAR, 25, pauses="", resumes=""),
        clock("CHATHAM", "business", 7, DayKind.BUSINESS, 14),
        clock("CHATHAM", "endless", 2, DayKind.CALENDAR, 14, stops="", resumes=""),
    ),
)


def context(
    spark: SparkSession, output: DayRange, *, calendar: Any = CALENDAR, policy: Any = POLICY
) -> TransformContext:
    return TransformContext(
        run_id="run",
        kind=RunPurpose.BACKFILL,
        mode=Mode.BACKFILL,
        transform_version="",
        output=output,
        output_partitions=tuple(output),
        input_days={},
        references={"jurisdiction_calendar": calendar, "sla_policy": policy},
        spark=spark,
    )


def bronze(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    return spark.createDataFrame(
        [(e.event_id, e.case_id, e.jurisdiction, e.event_type, e.event_time) for e in events], EVENT_COLUMNS
    )


def rows_of(frame: DataFrame) -> list[SlaRow]:
    return [tuple(row) for row in frame.collect()]


def computed(
    spark: SparkSession, events: Iterable[Event], version: str = "3.1.0", output: DayRange = EVERY_DAY
) -> list[SlaRow]:
    return rows_of(case_sla_daily.release(version).function(bronze(spark, events), context(spark, output)))


def awkward_events(seed: int, cases: int) -> list[Event]:
    """Cases whose events crowd around local midnights, share instants, and come in any order."""
    chance = random.Random(seed)
    events = []
    for number in range(cases):
        jurisdiction = chance.choice(CALENDAR.jurisdictions)
        zone = ZoneInfo(jurisdiction.timezone)
        at = None
        for place in range(chance.randint(1, 9)):
            if at is None or chance.random() < 0.85:
                day = FIRST + timedelta(days=chance.randrange(DAYS) if chance.random() < 0.5 else 20 + number % 20)
                midnight = datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)
                spread = chance.choice((1, 90, 1_440))
                at = midnight + timedelta(minutes=chance.randint(-spread, spread), seconds=chance.choice((0, 0, 59)))
            event_type = chance.choices("STBXPRN", weights=(30, 4, 4, 14, 24, 20, 4))[0]
            name = f"e{chance.randrange(10)}-{number}-{place}"
            events.append(Event(name, f"case-{number}", jurisdiction.name, event_type, at))
    chance.shuffle(events)
    return events


def at(text: str, zone: str = "Europe/Rome") -> datetime:
    return datetime.fromisoformat(f"2018-{text}").replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


STORIES = {
    "a night": (("S", "10-08 00:30"),),
    "a day": (("S", "10-08 12:00"), ("P", "10-10 12:00"), ("R", "10-12 12:00"), ("X", "10-16 12:00")),
    "started twice": (("S", "10-08 09:00"), ("P", "10-08 09:30"), ("S", "10-08 17:00")),
    "stopped at once": (("S", "10-08 09:00"), ("X", "10-08 10:00")),
    "paused for good": (("S", "10-08 09:00"), ("P", "10-08 10:00")),
    "paused after the stop": (("S", "10-08 09:00"), ("X", "10-10 09:00"), ("P", "10-10 10:00")),
    "started on a saturday": (("S", "10-06 09:00"),),
    "breached": (("S", "10-08 09:00"), ("P", "10-15 09:00"), ("X", "10-17 09:00")),
}
"""Events in Rome, by local time; every story is a case of its own."""

Told = Callable[..., list[SlaRow]]


def story_events(name: str, jurisdiction: str = "ROME") -> list[Event]:
    return [
        Event(f"{name} {place}", name, jurisdiction, event_type, at(when))
        for place, (event_type, when) in enumerate(STORIES[name])
    ]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    """The rows of a story and clock, by day; computed for all stories together."""
    events = [event for name in STORIES for event in story_events(name)]
    rows = {version: computed(spark, events, version) for version in VERSIONS}

    def rows_of_story(name: str, clock_name: str = "calendar", version: str = "3.1.0") -> list[SlaRow]:
        found = (row for row in rows[version] if row[0] == name and row[1] == clock_name)
        return sorted(found, key=lambda row: row[2])

    return rows_of_story


def october(day: int) -> date:
    return date(2018, 10, day)


AWKWARD = awkward_events(1, cases=examples(2_000))


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> list[SlaRow]:
    """Every row of the awkward cases in the present release, computed in one go."""
    return computed(spark, AWKWARD)


def same_rows(found: Iterable[SlaRow], expected: Iterable[SlaRow]) -> bool:
    return sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.long
def test_random_cases_give_the_rows_of_a_second_reading_of_the_rules(whole: list[SlaRow]) -> None:
    expected = expected_rows(AWKWARD, CALENDAR, POLICY, "3.1.0", EVERY_DAY)
    assert same_rows(whole, expected)
    # The cases are awkward enough only if every state and every kind of deadline occurs among them.
    assert {row[10] for row in expected} == {"BREACHED", "MET", "PAUSED", "RUNNING"}
    assert any(row[6] and row[10] == "BREACHED" for row in expected)


@pytest.mark.long
def test_the_defective_release_gives_the_same_reading_with_utc_dates(spark: SparkSession, whole: list[SlaRow]) -> None:
    found = computed(spark, AWKWARD, "2.4.1")
    assert same_rows(found, expected_rows(AWKWARD, CALENDAR, POLICY, "2.4.1", EVERY_DAY))
    assert not same_rows(found, whole)


@pytest.mark.long
def test_the_two_releases_differ_where_the_dates_differ_and_nowhere_else(told: Told) -> None:
    assert told("a day", version="2.4.1") == told("a day", version="3.1.0") != []
    assert told("a night", version="2.4.1")[0][4] == october(7)
    assert told("a night", version="3.1.0")[0][4] == october(8)


@pytest.mark.long
@pytest.mark.parametrize(
    "output",
    [
        DayRange.inclusive(date(2018, 10, 28), date(2018, 10, 28)),
        DayRange.inclusive(date(2018, 10, 31), date(2018, 11, 6)),
    ],
    ids=str,
)
def test_a_chunk_that_reads_only_its_window_agrees_with_the_whole(
    spark: SparkSession, whole: list[SlaRow], output: DayRange
) -> None:
    needed = case_sla_daily.window_of("events", {"jurisdiction_calendar": CALENDAR, "sla_policy": POLICY}).around(
        output
    )
    in_window = [event for event in AWKWARD if event.event_time.date() in needed]
    assert len(in_window) < len(AWKWARD)
    found = computed(spark, in_window, output=output)
    assert same_rows(found, (row for row in whole if row[2] in output))


@pytest.mark.long
def test_the_order_and_the_partitions_of_the_input_change_nothing(spark: SparkSession, whole: list[SlaRow]) -> None:
    scattered = bronze(spark, reversed(AWKWARD)).repartition(7, "event_type")
    assert same_rows(rows_of(case_sla_daily.release(None).function(scattered, context(spark, EVERY_DAY))), whole)


def test_columns_and_types_are_the_declared_ones_in_order(spark: SparkSession) -> None:
    ctx = context(spark, EVERY_DAY)
    silver = case_sla_daily.release(None).function(bronze(spark, AWKWARD[:1]), ctx)
    gold = sla_breach_monthly.release(None).function(silver, ctx)
    for frame, table in ((silver, case_sla_daily), (gold, sla_breach_monthly)):
        assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in table.schema]


@pytest.mark.long
def test_every_gate_expression_holds_for_awkward_cases(spark: SparkSession, whole: list[SlaRow]) -> None:
    silver = spark.createDataFrame(whole, case_sla_daily.schema)  # which also refuses a null where none may be
    gold = sla_breach_monthly.release(None).function(silver, context(spark, EVERY_DAY))
    for frame, table in ((silver, case_sla_daily), (gold, sla_breach_monthly)):
        conditions = [gate for gate in table.gates if isinstance(gate, RowExpression)]
        broken = [sf.count_if(~sf.coalesce(sf.expr(g.condition), sf.lit(False))).alias(g.name) for g in conditions]
        counted = frame.agg(sf.count("*").alias("rows"), *broken).collect()[0].asDict()
        assert counted.pop("rows") > 0
        assert not {name: count for name, count in counted.items() if count}
    assert len({row[:3] for row in whole}) == len(whole)


@pytest.mark.long
def test_a_second_start_on_the_same_local_date_replaces_the_first(told: Told) -> None:
    assert told("started twice")[0][2:8] == (october(8), "ROME", october(8), None, False, 0)


def test_a_clock_stopped_on_the_day_of_its_start_is_met_with_one_row(told: Told) -> None:
    (row,) = told("stopped at once")
    assert row[5] == october(8)
    assert row[10] == "MET"


def test_a_pause_on_the_day_of_the_start_shows_on_that_day_and_never_resumed_never_breaches(told: Told) -> None:
    rows = told("paused for good")
    assert [row[2] for row in rows] == [october(8 + day) for day in range(13)]
    assert {(row[6], row[7], row[10], row[11]) for row in rows} == {(True, 0, "PAUSED", None)}
    # The deadline moves a day with each day of the pause.
    assert [row[9] for row in rows] == [october(13 + day) for day in range(13)]


def test_a_pause_after_the_stop_on_the_same_day_leaves_the_clock_met_but_paused(told: Told) -> None:
    last = told("paused after the stop")[-1]
    assert last[5:8] == (october(10), True, 1)
    assert last[10] == "MET"


def test_a_limit_of_no_days_is_due_on_the_start_even_on_a_holiday_and_breached_on_the_next_countable_day(
    told: Told,
) -> None:
    rows = told("started on a saturday", "at_once")
    assert {row[9] for row in rows} == {october(6)}
    assert [row[10] for row in rows[:3]] == ["RUNNING", "RUNNING", "BREACHED"]
    assert {row[11] for row in rows} == {None, october(8)}


def test_a_breached_clock_stays_breached_when_it_is_stopped_or_paused(told: Told) -> None:
    rows = told("breached")
    assert [row[10] for row in rows[-4:]] == ["BREACHED"] * 4
    assert {row[9] for row in rows} == {october(13)}
    assert rows[-1][5:8] == (october(17), True, 6)


def test_a_pause_dated_before_its_start_by_clocks_going_back_across_midnight_makes_no_row_before_the_start(
    spark: SparkSession,
) -> None:
    # Until 2011 the clocks of St. John's went back at 00:01, from the 7th of November to the 6th.
    place = Jurisdiction(name="JOHNS", timezone="America/St_Johns", weekend=frozenset(), holidays=frozenset())
    calendar = JurisdictionCalendar(version="calendar-johns", jurisdictions=(place,))
    policy = SlaPolicy(version="policy-johns", clocks=(clock("JOHNS", "any", 2, DayKind.CALENDAR, 5),))
    events = [
        Event("e1", "case", "JOHNS", "S", datetime(2010, 11, 7, 2, 30, 30, tzinfo=UTC)),
        Event("e2", "case", "JOHNS", "P", datetime(2010, 11, 7, 3, 0, tzinfo=UTC)),
        Event("e3", "case", "JOHNS", "R", datetime(2010, 11, 9, 15, 0, tzinfo=UTC)),
    ]
    output = DayRange.inclusive(date(2010, 11, 1), date(2010, 11, 30))
    ctx = context(spark, output, calendar=calendar, policy=policy)
    found = rows_of(case_sla_daily.release(None).function(bronze(spark, events), ctx))
    assert same_rows(found, expected_rows(events, calendar, policy, "3.1.0", output))
    assert min(row[2] for row in found) == date(2010, 11, 7)


def test_a_jurisdiction_without_clocks_makes_no_rows(spark: SparkSession) -> None:
    assert computed(spark, story_events("a day", "IDLE")) == []


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_an_event_of_an_unknown_jurisdiction_fails_the_run_and_is_named(spark: SparkSession, version: str) -> None:
    stray = Event("e99", "case", "ATLANTIS", "N", at("10-08 09:00"))
    with pytest.raises(SparkRuntimeException, match=r"event e99 is of jurisdiction ATLANTIS, which .*calendar-test"):
        computed(spark, [*story_events("a day"), stray], version)


def test_a_clock_of_a_jurisdiction_without_a_calendar_is_refused_before_anything_runs() -> None:
    policy = SlaPolicy(version="policy-x", clocks=(clock("ATLANTIS", "any", 1, DayKind.CALENDAR, 1),))
    with pytest.raises(InvalidReference, match="policy-x has clocks for ATLANTIS, which jurisdiction_calendar"):
        case_sla_daily.window_of("events", {"jurisdiction_calendar": CALENDAR, "sla_policy": policy})


def silver_row(case: str, day: date, state: str, breached_on: date | None = None) -> tuple[object, ...]:
    return (case, "c", day, "ROME", day, None, False, 0, 0, day, state, breached_on)


def test_a_case_counts_once_a_month_and_its_breach_in_the_month_it_fell_in(spark: SparkSession) -> None:
    rows: Sequence[tuple[object, ...]] = [
        silver_row("old", date(2018, 11, 1), "BREACHED", date(2018, 10, 31)),
        silver_row("old", date(2018, 11, 2), "BREACHED", date(2018, 10, 31)),
        silver_row("new", date(2018, 11, 2), "RUNNING"),
        silver_row("new", date(2018, 11, 3), "BREACHED", date(2018, 11, 3)),
        silver_row("met", date(2018, 11, 3), "MET"),
        silver_row("before", date(2018, 10, 31), "PAUSED"),
    ]
    silver = spark.createDataFrame(rows, case_sla_daily.schema)
    found = sla_breach_monthly.release(None).function(silver, context(spark, EVERY_DAY)).orderBy("month").collect()
    assert [tuple(row) for row in found] == [
        (date(2018, 10, 1), "ROME", "c", 1, 0, 0, 0, Decimal("0.000000")),
        (date(2018, 11, 1), "ROME", "c", 3, 2, 1, 1, Decimal("0.666667")),
    ]
