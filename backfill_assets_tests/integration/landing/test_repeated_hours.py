"""Times that clocks show twice, by what their source declares of them; which instants these are `zoneinfo` says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StringType, StructField, StructType, TimestampType

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable, daily
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.imports import imports_for_days
from backfill_assets.landing.record_rules import REASON
from backfill_assets.landing.statements import withdraw
from backfill_assets_tests.support.landing_examples import LandingRoom, json_lines, landing_room

BERLIN = "Europe/Berlin"
TWICE = "2024-10-27T02:30:00"
RULES = ("", "first", "second", "reject", "both")

READINGS = SourceTable(
    name="bronze.readings",
    key=("meter", "at"),
    event_time="at",
    partition=daily("day"),
    timezone=BERLIN,
    schema=StructType(
        [
            StructField("meter", StringType(), nullable=False),
            StructField("at", TimestampType(), nullable=False),
            StructField("seen", TimestampType()),
            StructField("more", ArrayType(TimestampType())),
            StructField("value", StringType()),
        ]
    ),
)

Opened = Callable[..., AbstractContextManager[LandingRoom]]
Record = dict[str, Any]


@pytest.fixture
def opened(spark: SparkSession, settings: Settings, clock: Clock) -> Opened:
    @contextmanager
    def of(**declared: Any) -> Iterator[LandingRoom]:
        with landing_room(spark, settings, clock, replace(READINGS, **declared)) as room:
            yield room

    return of


def instants(text: str, zone: str) -> list[datetime]:
    """The instants that a text can be."""
    local = datetime.fromisoformat(text)
    if local.tzinfo is not None:
        return [local.astimezone(UTC)]
    found = [local.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)]
    shown = [at for at in found if at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local]
    return sorted(set(shown))


def expected(records: list[Record], rule: str, zone: str) -> list[tuple[datetime | None, datetime | None, bool]]:
    """By record the time of its key, another time, and whether it is rejected."""
    seen: Counter[tuple[str, datetime]] = Counter()
    has = Counter(
        (each["meter"], instants(each["at"], zone)[0])
        for each in records
        if len(instants(each["at"], zone)) > 1 and "+" not in each["at"]
    )
    found = []
    for each in records:
        at, other = instants(each["at"], zone), instants(each["seen"], zone) if each["seen"] else [None]
        rejected = not at or not other
        of_key = of_other = 0
        if len(at) > 1:
            match rule:
                case "" | "reject":
                    rejected = True
                case "second":
                    of_key = 1
                case "both":
                    place = (each["meter"], at[0])
                    seen[place] += 1
                    of_key = int(seen[place] == 2)
                    rejected |= seen[place] > 2 or has[place] == 1
        if len(other) > 1:
            rejected |= rule in ("reject", "both")
            of_other = int(rule == "second")
        found.append((at[of_key] if at else None, other[of_other] if other else None, rejected))
    return found


def some_records(chance: random.Random, zone: str) -> list[Record]:
    """Records around the changes of a clock, often several at one time of a meter."""
    days = [datetime(2000, 1, 1) + timedelta(days=n) for n in range(25 * 365)]  # noqa: DTZ001
    offsets = [day.replace(tzinfo=ZoneInfo(zone)).utcoffset() for day in days]
    starts = [day for day, now, then in zip(days, offsets, offsets[1:], strict=False) if now != then]

    def text() -> str:
        local = chance.choice(starts[-4:]) + timedelta(minutes=30 * chance.randrange(2, 8))
        return local.isoformat() + chance.choice(["", "", "", "+01:00"])

    return [
        {"meter": chance.choice("abc"), "at": text(), "seen": chance.choice([None, text()]), "value": str(number)}
        for number in range(400)
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("zone", [BERLIN, pytest.param("Australia/Lord_Howe", marks=pytest.mark.long)])
def test_every_time_is_the_one_that_is_declared_or_rejected(opened: Opened, rule: str, zone: str) -> None:
    records = some_records(random.Random(f"{rule} {zone}"), zone)
    with opened(timezone=zone, repeated_hour=rule) as room:
        rows = room.judge(json_lines(*records), "a.jsonl")
    wrong = []
    for record, row, (at, seen, rejected) in zip(records, rows, expected(records, rule, zone), strict=True):
        found = [each and each.replace(tzinfo=UTC) for each in (row["at"], row["seen"])]
        is_right = (row[REASON] is not None) == rejected and (rejected or found == [at, seen])
        if not is_right:
            wrong.append((record, at, seen, rejected, row))
    assert not wrong, (len(wrong), wrong[:3])
    assert {each[2] for each in expected(records, rule, zone)} == {True, False}


@pytest.mark.long
def test_both_hours_are_told_within_a_file_also_where_files_land_together(opened: Opened) -> None:
    def line(meter: str, at: str, value: str) -> Record:
        return {"meter": meter, "at": at, "value": value}

    both = [line("a", TWICE, "1"), line("a", "2024-10-27T02:45:00", "2"), line("b", TWICE, "9")]
    again = [
        line("a", TWICE, "3"),
        line("a", "2024-10-27T02:45:00", "4"),
        line("a", TWICE, "5"),
        line("a", "2024-10-27T03:00:00", "6"),
    ]
    alone = [line("c", TWICE, "7"), line("c", TWICE, "8")]
    with opened(repeated_hour="both") as room:
        room = room.of("value")
        paths = [room.write(json_lines(*both, *again), "a.jsonl"), room.write(json_lines(*alone), "b.jsonl")]
        first, second = (each.record.counts for each in room.land_paths(paths))
        assert (first.landed, first.accepted, first.rejected) == (7, 5, 2)
        assert (second.landed, second.accepted, second.rejected) == (2, 2, 0)
        day = date(2024, 10, 27)
        rows = [(row["meter"], row["at"].hour, row["at"].minute, row["value"]) for row in room.bronze([day])]
        assert sorted(rows) == [
            *(("a", 0, 30, "1"), ("a", 0, 45, "2"), ("a", 1, 30, "3"), ("a", 1, 45, "4"), ("a", 2, 0, "6")),
            *(("c", 0, 30, "7"), ("c", 1, 30, "8")),
        ]
        said = [row["reason"] for kept in room.quarantined.values() for row in kept]
        why = f"at is a time that clocks in {BERLIN} show twice, and its file has it for this key"
        assert said == [f"{why} once, so that nothing tells which one it is: '{TWICE}'", f"{why} 3 times: '{TWICE}'"]
        with room.ledger.read() as tx:
            imports = imports_for_days(tx, room.source, [day])
        raw = bronze_rows(room.spark, room.settings, room.source, imports=imports, days=[day], raw_owner="read-1")
        assert sorted(
            (row["meter"], row["at"].hour, row["at"].minute, row["value"]) for row in raw.collect()
        ) == sorted(rows)


@pytest.mark.long
def test_what_is_taken_as_the_first_of_two_undeclared_is_counted_with_its_file(opened: Opened) -> None:
    records: list[Record] = [
        {"meter": "a", "at": "2024-10-28T00:00:00", "seen": TWICE},
        {"meter": "b", "at": "2024-10-28T00:00:00", "seen": f"{TWICE}+01:00", "more": [TWICE, "2024-10-28T00:00:00"]},
        {"meter": "c", "at": "2024-10-28T00:00:00", "seen": TWICE, "more": [f"{TWICE}+01:00"]},
        {"meter": "d", "at": TWICE, "seen": TWICE},
    ]
    with opened() as room:
        assert room.land(json_lines(*records)).record.taken_as_first == {"more": 1, "seen": 2}
    with opened(repeated_hour="first") as room:
        record = room.land(json_lines(*reversed(records)), "again.jsonl").record
        assert (record.taken_as_first, record.counts.rejected) == ({}, 0)


@pytest.mark.long
def test_a_key_that_is_typed_is_the_time_that_is_declared(opened: Opened) -> None:
    with opened(repeated_hour="second") as room:
        room = room.of("value")
        room.land(json_lines({"meter": "a", "at": TWICE}, {"meter": "a", "at": f"{TWICE}+02:00"}))
        withdraw(room.work(), {"meter": "a", "at": TWICE}, reason="r")
        assert [row["at"].hour for row in room.bronze([date(2024, 10, 27)])] == [0]
        both = replace(room, source=replace(room.source, repeated_hour="both"))
        with pytest.raises(Refused, match="show twice"):
            withdraw(both.work(), {"meter": "a", "at": TWICE}, reason="r")


def test_both_hours_need_a_time_in_the_key() -> None:
    with pytest.raises(InvalidDeclaration, match="no column of its key is a timestamp"):
        replace(READINGS, key=("meter",), repeated_hour="both")
