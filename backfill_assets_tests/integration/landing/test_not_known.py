"""Which keys are not known after records were rejected, until when, and what bronze has of them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.settings import Settings
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.extract import Effect, Extract, land_extract, preview
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets_tests.domains.orders import orders
from backfill_assets_tests.support.landing_examples import (
    EVENTS,
    LANDED_AT,
    LandingRoom,
    event,
    json_lines,
    landing_room,
)

FIRST, SECOND = date(2024, 5, 1), date(2024, 5, 2)


@pytest.fixture
def room(spark: SparkSession, settings: Settings) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, lambda: LANDED_AT, EVENTS) as opened:
        yield opened


def unknown(room: LandingRoom) -> dict[tuple[str, date], int]:
    with room.ledger.read() as tx:
        return {(each.import_id, each.event_date): each.unknown for each in tx.imports.unknown_days(room.source.name)}


def no_object(event_id: str = "e1") -> dict[str, Any]:
    return event(event_id, attributes="no object")


@pytest.mark.long
def test_a_rejected_record_of_a_key_that_was_never_accepted_makes_nothing_unknown(room: LandingRoom) -> None:
    landed = room.land(json_lines(event("e1"), no_object("e2"), no_object("e2"), {"event_id": " "}) + b"{\n")
    assert unknown(room) == {}
    assert (landed.record.counts.rejected, landed.record.keyless) == (4, 2)


@pytest.mark.long
def test_a_record_before_the_accepted_one_makes_nothing_unknown_and_one_after_it_does(room: LandingRoom) -> None:
    room.land(json_lines(no_object("e1"), event("e1"), event("e2"), no_object("e2")))
    assert unknown(room) == {("imp-000001", FIRST): 1}
    assert [row["event_id"] for row in room.unknown([FIRST])] == ["e2"]


@pytest.mark.long
def test_the_first_of_several_rejected_records_says_since_when_and_one_accepted_record_ends_all(
    room: LandingRoom,
) -> None:
    room.land(json_lines(event()), "1.jsonl")
    room.land(json_lines(no_object()), "2.jsonl")
    room.land(json_lines(no_object(), event("other")), "3.jsonl")
    assert unknown(room) == {("imp-000002", FIRST): 1}
    room.land(json_lines(event()), "4.jsonl", on_duplicate=OnDuplicate.CORRECT)
    assert unknown(room) == {}, "the source says again what it said before"


@pytest.mark.long
def test_a_record_that_moves_its_key_takes_what_is_not_known_to_the_other_day(room: LandingRoom) -> None:
    """Read again, the first record is of another day than it was."""
    ordered = replace(room, source=replace(EVENTS, order=("schema_version",), gates=()))
    ordered.land(json_lines(event(schema_version=1)), "1.jsonl")
    ordered.land(json_lines({**no_object(), "schema_version": 5}), "2.jsonl")
    assert unknown(ordered) == {("imp-000002", FIRST): 1}
    ordered.land(json_lines(event(event_time="2024-05-02T10:00:00Z", schema_version=3)), "3.jsonl")
    assert unknown(ordered) == {("imp-000002", SECOND): 1}
    ordered.land(json_lines(event(schema_version=5)), "4.jsonl")
    assert unknown(ordered) == {}, "of one position, the later arrival corrects it"


@pytest.mark.long
@pytest.mark.parametrize("version", [None, "x"])
def test_a_record_whose_position_cannot_be_read_is_newer_than_all_that_arrived_before_it(
    room: LandingRoom, version: str | None
) -> None:
    ordered = replace(room, source=replace(EVENTS, order=("schema_version",), gates=()))
    ordered.land(json_lines(event(schema_version=8)), "1.jsonl")
    ordered.land(json_lines(event(schema_version=version)), "2.jsonl")
    ordered.land(json_lines(event(schema_version=7)), "3.jsonl")
    assert unknown(ordered) == {("imp-000002", FIRST): 1}
    ordered.land(json_lines(event(schema_version=9)), "4.jsonl")
    assert unknown(ordered) == {}


@pytest.mark.long
def test_files_that_are_read_again_in_their_place_leave_exactly_what_is_not_known_then(room: LandingRoom) -> None:
    """The second file becomes valid and moves the key; what the third rejects is newer still."""
    lenient = replace(room, source=replace(EVENTS, json_columns=(), gates=()))
    room.land(json_lines(event("e1"), event("e2"), event("e3")), "1.jsonl")
    second = json_lines({**no_object("e1"), "event_time": "2024-05-02T10:00:00Z"}, no_object("e3"))
    room.land(second, "2.jsonl")
    room.land(json_lines(no_object("e1"), no_object("e2"), event("e4", "2024-05-02T10:00:00Z")), "3.jsonl")
    assert unknown(room) == {("imp-000002", FIRST): 2, ("imp-000003", FIRST): 1}
    lenient.land(second, "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert unknown(room) == {("imp-000003", FIRST): 1, ("imp-000003", SECOND): 1}
    room.land(second, "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert unknown(room) == {("imp-000002", FIRST): 2, ("imp-000003", FIRST): 1}
    assert [row["event_id"] for row in room.unknown([FIRST, SECOND])] == ["e1", "e2", "e3"]


@pytest.mark.long
def test_a_rejected_record_of_an_extract_makes_its_key_unknown_and_withdraws_nothing(
    room: LandingRoom, tmp_path: Path
) -> None:
    room.land(json_lines(event("e1"), event("e2")), "1.jsonl")
    path = tmp_path / "extract.jsonl"
    path.write_bytes(json_lines(event("e1"), no_object("e2")))
    stated = Extract(days=DayRange.inclusive(FIRST, FIRST), where={}, reason="all of it")
    expected = preview(room.work(), [FileCapture(path)], stated, now=LANDED_AT).effect
    assert expected == Effect(unchanged=1, unknown=1)
    found = land_extract(room.work(), [FileCapture(path)], stated)
    assert (found.withdrawn.keys, unknown(room)) == (0, {("imp-000002", FIRST): 1})


@pytest.mark.long
@pytest.mark.parametrize("policy", UnknownKeys)
def test_an_extract_withdraws_a_key_that_is_not_known_also_where_bronze_does_not_show_it(
    room: LandingRoom, tmp_path: Path, policy: UnknownKeys
) -> None:
    """It was not among the rows of the day, and came back once its record could be read."""
    room = replace(room, source=replace(EVENTS, unknown=policy, most_withdrawn_percent=50, gates=()))
    room.land(json_lines(event("e1"), event("e2")), "1.jsonl")
    room.land(json_lines(no_object("e2")), "2.jsonl")
    path = tmp_path / "extract.jsonl"
    path.write_bytes(json_lines(event("e1")))
    stated = Extract(days=DayRange.inclusive(FIRST, FIRST), where={}, reason="all of it")
    found = land_extract(room.work(), [FileCapture(path)], stated)
    assert (found.withdrawn.keys, found.withdrawn.current, unknown(room)) == (1, 2, {})
    lenient = replace(room, source=replace(room.source, json_columns=(), unknown=UnknownKeys.KEEP))
    lenient.land(json_lines(no_object("e2")), "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert [row["event_id"] for row in lenient.bronze([FIRST])] == ["e1"]


@pytest.mark.long
def test_infinity_lands_as_the_bound_that_its_source_declares_and_makes_its_key_unknown_without_one(
    room: LandingRoom,
) -> None:
    types = {"on_day": DateType(), "until": TimestampType(), "at_clock": TimestampNTZType()}
    schema = StructType([*EVENTS.schema, *(StructField(name, kind) for name, kind in types.items())])
    bounds = {
        "on_day": {"infinity": "9999-12-31", "-infinity": "0001-01-01"},
        "until": {"infinity": "9999-12-31T23:59:59.999999Z"},
        "at_clock": {"-infinity": "0001-01-01T00:00:00"},
    }
    strict, bound = (replace(room, source=replace(EVENTS, schema=schema, bounds=b, gates=())) for b in ({}, bounds))
    update = json_lines(
        event("e1", on_day="infinity", until="infinity", at_clock="-infinity"),
        event("e2", on_day="-infinity", at_clock="infinity"),
        event("e3", on_day="0044-03-15 BC"),
    )
    strict.land(json_lines(event("e1"), event("e2"), event("e3")), "1.jsonl")
    strict.land(update, "2.jsonl")
    assert unknown(strict) == {("imp-000002", FIRST): 3}
    bound.land(update, "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert [row["event_id"] for row in bound.unknown([FIRST])] == ["e2", "e3"]
    row = bound.bronze([FIRST])[0]
    assert [str(row[name]) for name in types] == ["9999-12-31", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00"]


@pytest.mark.long
@pytest.mark.parametrize("policy", UnknownKeys)
def test_the_changelog_of_a_key_that_is_dropped_ends_with_the_rejected_record(
    spark: SparkSession, settings: Settings, policy: UnknownKeys
) -> None:
    with landing_room(spark, settings, lambda: LANDED_AT, replace(orders, unknown=policy, gates=())) as room:
        update = {"op": "u", "order_id": "k", "ordered_at": "2024-05-01T09:00:00Z", "place": "p"}
        room.land(json_lines({**update, "lsn": 1, "changed_at": "2024-05-01T10:00:00Z"}), "1.jsonl")
        room.land(json_lines({**update, "lsn": 2, "changed_at": "2024-05-01T11:00:00Z", "place": None}), "2.jsonl")
        (row,) = room.bronze([FIRST])
        ended = (str(row["_valid_until"]), row["_ended_by"])
        assert ended == (("2024-05-01 11:00:00", "unknown") if policy is UnknownKeys.DROP else ("None", None))
        room.land(json_lines({**update, "lsn": 3, "changed_at": "2024-05-01T12:00:00Z"}), "3.jsonl")
        assert [row["_ended_by"] for row in room.bronze([FIRST])] == ["update", None]
        # Of a record without a time it is not known since when: what holds has no end, and what has ended has one.
        room.land(json_lines({**update, "lsn": 4, "ordered_at": None, "changed_at": "no time"}), "4.jsonl")
        last = room.bronze([FIRST])[-1]
        ended = (str(last["_valid_until"]), last["_ended_by"])
        assert ended == (("2024-05-01 12:00:00", "unknown") if policy is UnknownKeys.DROP else ("None", None))
