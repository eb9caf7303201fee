"""Files whose records have no key: each is known by the name of its file and its number in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Operations, SourceTable, daily
from backfill_assets.landing.extract import Extract, LandedExtract, land_extract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import ImportCounts, KeyCounts
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.landing_examples import LandingRoom, landing_room

FIRST, SECOND = date(2024, 5, 1), date(2024, 5, 2)

VISITS = SourceTable(
    name="bronze.visits",
    key=("file_name", "row_number"),
    row_number=True,
    event_time="at",
    partition=daily("visited_on"),
    schema=StructType(
        [
            StructField("file_name", StringType(), nullable=False),
            StructField("row_number", LongType(), nullable=False),
            StructField("at", TimestampType(), nullable=False),
            StructField("page", StringType()),
        ]
    ),
    most_withdrawn_percent=50,
)


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, VISITS) as room:
        yield room


def visits(*pages: str, day: date = FIRST) -> bytes:
    return b"".join(json.dumps({"at": f"{day}T10:00:00Z", "page": page}).encode() + b"\n" for page in pages)


def kept(room: LandingRoom, *days: date) -> list[tuple[str, int, str]]:
    return [(row["file_name"], row["row_number"], row["page"]) for row in room.bronze(days or (FIRST,))]


def extract(room: LandingRoom, path: Path, *days: date, **where: str) -> LandedExtract:
    scope = Extract(days=DayRange.inclusive(days[0], days[-1]), where=where, reason="corrected")
    return land_extract(room.work(), [FileCapture(path)], scope)


@pytest.mark.long
def test_every_record_of_every_file_is_kept_and_equal_ones_too(room: LandingRoom) -> None:
    files = {
        "a.jsonl": visits("home", "home") + b"\nno json\n" + visits("shop"),
        "b.jsonl": visits("home"),
        "c.csv": b"page,at\nhome,2024-05-01T10:00:00Z\nhome,2024-05-01T10:00:00Z\n",
    }
    landed = room.land_paths([room.write(content, name) for name, content in files.items()])
    assert [each.record.counts for each in landed] == [
        ImportCounts(landed=4, accepted=3, rejected=1),
        ImportCounts(landed=1, accepted=1),
        ImportCounts(landed=2, accepted=2),
    ]
    assert kept(room) == [
        *(("a.jsonl", 1, "home"), ("a.jsonl", 2, "home"), ("a.jsonl", 5, "shop")),
        *(("b.jsonl", 1, "home"), ("c.csv", 1, "home"), ("c.csv", 2, "home")),
    ]
    assert room.land(files["a.jsonl"], "copy.jsonl").is_new is False
    again = room.land(files["a.jsonl"], "a.jsonl", on_duplicate=OnDuplicate.REPROCESS).record
    assert (again.counts.accepted, len(kept(room))) == (3, 6)


@pytest.mark.long
def test_columns_of_a_file_with_these_names_are_left_out_and_named(room: LandingRoom) -> None:
    record = room.land(b"row_number,page,at\n77,home,2024-05-01T10:00:00Z\n", "a.csv").record
    lines = b'{"file_name": "x", "row_number": 9, "page": "shop", "at": "2024-05-01T10:00:00Z"}\n'
    other = room.land(lines, "b.jsonl").record
    assert (record.ignored_columns, other.ignored_columns) == (("row_number",), ("file_name", "row_number"))
    assert kept(room) == [("a.csv", 1, "home"), ("b.jsonl", 1, "shop")]


@pytest.mark.long
def test_another_file_of_a_name_that_has_landed_is_refused_and_replaces_its_days_where_that_is_stated(
    room: LandingRoom,
) -> None:
    room.land(visits("home", "shop", "exit"), "day.jsonl")
    corrected = room.write(visits("home", "cart"), "day.jsonl")
    with pytest.raises(Refused, match=r"day.jsonl has the name of imp-000001, and other content") as error:
        room.land_path(corrected)
    assert "--replaces DAY..DAY" in advised(error.value)
    with pytest.raises(Refused, match="no key"):
        room.land_path(corrected, on_duplicate=OnDuplicate.CORRECT)
    assert len(kept(room)) == 3
    with pytest.raises(Refused, match=r"has the name of imp-000001, which has records of other days than 2024-05-02"):
        extract(room, corrected, SECOND)
    with pytest.raises(Refused, match="only of some rows"):
        extract(room, corrected, FIRST, page="home")
    assert [record.import_id for record in room.imports()] == ["imp-000001"]
    found = extract(room, corrected, FIRST)
    assert found.withdrawn.keys == 1
    assert found.files[0].record.counts == ImportCounts(landed=2, accepted=1, duplicate=1)
    assert kept(room) == [("day.jsonl", 1, "home"), ("day.jsonl", 2, "cart")]
    assert sum((record.keys for record in room.imports()), KeyCounts()) == KeyCounts(current=2, withdrawn=1)


@pytest.mark.long
def test_two_files_of_one_name_do_not_land_in_one_call(room: LandingRoom) -> None:
    paths = []
    for number, folder in enumerate(("one", "two", "three")):
        (room.inbox / folder).mkdir(parents=True)
        paths.append(room.write(visits(f"page {number}"), f"{folder}/export.jsonl"))
    with pytest.raises(Refused, match=r"export.jsonl has the name of .*one/export.jsonl, and other content"):
        room.land_paths(paths)
    assert [record.original_path for record in room.imports()] == [str(paths[0])]
    with pytest.raises(Refused, match="2 files of the extract are named export"):
        land_extract(
            room.work(),
            [FileCapture(path) for path in paths[1:]],
            Extract(days=DayRange.inclusive(SECOND, SECOND), where={}, reason="all"),
        )


@pytest.mark.parametrize(
    ("declared", "mistake"),
    [
        ({"key": ("page",)}, "row_number=True needs key="),
        ({"schema": StructType(VISITS.schema.fields[:1] + VISITS.schema.fields[2:])}, "is not a column of its schema"),
        (
            {
                "schema": StructType(
                    [VISITS.schema[0], StructField("row_number", IntegerType()), *VISITS.schema.fields[2:]]
                )
            },
            "row_number has to be a bigint",
        ),
        ({"operation": Operations(column="page", create="c")}, "no later record can name"),
    ],
)
def test_a_declaration_without_keys_has_both_columns_and_no_operations(declared: Any, mistake: str) -> None:
    declares: Callable[..., SourceTable] = replace
    with pytest.raises(InvalidDeclaration, match=mistake):
        declares(VISITS, **declared)


@pytest.mark.long
def test_of_a_source_with_a_zone_a_file_is_replaced_by_an_extract_of_its_local_days(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    local = replace(VISITS, timezone="Europe/Amsterdam")
    lines = [json.dumps({"at": f"{SECOND}T{time}", "page": "home"}).encode() + b"\n" for time in ("00:30", "12:00")]
    with landing_room(spark, settings, clock, local) as room:
        room.land(b"".join(lines), "day.jsonl")
        corrected = room.write(lines[1], "day.jsonl")
        with pytest.raises(Refused, match=r"has records of other days than 2024-05-01"):
            extract(room, corrected, FIRST)
        with pytest.raises(Refused, match=r"has records of other days than 2024-05-03"):
            extract(room, corrected, date(2024, 5, 3))
        extract(room, corrected, SECOND)
        assert kept(room, FIRST, SECOND) == [("day.jsonl", 1, "home")]
