"""What files call the columns of a contract is declared, and every format is read by it."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable, daily, lifts
from backfill_assets.domain.source_files import FileName
from backfill_assets_tests.support.landing_examples import LandingRoom, json_lines, landing_room, reasons

COLUMNS: Mapping[str, T.DataType] = {
    "event_id": T.StringType(),
    "at": T.TimestampType(),
    "place": T.StringType(),
    "amount": T.DecimalType(20, 10),
    "payload": T.StringType(),
    "first": T.DoubleType(),
}


def source(columns: Mapping[FileName, str], **changed: Any) -> SourceTable:
    required = ("event_id", "at")
    schema = T.StructType([T.StructField(name, kind, name not in required) for name, kind in COLUMNS.items()])
    declared: dict[str, Any] = {
        "name": "bronze.events",
        "key": ("event_id",),
        "event_time": "at",
        "partition": daily("event_date"),
        "schema": schema,
        "json_columns": ("payload",),
        "columns": columns,
    }
    return SourceTable(**{**declared, **changed})


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, source({})) as room:
        yield room


def named(room: LandingRoom, columns: Mapping[FileName, str], **changed: Any) -> LandingRoom:
    return replace(room, source=source(columns, **changed))


TEN = datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001  (Spark hands out UTC without a zone)
AT = "2024-05-01T10:00:00Z"


def values(rows: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# ---------------------------------------------------------------------------------------------------------- members


PATHS: Mapping[FileName, str] = {
    "id": "event_id",
    "properties.time": "at",
    "properties.a.b": "place",
    "properties.mag": "amount",
    "geometry": "payload",
    "geometry.coordinates.0": "first",
}


def feature(**changed: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "Feature",
        "id": "e1",
        "properties": {"time": AT, "mag": 1.10, "a": {"b": "inner"}, "url": "x"},
        "geometry": {"type": "Point", "coordinates": [9.5, 45, 3], "bbox": None},
    }
    return {**found, **changed}


@pytest.mark.long
def test_members_of_members_and_elements_are_read_by_their_path(room: LandingRoom) -> None:
    exact = json.dumps(feature()).replace("1.1", "1.1000000000").encode()
    rows = named(room, PATHS).judge(exact + b"\n", "a.jsonl")
    assert reasons(rows) == [None]
    expected = ("e1", TEN, "inner", Decimal("1.1000000000"), 9.5)
    assert values(rows, "event_id", "at", "place", "amount", "first") == [expected]
    assert json.loads(rows[0]["payload"]) == {"type": "Point", "coordinates": [9.5, 45, 3], "bbox": None}
    # `geometry` is a column itself, and its members beside the path are of that.
    ignored = ["geometry.bbox", "geometry.type", "properties.url", "type"]
    assert list(rows[0]["_ignored"]) == ignored


@pytest.mark.long
def test_a_member_that_has_the_name_of_a_path_is_taken_before_it(room: LandingRoom) -> None:
    inner = {"time": AT, "a.b": "own", "a": {"b": "path"}}
    lines = json_lines(
        feature(properties=inner),
        {**feature(), "properties.time": "2024-05-01T11:00:00Z"},
        {**feature(), "properties.time": None},
        {**feature(), "properties.a.b": "outermost"},
        {**feature(), "properties.a": {"b": "outer"}},
    )
    rows = named(room, PATHS).judge(lines, "a.jsonl")
    assert values(rows, "place", "_reason") == [
        ("own", None),
        ("inner", None),
        ("inner", "at is missing"),
        ("outermost", None),
        ("outer", None),
    ]
    assert rows[1]["at"] == TEN.replace(hour=11)


@pytest.mark.long
def test_a_path_that_leads_nowhere_is_null(room: LandingRoom) -> None:
    time = {"time": AT}
    lines = json_lines(
        feature(properties={**time, "a": "text"}, geometry={"coordinates": []}),
        feature(properties={**time, "a": ["b"]}, geometry={"coordinates": {"0": 7}}),
        feature(properties={**time, "a": None}, geometry={"coordinates": "[1]x"}),
        feature(properties=time, geometry=[1]),
        feature(properties="x"),
        feature(properties=[{"time": AT}]),
    )
    rows = named(room, PATHS).judge(lines, "a.jsonl")
    assert values(rows, "place", "first") == [
        *[(None, each) for each in (None, 7.0, None, None)],
        *[(None, 9.5)] * 2,
    ]
    assert reasons(rows)[4:] == ["at is missing"] * 2


@pytest.mark.long
def test_an_object_on_a_path_that_names_a_member_twice_is_rejected(room: LandingRoom) -> None:
    twice = json.dumps(feature()).replace('"mag": 1.1', '"mag": 1.1, "mag": 2.2').encode()
    rows = named(room, PATHS).judge(twice + b"\n" + json_lines(feature()), "a.jsonl")
    assert reasons(rows) == ["the line names a column twice", None]


# ------------------------------------------------------------------------------------------------------------ CSV


@pytest.mark.long
def test_a_csv_is_read_by_the_names_and_positions_that_are_declared(room: LandingRoom) -> None:
    columns: Mapping[FileName, str] = {
        "ID": "event_id",
        ("Date", "Time (UTC)"): "at",
        "Province/State": "place",
        ("amount $", 2): "amount",
        7: "first",
    }
    content = (
        '\ufeff"ID",id,Date,Time (UTC)," Province/State ",amount $,amount $,,\r\n'
        'e1,x,2024-05-01,10:00Z,"a, ""b""",1,2.5,0.5,\r\n'
        "e2,x,2024-05-01,,b,1,2.5,0.5,\r\n"
        "e3,x,,10:00Z,c,1,2.5,0.5,\r\n"
        "e4,x,2024-05-01, ,d,1,2.5,0.5,\r\n"
        "e5,x,2024-05-01,10:00Z,e,,,,\r\n"
    ).encode()
    rows = named(room, columns).judge(content, "a.csv")
    assert values(rows, "event_id", "at", "place", "amount", "first", "_reason") == [
        ("e1", TEN, 'a, "b"', Decimal("2.5"), 0.5, None),
        *[(f"e{n}", None, "bcd"[n - 2], Decimal("2.5"), 0.5, "at is missing") for n in (2, 3, 4)],
        ("e5", TEN, "e", None, None, None),
    ]
    landed = named(room, columns).land(content, "a.csv")
    assert landed.record.ignored_columns == ("amount $", "column 8", "id")
    assert landed.missing_columns == ("payload",)
    raw = [row["raw_record"] for row in room.quarantined[landed.record.import_id]]
    assert raw[0] == "e2,x,2024-05-01,,b,1,2.5,0.5,"


