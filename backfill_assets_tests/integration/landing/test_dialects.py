"""Files of declared dialects land by way of a decoded one, of which nothing stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Csv, SourceTable, daily
from backfill_assets.domain.source_files import FileName
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.extract import Extract
from backfill_assets.landing.imports import imports_for_days, read_otherwise, reading_digest
from backfill_assets.landing.land import land_again
from backfill_assets.landing.likely_forms import other_quotes
from backfill_assets_tests.support.landing_examples import LandingRoom, land_foreseen, landing_room

MARCH = date(2025, 3, 1)
STATIONS = SourceTable(
    name="bronze.stations",
    key=("id",),
    event_time="at",
    partition=daily("day"),
    schema=T.StructType(
        [
            T.StructField("id", T.StringType(), nullable=False),
            T.StructField("at", T.TimestampType(), nullable=False),
            T.StructField("x", T.StringType()),
            T.StructField("n", T.LongType()),
        ]
    ),
    reads=Csv(delimiter=";", encoding="cp1252", comment="#", trim=True),
)
AT = "2025-03-01T00:00:00Z"


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, STATIONS) as room:
        yield room


def in_excel(*rows: str, before: str = "sep=;\r\n", end: str = "\r\n") -> bytes:
    return (before + end.join(("id;at;x;n", *rows)) + end).encode("cp1252")


def decoded_files(room: LandingRoom) -> list[str]:
    return [each.path for each in landing_files(room.settings).listed() if "/decoded/" in each.path]


@pytest.mark.long
def test_a_dump_of_a_database_lands_with_the_values_that_it_escapes(room: LandingRoom) -> None:
    reads = Csv(delimiter="\t", quote="", escape="\\", header=False)
    columns: dict[FileName, str] = {0: "id", 1: "at", 2: "x", 3: "n"}
    lines = (
        f'1\t{AT}\ta\\tb\\nc \\\\\\\\ "d\t1',
        f"2\t{AT}\t\\N\t\\N",
        f"3\t{AT}\ttwo\\\nlines\\\t\t3",
        f"4\t{AT}\t\\x41\t4",
        "\\.",
    )
    dumps = replace(room, source=replace(STATIONS, reads=reads, columns=columns))
    record = dumps.land("".join(f"{line}\n" for line in lines).encode(), "orders.tsv").record
    assert (record.counts.landed, record.counts.rejected) == (4, 1)
    ((rejected,),) = dumps.quarantined.values()
    assert "the escape \\x, which programs read differently" in rejected["reason"]
    assert [(row["id"], row["x"], row["n"]) for row in dumps.bronze([MARCH])] == [
        ("1", 'a\tb\nc \\\\ "d', 1),
        ("2", None, None),
        ("3", "two\nlines\t", 3),
    ]


@pytest.mark.long
def test_files_of_a_dialect_land_alone_together_and_as_an_extract(room: LandingRoom) -> None:
    first = room.write(
        in_excel(
            f'1;{AT};"Zürich; ""HB""";1',
            "# a remark",
            f'2;{AT};"";2',
            f"3;{AT};; 3 ",
            "",
            f"4;{AT};x",
            f'5;{AT};"x"y;5',
            f"6;{AT};€;six",
            f"7;{AT};x;y;7",
            "id;at;x;n",
            f'8;{AT};"two\r\nlines";8',
        ),
        "a.csv",
    )
    second = room.write(in_excel(f"9;{AT};é;9", before="", end="\r"), "b.txt")
    assert isinstance(STATIONS.reads, Csv)
    third = room.write(in_excel(f"10;{AT};?;10", "11;;?;").replace(b"?", b"\x81"), "c.tsv")
    landed = room.land_paths([first, second])
    assert [each.record.counts.landed for each in landed] == [8, 1]
    assert [each.record.counts.rejected for each in landed] == [4, 0]
    (quarantined,) = room.quarantined.values()
    assert [(row["row_number"], row["reason"], row["raw_record"]) for row in quarantined] == [
        (4, "the row does not have the 4 values of the header", f"4;{AT};x"),
        (5, f"the row has text behind a closing quote: {other_quotes(STATIONS.reads)}", f'5;{AT};"x"y;5'),
        (6, "n is not a whole number: 'six'", f"6;{AT};€;six"),
        (7, "the row does not have the 4 values of the header", f"7;{AT};x;y;7"),
    ]
    alone = room.land_path(third).record
    assert (alone.counts.landed, alone.counts.rejected) == (2, 2)
    assert [row["reason"] for row in room.quarantined[alone.import_id]] == ["the row is not valid cp1252"] * 2
    rows = room.bronze([MARCH])
    assert [(row["id"], row["x"], row["n"]) for row in rows] == [
        ("1", 'Zürich; "HB"', 1),
        ("2", None, 2),
        ("3", None, 3),
        ("8", "two\r\nlines", 8),
        ("9", "é", 9),
    ]
    assert decoded_files(room) == []
    with room.ledger.read() as tx:
        imports = imports_for_days(tx, room.source, [MARCH])
    frame = bronze_rows(room.spark, room.settings, room.source, imports=imports, days=[MARCH], raw_owner="read-1")
    assert [row.asDict() for row in frame.orderBy("id").collect()] == rows
    assert len(decoded_files(room)) == 2
    extract = room.write(in_excel(f"1;{AT};again;1"), "d.csv")
    land_foreseen(
        room, [extract], Extract(days=DayRange.inclusive(MARCH, MARCH), where={}, reason="all", confirmed_by="bob")
    )
    assert [(row["id"], row["x"]) for row in room.bronze([MARCH])] == [("1", "again")]
    assert decoded_files(room) == []


@pytest.mark.long
def test_landed_files_are_read_anew_as_they_are_declared_now_and_counted_in_their_place(room: LandingRoom) -> None:
    early = replace(room, source=replace(STATIONS, reads=Csv(delimiter=";", encoding="latin-1")))
    first = early.land(in_excel(f"1;{AT};5 €;1", "# a remark", f"2;{AT};é;2"), "a.csv").record
    second = early.land(in_excel(f"1;{AT};later;1", f"3;{AT.replace('03-01', '03-02')};€;3"), "b.csv").record
    assert (first.counts.landed, first.counts.rejected, first.reading) == (3, 1, reading_digest(early.source))
    with room.ledger.read() as tx:
        assert read_otherwise(tx, early.source) == ()
        before = read_otherwise(tx, room.source)
    assert [each.import_id for each in before] == [first.import_id, second.import_id]
    again, other = (each.record for each in land_again(room.work(), before))
    assert (again.import_id, again.counts.landed, again.counts.rejected) == (first.import_id, 2, 0)
    assert (again.counts.superseded, other.counts.accepted) == (1, 2)
    assert again.reading == other.reading == reading_digest(room.source)
    assert room.quarantined[first.import_id] == []
    with room.ledger.read() as tx:
        assert read_otherwise(tx, room.source) == ()
    days = [MARCH, MARCH + timedelta(days=1)]
    assert [(row["id"], row["x"]) for row in room.bronze(days)] == [("1", "later"), ("2", "é"), ("3", "€")]
    unreadable = replace(room, source=replace(STATIONS, reads=Csv(delimiter=";", encoding="utf-16")))
    with pytest.raises(BadFile, match="is not utf-16 text"):
        land_again(unreadable.work(), [again])
    assert room.imports() == (again, other)
    assert decoded_files(room) == []
