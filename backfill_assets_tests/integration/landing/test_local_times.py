"""Local times of a source that declares its time zone: which instant each is, at the changes of the clock too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import InvalidDeclaration, Refused, UnreadableFile
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.statements import withdraw
from backfill_assets.ledger.imports import ImportCounts
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.landing_examples import (
    EVENTS,
    LandingRoom,
    event,
    json_lines,
    landing_room,
    reasons,
)
from backfill_assets_tests.support.value_examples import AT, NO_CLOCK, VALUES, found, no, no_day, parquet, plainly

AMSTERDAM = "Europe/Amsterdam"
SKIPPED = "2024-03-31T02:30:00"
TWICE = "2024-10-27T02:30:00"
OTHERS = ("America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Antarctica/Troll", "Pacific/Apia")

Opened = Callable[[str], AbstractContextManager[LandingRoom]]


@pytest.fixture
def opened(spark: SparkSession, settings: Settings, clock: Clock) -> Opened:
    @contextmanager
    def of(zone: str) -> Iterator[LandingRoom]:
        with landing_room(spark, settings, clock, replace(VALUES, timezone=zone)) as room:
            yield room

    return of


def skipped(name: str, zone: str, text: str) -> str:
    return f"{name} is a time that clocks in {zone} skip: '{text}'"


@pytest.mark.long
def test_a_time_without_offset_is_the_local_time_of_the_zone_and_one_with_an_offset_keeps_it(opened: Opened) -> None:
    cases: list[tuple[str, Any, Any]] = [
        ("at", "2024-01-31T10:00:00", AT.replace(month=1, day=31, hour=9)),
        ("at", "2024-07-31 10:00", AT.replace(month=7, day=31, hour=8)),
        ("at", "2024-07-31T10:00:00.123456", AT.replace(month=7, day=31, hour=8, microsecond=123456)),
        ("at", "2024-07-31T10:00:00Z", AT.replace(month=7, day=31)),
        ("at", "2024-07-31T10:00-05", AT.replace(month=7, day=31, hour=15)),
        ("at", SKIPPED, skipped("at", AMSTERDAM, SKIPPED)),
        ("at", "2024-03-31T03:00:00", AT.replace(month=3, day=31, hour=1)),
        ("at", TWICE, AT.replace(month=10, day=27, hour=0, minute=30)),
        ("at", "2024-10-27T03:00:00", AT.replace(month=10, day=27, hour=2)),
        ("at", "2024-10-27T02:30:00+01:00", AT.replace(month=10, day=27, hour=1, minute=30)),
        ("at", "2024-07-31", no("at", "a timestamp", "2024-07-31", NO_CLOCK)),
        ("at", "2024-02-30T10:00:00", no_day("at", "2024-02-30T10:00:00")),
        ("at", "2024-07-31T10:00:00.1234567", "at does not fit timestamp: '2024-07-31T10:00:00.1234567'"),
        ("local", TWICE, datetime.fromisoformat(TWICE)),
        (
            "line",
            {"no": 1, "price": None, "tags": None, "when": {"at": "2024-07-31T10:00:00"}},
            {"no": 1, "price": None, "tags": None, "when": {"at": AT.replace(month=7, day=31, hour=8)}},
        ),
    ]
    with opened(AMSTERDAM) as room:
        lines = json_lines(*(event(**{name: value}) for name, value, _ in cases))
        rows = room.of("at", "local", "line").judge(lines, "a.jsonl")
        values = [plainly(value) for value in found(rows, [name for name, _, _ in cases])]
    assert [pair for pair in zip(cases, values, strict=True) if pair[0][2] != pair[1]] == []


def changes(zone: ZoneInfo) -> list[datetime]:
    """The local times of midnight on days on which the clock of a zone changes."""
    days = [datetime(1980, 1, 1) + timedelta(days=number) for number in range(45 * 365)]  # noqa: DTZ001
    offsets = [day.replace(tzinfo=zone).utcoffset() for day in days]
    return [day for day, now, then in zip(days, offsets, offsets[1:], strict=False) if now != then]


def as_python_has_it(local: datetime, zone: ZoneInfo) -> datetime | None:
    """The first instant at which clocks show a local time; None when they skip it."""
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return instant.replace(tzinfo=None) if instant.astimezone(zone).replace(tzinfo=None) == local else None


@pytest.mark.parametrize(
    "name",
    [
        AMSTERDAM,
        "Pacific/Apia",  # left out a day in 2011
        pytest.param("America/New_York", marks=pytest.mark.long),
        pytest.param("Australia/Lord_Howe", marks=pytest.mark.long),  # changes by half an hour
        pytest.param("Asia/Kathmandu", marks=pytest.mark.long),
    ],
)
def test_local_times_are_what_python_takes_them_for(opened: Opened, name: str) -> None:
    chance, zone = random.Random(name), ZoneInfo(name)
    starts = [*changes(zone), datetime(1990, 1, 1), datetime(2012, 2, 29)]  # noqa: DTZ001
    locals_ = [chance.choice(starts) + timedelta(minutes=chance.randrange(36 * 60)) for _ in range(1500)]
    texts = [local.isoformat(timespec=chance.choice(["minutes", "seconds", "microseconds"])) for local in locals_]
    with opened(name) as room:
        rows = room.of("at").judge(json_lines(*(event(at=text) for text in texts)), "a.jsonl")
    expected = [
        as_python_has_it(local, zone) or skipped("at", name, text) for local, text in zip(locals_, texts, strict=True)
    ]
    values = found(rows, ["at"] * len(rows))
    assert [each for each in zip(texts, expected, values, strict=True) if each[1] != each[2]] == []


@pytest.mark.long
def test_local_times_of_parquet_are_taken_and_refused_where_no_zone_is_declared(opened: Opened) -> None:
    times = [datetime(2024, 7, 31, 10, 0), datetime.fromisoformat(SKIPPED)]  # noqa: DTZ001
    with opened(AMSTERDAM) as room:
        for unit, shown in (("us", "2024-03-31 02:30:00"), ("ns", f"{SKIPPED}.000000000")):
            content = parquet({"at": pa.array(times, pa.timestamp(unit))})
            rows = room.of("at").judge(content, f"{unit}.parquet")
            assert found(rows, ["at"] * 2) == [
                AT.replace(month=7, day=31, hour=8),
                skipped("at", AMSTERDAM, shown),
            ]
        with pytest.raises(UnreadableFile) as error:
            replace(room, source=VALUES).of("at").judge(content, "a.parquet")
    assert "timezone='Europe/Amsterdam'" in advised(error.value)


@pytest.mark.long
def test_the_day_of_a_record_is_that_of_utc_and_a_file_from_before_the_declaration_is_read_again(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    content = json_lines(event("a", "2024-05-02T00:30:00"), event("b", "2024-05-02T12:00:00"))
    with landing_room(spark, settings, clock, EVENTS) as room:
        assert room.land(content).record.counts == ImportCounts(landed=2, rejected=2)
        local = replace(room, source=replace(EVENTS, timezone=AMSTERDAM))
        again = local.land(content, on_duplicate=OnDuplicate.REPROCESS).record
        assert again.counts == ImportCounts(landed=2, accepted=2)
        assert [row["event_id"] for row in local.bronze([date(2024, 5, 1)])] == ["a"]


@pytest.mark.long
def test_a_key_that_is_a_local_time_is_withdrawn_as_it_is_written_in_the_files(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    schema = StructType([*EVENTS.schema.fields, StructField("slot", TimestampType(), nullable=False)])
    source = replace(EVENTS, schema=schema, key=("event_id", "slot"), timezone=AMSTERDAM)
    with landing_room(spark, settings, clock, source) as room:
        room.land(json_lines(event("a", slot="2024-05-01T12:00"), event("a", slot="2024-05-01T13:00")))
        key = {"event_id": "a", "slot": "2024-05-01T12:00"}
        withdraw(room.work(), key, reason="cancelled")
        assert [row["slot"].hour for row in room.bronze([date(2024, 5, 1)])] == [11]


def keyed_by_time(spark: SparkSession, settings: Settings, clock: Clock, zone: str, **declared: Any) -> Any:
    schema = StructType([*EVENTS.schema.fields[:3], StructField("slot", TimestampType(), nullable=False)])
    source = replace(EVENTS, schema=schema, key=("event_id", "slot"), timezone=zone, json_columns=(), **declared)
    return landing_room(spark, settings, clock, source)


def twice(zone: str, text: str) -> str:
    why = f"slot is a time that clocks in {zone} show twice, and has no offset that tells which one it is"
    return f"{why}; declare repeated_hour: '{text}'"


@pytest.mark.long
def test_two_readings_of_an_hour_that_is_shown_twice_are_not_one_key(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    with keyed_by_time(spark, settings, clock, AMSTERDAM) as room:
        times = ["2024-10-27T01:59:59", TWICE, TWICE, f"{TWICE}+02:00", f"{TWICE}+01:00", "2024-10-27T03:00"]
        lines = json_lines(*(event("a", slot=time, place=f"p{n}") for n, time in enumerate(times)))
        assert room.land(lines).record.counts == ImportCounts(landed=6, accepted=4, rejected=2)
        assert [row["place"] for row in room.bronze([date(2024, 5, 1)])] == ["p0", "p3", "p4", "p5"]
        (rejected,) = room.quarantined.values()
        assert {row["reason"] for row in rejected} == {twice(AMSTERDAM, TWICE)}
        with pytest.raises(
            Refused, match=rf"'{TWICE}' is a time of slot of bronze\.events that clocks .* show twice"
        ) as told:
            withdraw(room.work(), {"event_id": "a", "slot": TWICE}, reason="r")
        assert advised(told.value) == "write slot with its offset, such as +01:00"
        withdraw(room.work(), {"event_id": "a", "slot": f"{TWICE}+01:00"}, reason="r")
        assert [row["place"] for row in room.bronze([date(2024, 5, 1)])] == ["p0", "p3", "p5"]


@pytest.mark.parametrize("name", [AMSTERDAM, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)])
def test_exactly_the_times_that_python_knows_twice_are_shown_twice(
    spark: SparkSession, settings: Settings, clock: Clock, name: str
) -> None:
    chance, zone = random.Random(name), ZoneInfo(name)
    starts = [*changes(zone), datetime(1990, 1, 1), datetime(2012, 2, 29)]  # noqa: DTZ001
    locals_ = [chance.choice(starts) + timedelta(minutes=15 * chance.randrange(-4, 36 * 4)) for _ in range(1500)]
    texts = [local.isoformat(timespec=chance.choice(["minutes", "seconds"])) for local in locals_]

    def expected(local: datetime, text: str) -> str | None:
        if as_python_has_it(local, zone) is None:
            return skipped("slot", name, text)
        offsets = {local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
        return twice(name, text) if len(offsets) > 1 else None

    with keyed_by_time(spark, settings, clock, name) as room:
        rows = room.judge(json_lines(*(event(f"e{n}", slot=text) for n, text in enumerate(texts))), "a.jsonl")
    wanted = [expected(local, text) for local, text in zip(locals_, texts, strict=True)]
    assert [each for each in zip(texts, wanted, reasons(rows), strict=True) if each[1] != each[2]] == []
    assert not changes(zone) or {twice(name, text) for text in texts} & set(wanted)


@pytest.mark.long
def test_instants_of_parquet_are_no_local_times_and_a_key_is_never_rounded_to_another(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    with keyed_by_time(spark, settings, clock, AMSTERDAM, rounds=True) as room:
        instants = [datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 2, 30, tzinfo=UTC)]
        content = parquet({"slot": pa.array(instants, pa.timestamp("us", tz="UTC"))})
        assert reasons(room.judge(content, "a.parquet")) == [None, None]
        local = parquet({"slot": pa.array([datetime.fromisoformat(TWICE)], pa.timestamp("us"))})
        assert reasons(room.judge(local, "b.parquet")) == [twice(AMSTERDAM, "2024-10-27 02:30:00")]
        finer = json_lines(*(event("a", slot=f"2024-05-01T10:00:00.123456{n}Z") for n in (1, 2)))
        assert all(each and "slot does not fit timestamp" in each for each in reasons(room.judge(finer, "c.jsonl")))
        # Spark cuts this earlier form of timestamps as it reads, so that two keys would be one.
        earlier = parquet({"slot": pa.array([1_001, 1_002], pa.timestamp("ns"))}, use_deprecated_int96_timestamps=True)
        with pytest.raises(UnreadableFile, match="holds slot with digits below the microsecond, as INT96"):
            room.judge(earlier, "d.parquet")


@pytest.mark.parametrize(
    "zone", ["Europe/Amsterdan", "Europe/", "Europe", "+01:00", "EST5EDT", "CET", "posix/Europe/Paris", 1]
)
def test_a_time_zone_is_one_of_the_tz_database(zone: Any) -> None:
    with pytest.raises(InvalidDeclaration, match=r"must be a time zone such as 'Europe/Amsterdam'"):
        replace(VALUES, timezone=zone)