# -------------------------------------------------------------------------------------------------------- Parquet


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.long
def test_nested_columns_of_parquet_are_read_by_their_path_with_their_types(room: LandingRoom) -> None:
    columns: Mapping[FileName, str] = {
        "ID": "event_id",
        "p.at.0": "at",
        "tags.place": "place",
        "p.amount": "amount",
        "p": "payload",
        "x.y": "first",
    }
    kind = pa.struct([("at", pa.list_(pa.timestamp("ns", "UTC"))), ("amount", pa.decimal128(12, 3))])
    table = pa.table(
        {
            "ID": ["e1", "e2", "e3", "e4"],
            "id": [9, 9, 9, 9],
            "p": pa.array(
                [
                    {"at": [1_714_557_600_000_000_000], "amount": Decimal("1.500")},
                    {"at": [1_714_557_600_000_000_001], "amount": None},
                    {"at": [], "amount": None},
                    None,
                ],
                kind,
            ),
            "tags": pa.array([[("place", "Rimini")], [], None, [("x", "y")]], pa.map_(pa.string(), pa.string())),
            "x.y": [0.5, None, 1.5, 2.5],
            "x": pa.array([{"y": 9.0}] * 4),
        }
    )
    rows = named(room, columns).judge(parquet(table), "a.parquet")
    assert values(rows, "event_id", "at", "place", "amount", "first") == [
        ("e1", TEN, "Rimini", Decimal("1.5"), 0.5),
        ("e2", None, None, None, None),
        ("e3", None, None, None, 1.5),
        ("e4", None, None, None, 2.5),
    ]
    assert reasons(rows) == [
        None,
        "at does not fit timestamp: '2024-05-01T10:00:00.000000001Z'",
        *["at is missing"] * 2,
    ]
    assert json.loads(rows[0]["payload"])["amount"] == 1.5
    assert named(room, columns).land(parquet(table), "a.parquet").record.ignored_columns == ("id", "x")


