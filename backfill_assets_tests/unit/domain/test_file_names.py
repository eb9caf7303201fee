"""What a source says its files call the columns of its contract, and what such a mistake has to say."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.capture.http.declaration import HttpApi
from backfill_assets.capture.kafka.declaration import KafkaTopic
from backfill_assets.capture.postgres.declaration import PostgresTable
from backfill_assets.domain import POSTGRES_COLUMNS, POSTGRES_OPERATIONS, Csv, Operations, SourceTable, lifts
from backfill_assets_tests.support.declared import EVENTS, FEED, Mistakes, check_named, source

TOPIC = KafkaTopic(servers="localhost:9092", topic="events")
WIDE = StructType([*EVENTS.fields, StructField("note", StringType())])


def of_postgres(**changed: Any) -> SourceTable:
    return source(
        schema=StructType([*EVENTS.fields, *POSTGRES_COLUMNS]),
        order=("pg_lsn", "pg_position"),
        operation=POSTGRES_OPERATIONS,
        capture=PostgresTable(
            host="localhost", database="shop", user="reader", table="public.events", publication="p", slot="s"
        ),
        **changed,
    )


MISTAKES: Mistakes = {
    "a name into no column": (
        lambda: source(columns={"When": "At"}),
        "bronze.events: columns names 'At', which is not a column of its schema, which has 'at': upper and lower case",
    ),
    "two names into one column": (
        lambda: source(columns={"Date": "at", "Time": "at"}),
        "columns names 'at' twice: join several with a tuple, such as ('Date', 'Time')",
    ),
    "what is no name": (lambda: source(columns={1.5: "at"}), "columns must be names of files by the name of a column"),
    "a position before the first": (lambda: source(columns={-1: "at"}), "columns must be names of files"),
    "a position that is yes": (lambda: source(columns={True: "at"}), "columns must be names of files"),
    "a column number 0 of a name": (
        lambda: source(columns={("amount", 0): "at"}),
        "columns has ('amount', 0) for 'at', and columns of one name are counted from 1",
    ),
    "a name that another column has": (
        lambda: source(columns={"at": "event_id", "When": "note"}, schema=WIDE),
        "columns reads 'event_id' from 'at', and 'at' is a column of its schema too: name what files call that one",
    ),
    "a column that landing fills": (
        lambda: source(
            schema=StructType(
                [*EVENTS.fields[1:], *(StructField(n, StringType()) for n in ("file_name", "row_number"))]
            ),
            key=("file_name", "row_number"),
            row_number=True,
            columns={"Name": "file_name"},
        ),
        "columns names 'file_name', which landing fills: no file has it",
    ),
    "names of a version that is not there": (
        lambda: source(earlier_columns={1: {"When": "at"}}),
        "earlier_columns has version 1, and earlier has none",
    ),
    "names of an earlier version into no column": (
        lambda: source(schema=WIDE, earlier={1: EVENTS}, earlier_columns={1: {"Note": "note"}}),
        "earlier_columns[1] names 'note', which is not a column of its schema",
    ),
    "names without a header": (
        lambda: source(reads=Csv(header=False), columns={"When": "at"}),
        "its Csv has no header, so that columns names columns by position, such as {0: 'event_id'}",
    ),
    "a position in records of a topic": (
        lambda: source(capture=TOPIC, columns={0: "at"}),
        "columns has 0 for 'at', and its records have members, which are known by their names",
    ),
    "a key of a topic that is joined": (
        lambda: source(capture=TOPIC, columns={("a", "b"): "event_id"}),
        "columns joins 'event_id' of several, and it has to be one member of a record to be captured",
    ),
    "a name of what a capture of a table writes": (
        lambda: of_postgres(columns={"lsn": "pg_lsn"}),
        "columns names 'pg_lsn', which records have under this name",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_table(mistake: str) -> None:
    check_named(MISTAKES[mistake])


def test_columns_that_are_not_named_have_the_name_that_the_contract_has() -> None:
    table = source(schema=WIDE, columns={("Date", "Time"): "at", ("note", 2): "note"})
    assert table.places == {"event_id": ("event_id",), "at": ("Date", "Time"), "note": (("note", 2),)}


def test_an_earlier_version_has_the_names_of_the_next_one_unless_its_own_are_declared() -> None:
    """A column that is new has none there, and one that was renamed has them under its former name."""
    before = StructType([EVENTS.fields[0], StructField("happened", EVENTS.fields[1].dataType, nullable=False)])
    first = StructType([*EVENTS.fields, StructField("gone", StringType())])
    table = source(
        schema=WIDE,
        columns={"ID": "event_id", "When": "at", "Note": "note"},
        earlier={1: first, 2: before},
        earlier_columns={1: {"Id": "event_id"}},
        lift={1: lifts(renamed={"at": "happened"}, dropped=("gone",)), 2: lifts(renamed={"happened": "at"})},
    )
    assert table.at(2).columns == {"ID": "event_id", "When": "happened"}
    assert table.at(1).columns == {"Id": "event_id"}
    assert table.at(2).at(1).columns == {"Id": "event_id"}


def test_captures_know_the_names_of_their_stream() -> None:
    declared = {"Id": "event_id", "properties.at": "at", "Op": "op"}
    operation = Operations(column="op", create="c", delete="d")
    table = source(schema=FEED, order=("lsn",), operation=operation, capture=TOPIC, columns=declared)
    assert table.operated is not None
    assert (table.operated.key, table.operated.column, table.operated.at) == (("Id",), "Op", "properties.at")
    assert table.event_member == "properties.at"
    assert table.member_columns == ["Id", "properties", "lsn", "Op", "tags"]
    api = source(capture=HttpApi(url="https://api.example.org/v1"), columns={("d", "t"): "at", "a.b": "event_id"})
    assert (api.event_member, api.member_columns) == ("", ["a", "d", "t"])
