"""Where files have the columns of a contract: in a header, in the columns of Parquet, and in the lines of JSON."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from backfill_assets.capture.files.file_capture import kind_of
from backfill_assets.capture.json_members import member_at
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.domain import Operations, SourceTable
from backfill_assets.domain.source_files import FileName
from backfill_assets.landing.names import Spot, ignored, meant_by, missing, spots
from backfill_assets.landing.probe import Probe, probe
from backfill_assets_tests.support.declared import EVENTS, source

SCHEMA = T.StructType([*EVENTS.fields, T.StructField("note", T.StringType())])


def named(columns: Mapping[FileName, str]) -> SourceTable:
    return source(schema=SCHEMA, columns=columns)


def probed(
    tmp_path: Path, content: bytes, table: SourceTable, name: str = "a.csv", *, is_captured: bool = False
) -> Probe:
    path = tmp_path / name
    path.write_bytes(content)
    return probe(path, kind_of(path), table, name=name, counted=is_captured)


E_ACUTE, TWO_CHARACTERS = "Créé", unicodedata.normalize("NFD", "Créé")

HEADERS: Mapping[str, tuple[FileName, list[str], int | None]] = {
    "as it is": ("Last Update", ["event_id", "Last Update"], 1),
    "with a blank at its end": ("Last Update ", ["event_id", "Last Update"], 1),
    "with a blank at its beginning, as in Parquet": (" Last Update", ["Last Update", " Last Update"], 1),
    "with signs": ("Cost/Total $", ["event_id", "Cost/Total $"], 1),
    "with a dot": ("a.b", ["a", "a.b"], 1),
    "in quotes": ('say "hi"', ["event_id", 'say "hi"'], 1),
    "in another case": ("AT", ["at", "event_id"], None),
    "one of two that differ in case": ("AT", ["at", "AT"], 1),
    "composed": (E_ACUTE, ["event_id", TWO_CHARACTERS], 1),
    "decomposed": (TWO_CHARACTERS, ["event_id", E_ACUTE], 1),
    "composed beside the other": (TWO_CHARACTERS, [E_ACUTE, TWO_CHARACTERS], 1),
    "none": ("", ["", "event_id"], 0),
    "the first of two": (("amount", 1), ["amount", "event_id", "amount"], 0),
    "the second of two": (("amount", 2), ["amount", "event_id", "amount"], 2),
    "the third of two": (("amount", 3), ["amount", "event_id", "amount"], None),
    "the second without a name": (("", 2), ["", "a", ""], 2),
    "by position": (2, ["a", "b", "c"], 2),
    "by a position behind the last": (3, ["a", "b", "c"], None),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_name_is_found_in_a_header(case: str) -> None:
    name, header, position = HEADERS[case]
    found = spots(named({name: "note"}), header)
    assert found.get("note") == (None if position is None else (Spot(position),))


def test_a_column_that_is_joined_is_there_when_all_of_it_are() -> None:
    table = named({("Date", ("Time")): "at", (0, 2): "note"})
    assert spots(table, ["Date", "x", "Time"])["at"] == (Spot(0), Spot(2))
    assert spots(table, ["Date", "x", "Time"])["note"] == (Spot(0), Spot(2))
    assert "at" not in spots(table, ["Date", "x"])


def test_what_no_column_is_read_from_is_ignored_and_what_is_not_there_is_missing() -> None:
    table = named({"ID": "event_id", ("Date", "Time"): "at", ("x", 2): "note"})
    header = ["ID", "x", "Date", "x", "Time", "event_id", "", "note"]
    assert ignored(table, header) == ("column 6", "event_id", "note", "x")
    assert missing(table, header) == ()
    assert missing(table, header[:3]) == ("at", "note")


def test_a_name_that_is_left_out_is_compared_with_the_columns_of_the_contract() -> None:
    table = named({"ID": "event_id"})
    header = ["Note ", "NOTE", "nöte", "event id", "notes", "At"]
    assert meant_by(table, header) == {"Note ": "note", "NOTE": "note", "nöte": "note", "At": "at"}


TYPES: Mapping[str, T.DataType] = {
    "a.b": T.StringType(),
    "properties": T.StructType(
        [
            T.StructField("time", T.LongType()),
            T.StructField("x.y", T.LongType()),
            T.StructField("x", T.StructType([T.StructField("y", T.LongType()), T.StructField("z", T.LongType())])),
            T.StructField("at", T.ArrayType(T.DoubleType())),
        ]
    ),
    "tags": T.MapType(T.StringType(), T.StringType()),
}


@pytest.mark.parametrize(
    ("name", "spot"),
    [
        ("a.b", Spot(0)),
        ("properties.time", Spot(1, ("time",))),
        ("properties.x.y", Spot(1, ("x.y",))),
        ("properties.x.z", Spot(1, ("x", "z"))),
        ("properties.at.1", Spot(1, ("at", "1"))),
        ("properties.at.y", None),
        ("properties.other", None),
        ("tags.x", Spot(2, ("x",))),
        ("unreadable.x", None),
    ],
)
def test_a_path_is_found_in_the_columns_of_parquet(name: str, spot: Spot | None) -> None:
    header = [*TYPES, "unreadable"]
    assert spots(named({name: "note"}), header, TYPES).get("note") == (None if spot is None else (spot,))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", 1),
        ("a.c", 2),
        ("a.c.d", 3),
        ("l.0", 4),
        ("l.1.x", 5),
        ("l.2", None),
        ("l.x", None),
        ("o.0", 6),
        ("n", None),
        ("n.x", None),
    ],
)
def test_a_member_is_found_by_its_own_name_before_its_path(path: str, value: int | None) -> None:
    document = {"a.b": 1, "a": {"b": 9, "c": 2, "c.d": 3}, "l": [4, {"x": 5}], "o": {"0": 6}, "n": None}
    assert member_at(document, path) == value


def test_a_member_that_is_null_is_there() -> None:
    assert member_at({"a": {"b": None}, "c": None}, "a.b", "absent") is None
    assert member_at({"a": {"b": None}, "c": None}, "c.d", "absent") == "absent"


REFUSED: Mapping[str, tuple[Mapping[FileName, str], bytes, str, str]] = {
    "another name of a required column": (
        {},
        b"Event-Id,at\n",
        "a.csv has no column event_id, which bronze.events requires; its header is: Event-Id, at.",
        "if Event-Id is meant, declare columns={'Event-Id': 'event_id'}; otherwise add the column",
    ),
    "a declared name that is not there": (
        {"Last Updat": "note"},
        b"event_id,at,Last_Update\n",
        "a.csv has no column at 'Last Updat', from which bronze.events takes note; its header is: event_id, at, ",
        "if Last_Update is meant, declare columns={'Last_Update': 'note'}; otherwise add the column",
    ),
    "a name in another case": (
        {"NOTE": "note"},
        b"event_id,at,Note\n",
        "a.csv has no column at 'NOTE', from which bronze.events takes note; its header is: event_id, at, Note.",
        "if Note is meant, declare columns={'Note': 'note'}; otherwise add the column",
    ),
    "a position that is not there": (
        {7: "note"},
        b"event_id,at,x\n",
        "a.csv has no column at position 7, from which bronze.events takes note; its header is: event_id, at, x.",
        "declare what the file calls it: columns={'NAME': 'note'}; or add it to the file, or land it as another source",
    ),
    "a name twice": (
        {"x": "note"},
        b"event_id,x,at,x\n",
        "a.csv names the column x twice; its header is: event_id, x, at, x.",
        "say which of them is meant: columns={('x', 1): 'note'}",
    ),
    "a part that is not there": (
        {("Date", "Time"): "at"},
        b"event_id,Date,Tim\n",
        "a.csv has no column at 'Time', from which bronze.events takes at; its header is: event_id, Date, Tim.",
        "declare what the file calls it: columns={'NAME': 'at'}; or add it to the file, or land it as another source",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_header_without_a_declared_name_is_refused_with_the_one_that_may_be_meant(tmp_path: Path, case: str) -> None:
    columns, content, says, advised = REFUSED[case]
    with pytest.raises(UnreadableFile) as refusal:
        probed(tmp_path, content + b"1,2,3\n", named(columns))
    assert says in str(refusal.value)
    assert str(refusal.value.next_step) == advised


def test_a_feed_may_leave_out_declared_names_that_its_deletes_lack(tmp_path: Path) -> None:
    feed = source(
        schema=T.StructType([*SCHEMA.fields, T.StructField("op", T.StringType())]),
        operation=Operations(column="op", update="u", delete="d"),
        columns={"ID": "event_id", "Note": "note", "Op": "op"},
    )
    assert probed(tmp_path, b"ID,at,Op\n1,,d\n", feed).missing_columns == ("note",)
    with pytest.raises(UnreadableFile, match=r"has no column at 'Op', from which bronze[.]events takes op"):
        probed(tmp_path, b"ID,at\n1,\n", feed)


def lines(*documents: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents)


def test_lines_without_a_declared_member_that_is_required_are_refused_with_the_one_that_may_be_meant(
    tmp_path: Path,
) -> None:
    table = named({"properties.time": "at", "properties.note": "note"})
    good = {"event_id": "1", "properties": {"time": None}}
    assert not probed(tmp_path, lines(good), table, "a.jsonl").empty
    assert not probed(tmp_path, lines({"event_id": "1"}, 5, good), table, "a.jsonl").empty
    with pytest.raises(UnreadableFile) as refusal:
        probed(tmp_path, lines(*[{"event_id": "1", "properties": {"tim": 1}}] * 3), table, "a.jsonl")
    found = "its members are: event_id, properties, properties.tim."
    assert f"a.jsonl has no column at 'properties.time', from which bronze.events takes at; {found}" in str(
        refusal.value
    )
    assert "columns={'properties.tim': 'at'}" in str(refusal.value.next_step)


def test_captured_lines_are_refused_where_another_member_is_meant_and_otherwise_rejected_one_by_one(
    tmp_path: Path,
) -> None:
    table = named({"propertie.time": "at"})
    mistyped = lines(*[{"event_id": "1", "properties": {"time": "2024-05-01T10:00:00Z"}, "kafka_offset": 1}] * 3)
    with pytest.raises(UnreadableFile, match=r"has no column at 'propertie[.]time', from which bronze[.]events takes"):
        probed(tmp_path, mistyped, table, "a.jsonl", is_captured=True)
    # Such as a heartbeat that is alone in its piece: a stream goes on behind it.
    for other in ({"heartbeat": 1, "kafka_offset": 1}, {"kafka_value": "AA=="}, {}, {"event_id": "2"}):
        assert not probed(tmp_path, lines(other), table, "a.jsonl", is_captured=True).empty
    good = named({"properties.time": "at"})
    assert not probed(tmp_path, lines({"heartbeat": 1}) + mistyped, good, "a.jsonl", is_captured=True).empty


@pytest.mark.parametrize("name", [0, ("at", 1), (0, "at")])
def test_members_of_lines_have_no_position(tmp_path: Path, name: FileName) -> None:
    with pytest.raises(UnreadableFile, match="is JSON lines, whose members have no position") as refusal:
        probed(tmp_path, lines({"event_id": "1", "at": "2"}), named({name: "at"}), "a.jsonl")
    assert str(refusal.value.next_step) == "declare the member that it is read from: columns={'NAME': 'at'}"


def test_a_list_of_features_is_not_taken_for_a_record_whose_path_begins_otherwise(tmp_path: Path) -> None:
    feature = {"type": "Feature", "id": "1", "properties": {"time": 1}}
    table = named({"id": "event_id", "properties.time": "at"})
    with pytest.raises(UnreadableFile, match="holds 2 JSON objects in line 1 at 'features'"):
        probed(tmp_path, lines({"type": "FeatureCollection", "features": [feature, feature]}), table, "a.jsonl")
    assert not probed(tmp_path, lines({**feature, "parts": [{}, {}]}), table, "a.jsonl").empty


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_a_column_of_parquet_is_named_by_its_name_and_refused_by_its_type(tmp_path: Path) -> None:
    rows = pa.table({"ID": ["1"], "p": [{"time": "2024-05-01T10:00:00Z", "n": 1.5}], "day": ["x"]})
    found = probed(tmp_path, parquet(rows), named({"ID": "event_id", "p.time": "at", "day": "note"}), "a.parquet")
    assert (found.header, found.ignored_columns, found.missing_columns) == (("ID", "p", "day"), (), ())
    with pytest.raises(UnreadableFile, match="holds at as double; the contract says timestamp"):
        probed(tmp_path, parquet(rows), named({"ID": "event_id", "p.n": "at"}), "a.parquet")
    with pytest.raises(UnreadableFile, match=r"has no column at 'p[.]tim', from which bronze[.]events takes at"):
        probed(tmp_path, parquet(rows), named({"ID": "event_id", "p.tim": "at"}), "a.parquet")
    with pytest.raises(UnreadableFile, match=r"joins note of p[.]n, which is double"):
        probed(tmp_path, parquet(rows), named({"ID": "event_id", "p.time": "at", ("day", "p.n"): "note"}), "a.parquet")