def test_columns_of_parquet_are_joined_as_texts(room: LandingRoom) -> None:
    columns: Mapping[FileName, str] = {("n", "s"): "event_id", ("day", "time"): "at"}
    table = pa.table(
        {
            "n": pa.array([1, 2, None], pa.uint8()),
            "s": ["a", "b", "c"],
            "day": pa.array([date(2024, 5, 1), None, date(2024, 5, 1)]),
            "time": ["10:00Z"] * 3,
        }
    )
    rows = named(room, columns).judge(parquet(table), "a.parquet")
    assert values(rows, "event_id", "at", "_reason") == [
        ("1 a", TEN, None),
        ("2 b", None, "at is missing"),
        (None, TEN, "event_id is missing"),
    ]


# ------------------------------------------------------------------------------------------------------- versions


@pytest.mark.long
def test_a_file_is_of_the_version_whose_names_it_has(room: LandingRoom) -> None:
    """Of all forms: with the names of the first version, of the second, of both, and of none."""
    first = T.StructType(list(source({}).schema.fields[:3]))
    own = named(
        room,
        {"Id": "event_id", "Last_Update": "at", "p.x": "place"},
        earlier={1: first},
        earlier_columns={1: {"ID": "event_id", "Last Update": "at", "Province": "place"}},
    )
    old = {"ID": "e1", "Last Update": AT, "Province": "a"}
    new = {"Id": "e2", "Last_Update": "2024-05-02T10:00:00Z", "amount": 1}
    own.land(json_lines(old), "old.jsonl")
    own.land(json_lines({**new, "p": {"x": "b"}}), "new.jsonl")
    for name, row in (("old", {**old, "ID": "e3"}), ("new", {**new, "Id": "e4", "p": {"x": "c"}})):
        own.land(parquet(pa.Table.from_pylist([row])), f"{name}.parquet")
    own.land(b"ID,Last Update,Province\ne5,%s,d\n" % AT.encode(), "old.csv")
    found = own.bronze([date(2024, 5, 1), date(2024, 5, 2)])
    assert values(found, "event_id", "place", "amount") == [
        ("e1", "a", None),
        ("e2", "b", Decimal(1)),
        ("e3", "a", None),
        ("e4", "c", Decimal(1)),
        ("e5", "d", None),
    ]
    both = {**old, **new}
    for content, name in (
        (json_lines(both), "both.jsonl"),
        (parquet(pa.Table.from_pylist([both])), "both.parquet"),
        (b"ID,Last Update,Province,Last_Update,Id\n1,2,3,4,5\n", "both.csv"),
    ):
        with pytest.raises(UnreadableFile, match=r"has the columns of no version of bronze[.]events: .*Last Update, "):
            own.land(content, name)


@pytest.mark.long
def test_versions_that_call_one_column_by_other_names_are_told_apart_by_what_they_read(room: LandingRoom) -> None:
    """Two versions with one contract: the names alone differ, and where they are crossed a file could be of both."""
    schema = source({}).schema
    own = named(
        room,
        {"a": "place", "b": "payload"},
        earlier={1: schema},
        earlier_columns={1: {"b": "place", "a": "payload"}},
    )
    with pytest.raises(
        UnreadableFile, match=r"can be of versions 1 and 2 of bronze[.]events, which would give other rows"
    ):
        own.land(b"event_id,at,amount,first,a,b\ne1,%s,1,1,x,{}\n" % AT.encode(), "a.csv")
    with_version = b"event_id,at,amount,first,a,b,schema_version\n%b" % b"".join(
        b"e%d,%s,1,1,%b,%d\n" % (n, AT.encode(), values, n) for n, values in ((1, b"{},x"), (2, b"x,{}"))
    )
    assert own.land(with_version, "b.csv").record.counts.rejected == 0
    assert values(own.bronze([date(2024, 5, 1)]), "event_id", "place", "payload") == [
        ("e1", "x", "{}"),
        ("e2", "x", "{}"),
    ]


@pytest.mark.long
def test_the_version_can_have_a_name_of_its_own(room: LandingRoom) -> None:
    schema = T.StructType([T.StructField("event_id", T.StringType(), False), *source({}).schema.fields[1:]])
    own = named(room, {"v": "schema_version"}, earlier={1: schema}, lift={1: lifts(defaults={})})
    lines = json_lines(*({"event_id": f"e{n}", "at": AT, "v": n} for n in (1, 2, 3)))
    landed = own.land(lines, "a.jsonl")
    assert landed.record.counts.rejected == 1
    assert [row["reason"] for row in own.quarantined[landed.record.import_id]] == [
        "schema_version is '3', and the contract has versions 1 to 2"
    ]


