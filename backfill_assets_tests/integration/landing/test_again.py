"""Landed files are read anew, all of them or none: what is refused or killed on the way has changed nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import AmbiguousOrder, BackfillError
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Csv, SourceTable, daily
from backfill_assets.landing.errors import NoneAccepted, NotReadAnew
from backfill_assets.landing.extract import Extract
from backfill_assets.landing.imports import OnDuplicate, read_otherwise
from backfill_assets.landing.land import land_again
from backfill_assets.report.command_line import words_of
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.landing_examples import LandingRoom, land_foreseen, landing_room
from backfill_assets_tests.support.shop import ticking_clock

MARCH = date(2025, 3, 1)
AT = "2025-03-01T00:00:00Z"
STATIONS = SourceTable(
    name="bronze.stations",
    key=("id",),
    event_time="at",
    partition=daily("day"),
    schema=T.StructType(
        [
            T.StructField("id", T.StringType(), nullable=False),
            T.StructField("at", T.TimestampType(), nullable=False),
            T.StructField("n", T.LongType()),
        ]
    ),
    reads=Csv(trim=True),
)


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture
def room(spark: SparkSession, settings: Settings) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, ticking_clock(NOON), STATIONS) as room:
        yield room


def csv(*rows: str, head: str = "id,at,n") -> bytes:
    return "\n".join((head, *rows, "")).encode()


def declared(room: LandingRoom, **more: Any) -> LandingRoom:
    """The room with its source declared otherwise."""
    return replace(room, source=replace(room.source, **more))


def as_it_is(room: LandingRoom) -> tuple[object, ...]:
    """Everything that counts of what landed."""
    with room.ledger.read() as tx:
        days = tx.imports.days(source=room.source.name)
    return room.imports(), days, {name: list(rows) for name, rows in room.quarantined.items()}


def advice_on(error: BackfillError) -> str:
    """The next step, in words."""
    advice = error.next_step
    assert advice is not None
    return words_of(advice)


def landed_wrongly(room: LandingRoom) -> LandingRoom:
    """Three files, of which a dialect without trim rejected a record each."""
    early = declared(room, reads=Csv())
    early.land(csv(f"1,{AT},1", f"2,{AT}, 2 "), "a.csv")
    early.land(csv(f"1,{AT}, 3 ", f"3,{AT},3"), "b.csv")
    early.land(csv(f"2,{AT},4", f"4, {AT} ,4"), "c.csv")
    return early


@pytest.mark.long
def test_read_anew_files_count_as_if_they_had_landed_so(room: LandingRoom) -> None:
    early = landed_wrongly(room)
    early.land(csv(f"1,{AT},1", f"2,{AT}, 2 "), "a.csv", on_duplicate=OnDuplicate.CORRECT)
    with room.ledger.read() as tx:
        before = read_otherwise(tx, room.source)
    assert len(before) == 4
    again = land_again(room.work(), before)
    counts = [each.record.counts for each in again]
    assert [(each.accepted, each.duplicate, each.superseded, each.rejected) for each in counts] == [
        (0, 0, 2, 0),
        (1, 0, 1, 0),
        (1, 0, 1, 0),
        (2, 0, 0, 0),
    ]
    assert [(row["id"], row["n"]) for row in room.bronze([MARCH])] == [("1", 1), ("2", 2), ("3", 3), ("4", 4)]
    with room.ledger.read() as tx:
        assert read_otherwise(tx, room.source) == () and tx.imports.open_accounts() == ()
    land_again(room.work(), room.imports())
    assert [each.counts for each in room.imports()] == counts


@pytest.mark.long
def test_of_files_that_cannot_be_read_as_declared_none_is_read_anew_and_the_others_can_be(room: LandingRoom) -> None:
    early = declared(room, reads=Csv(comment="x"))
    early.land(csv(f"1,{AT},1"), "a.csv")
    early.land(csv("x", f"2,{AT},2", head="x\nid,at,n"), "b.csv")
    early.land(csv(f"3,{AT},3"), "c.csv")
    before = as_it_is(room)
    with pytest.raises(NotReadAnew) as refused:
        land_again(room.work(), room.imports())
    assert "No file was read anew: 1 of 3 files cannot be, imp-000002." in refused.value.message
    assert "--again-as-declared --imports imp-000001,imp-000003 --by NAME" in advice_on(refused.value)
    assert as_it_is(room) == before
    first, _, third = room.imports()
    assert [each.record.import_id for each in land_again(room.work(), [first, third])] == ["imp-000001", "imp-000003"]


@pytest.mark.long
def test_a_declaration_by_which_nothing_would_land_is_refused_before_anything_changes(room: LandingRoom) -> None:
    landed_wrongly(room)
    before = as_it_is(room)
    worse = declared(room, formats={"at": "dd/MM/yyyy HH:mm"}, timezone="UTC")
    with pytest.raises(NotReadAnew, match=r"none of the records of imp-000001 \(.*\) would land as") as refused:
        land_again(worse.work(), room.imports())
    assert "2 records rejected, the first is record 1: at is" in refused.value.message
    assert isinstance(refused.value.cause, NoneAccepted)
    assert "--on-duplicate reprocess" in advice_on(refused.value.cause)
    assert as_it_is(room) == before
    assert len(room.bronze([MARCH])) == 3


@pytest.mark.long
def test_what_spark_finds_out_is_refused_as_late_and_changes_nothing(room: LandingRoom) -> None:
    landed_wrongly(room)
    before = as_it_is(room)
    tied = declared(room, order=("at",))
    with pytest.raises(AmbiguousOrder):
        land_again(tied.work(), room.imports())
    assert as_it_is(room) == before


POINTS = (
    Point.LAND_DECODED,
    Point.LAND_ARCHIVED,
    Point.LAND_CONFORMED,
    Point.LAND_QUARANTINED,
    Point.LAND_FINISHED,
)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_process_that_is_killed_on_the_way_has_changed_nothing_and_the_same_command_goes_on(
    room: LandingRoom, point: Point
) -> None:
    landed_wrongly(room)
    imports, days, _ = as_it_is(room)
    rows = room.bronze([MARCH])

    def killed(reached: Point) -> None:
        if reached is point:
            raise Killed

    with pytest.raises(Killed):
        land_again(replace(room.work(), reached=killed), room.imports())
    if point is not Point.LAND_FINISHED:
        assert as_it_is(room)[:2] == (imports, days)
        assert room.bronze([MARCH]) == rows
    again = land_again(room.work(), room.imports())
    assert [each.record.counts.rejected for each in again] == [0, 0, 0]
    assert [(row["id"], row["n"]) for row in room.bronze([MARCH])] == [("1", 3), ("2", 4), ("3", 3), ("4", 4)]


@pytest.mark.long
def test_an_extract_that_is_offered_once_more_lands_again_where_its_files_are_read_otherwise(room: LandingRoom) -> None:
    early = declared(room, reads=Csv())
    early.land(csv(f"1,{AT},1", f"2,{AT},2", f"9,{AT},9"), "before.csv")
    path = room.write(csv(f"1,{AT},5", f"2,{AT}, 6 "), "all.csv")
    stated = Extract(days=DayRange.inclusive(MARCH, MARCH), where={}, reason="all", confirmed_by="bob")
    _, first = land_foreseen(early, [path], stated)
    assert first.withdrawn.keys == 1
    _, same = land_foreseen(early, [path], stated)
    assert not same.statement.is_new
    _, declared_otherwise = land_foreseen(room, [path], stated)
    assert declared_otherwise.statement.is_new
    _, settled = land_foreseen(room, [path], stated)
    assert not settled.statement.is_new
    with room.ledger.read() as tx:
        land_again(room.work(), read_otherwise(tx, room.source))
    _, after_reading = land_foreseen(room, [path], stated)
    assert after_reading.statement.is_new
    assert [(row["id"], row["n"]) for row in room.bronze([MARCH])] == [("1", 5), ("2", 6)]