# -------------------------------------------------------------------------------------------------- the same records

NAMES = ("a", "b", "a.b", "b.a", "c", "Ä", "x y", "$", "1", "0", "a.0", "")
"""Names of which some have dots, so that a path can be meant in more than one way."""


def meant(document: Any, path: str) -> tuple[bool, Any]:
    """What a path leads to, by trying every way to divide it, of which the longest first name counts first."""
    if isinstance(document, dict) and path in document:
        return True, document[path]
    if isinstance(document, list) and path.isdigit() and int(path) < len(document):
        return True, document[int(path)]
    for dot in [n for n in range(len(path) - 1, -1, -1) if path[n] == "."]:
        is_there, inner = meant(document, path[:dot]) if "." not in path[:dot] else (False, None)
        if isinstance(document, dict) and path[:dot] in document:
            is_there, inner = True, document[path[:dot]]
        if is_there and (found := meant(inner, path[dot + 1 :]))[0]:
            return found
    return False, None


def document(chance: random.Random, depth: int) -> Any:
    if depth == 0 or chance.random() < 0.3:
        return chance.choice(["text", "5", 5, 1.50, True, None, "{}", " "])
    if chance.random() < 0.25:
        return [document(chance, depth - 1) for _ in range(chance.randrange(3))]
    return {name: document(chance, depth - 1) for name in chance.sample(NAMES, chance.randint(1, 5))}


def text_of(value: Any) -> str | None:
    """The text that a STRING gets of a member."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.long
def test_every_path_leads_where_it_leads_in_plain_python(room: LandingRoom) -> None:
    """600 documents of odd names by 12 paths of one to three of them, two of which are also joined."""
    chance = random.Random(59)
    paths = sorted({".".join(chance.choices(NAMES, k=chance.randint(1, 3))) for _ in range(12)})
    fields = [T.StructField(f"c{n}", T.StringType()) for n in range(len(paths))]
    schema = T.StructType([*source({}).schema.fields[:2], *fields, T.StructField("both", T.StringType())])
    columns: dict[FileName, str] = {path: f"c{n}" for n, path in enumerate(paths)}
    columns[(paths[0], paths[-1])] = "both"
    documents = [{"event_id": str(n), "at": AT, **_object(chance)} for n in range(600)]
    own = named(room, columns, schema=schema, json_columns=())
    lines = b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in documents)
    rows = own.judge(lines, "a.jsonl")
    assert reasons(rows) == [None] * len(documents)
    wrong = []
    for row, each in zip(rows, documents, strict=True):
        found = [text_of(meant(each, path)[1]) for path in paths]
        ends = (found[0], found[-1])
        both = None if any(not (end or "").strip(" ") for end in ends) else " ".join(map(str, ends))
        expected = [*found, both]
        got = [row[name] for name in (*(f"c{n}" for n in range(len(paths))), "both")]
        wrong += [(each, p, e, g) for p, e, g in zip([*paths, "both"], expected, got, strict=True) if e != g]
    assert wrong == []
    assert sum(row[f"c{n}"] is not None for row in rows for n in range(len(paths))) > 500


def _object(chance: random.Random) -> dict[str, Any]:
    return {name: document(chance, 3) for name in chance.sample(NAMES, chance.randint(2, 6))}


def test_a_csv_with_any_header_gives_what_its_positions_have(room: LandingRoom) -> None:
    chance = random.Random(7)
    header = [
        chance.choice(['say "hi"', "a,b", "two\nlines", "Ä", "A", "a", "", "x.y", "$", "it's"]) for _ in range(30)
    ]
    rows = [[f"{place}-{row}" for place in range(len(header))] for row in range(20)]
    columns: dict[FileName, str] = {}
    for place, name in enumerate(header):
        number = header[: place + 1].count(name)
        columns[(name, number)] = f"c{place}"
    fields = [T.StructField(f"c{place}", T.StringType()) for place in range(len(header))]
    schema = T.StructType([*source({}).schema.fields[:2], *fields])
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\r\n").writerows(
        [["event_id", "at", *header], *([str(n), AT, *row] for n, row in enumerate(rows))]
    )
    found = named(room, columns, schema=schema, json_columns=()).judge(sink.getvalue().encode(), "a.csv")
    assert [[row[f"c{place}"] for place in range(len(header))] for row in found] == rows
    assert {row["at"] for row in found} == {datetime(2024, 5, 1, 10, tzinfo=UTC).replace(tzinfo=None)}
