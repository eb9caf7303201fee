"""How landed files are taken apart, and which records the contract rejects."""

from __future__ import annotations

import gzip
import json
import random
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from backfill_assets.core.errors import UnreadableFile
from backfill_assets.domain import Csv
from backfill_assets.landing import probe
from backfill_assets.landing.likely_forms import other_quotes
from backfill_assets_tests.support.lakes import folder_at, only_in_folders
from backfill_assets_tests.support.landing_examples import LandingRoom, event, json_lines, reasons
from backfill_assets_tests.support.value_examples import NO_OFFSET, no

TEN = datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001  (Spark hands out UTC without a zone)
QUOTES = other_quotes(Csv())
BOTH = ": declare reads=Csv(), which reads both"


def parquet(room: LandingRoom, table: pa.Table, **options: Any) -> bytes:
    room.inbox.mkdir(parents=True, exist_ok=True)
    path = room.inbox / "written.parquet"
    pq.write_table(table, path, **options)
    return path.read_bytes()


# ------------------------------------------------------------------------------------------------------ JSON lines


def test_a_json_line_gives_texts_and_nested_objects_as_json(room: LandingRoom) -> None:
    lines = json_lines(
        event(place="Rimini", attributes={"b": [1, 2], "a": {"x": None}}, schema_version=2),
        event("e2", attributes='{"as": "text"}', schema_version="3", extra=1, another=None),
        event("e3", attributes=None),
    )
    first, second, third = room.judge(lines, "a.jsonl")
    assert reasons([first, second, third]) == [None, None, None]
    assert (first["event_id"], first["place"], first["schema_version"]) == ("e1", "Rimini", 2)
    assert json.loads(first["attributes"]) == {"b": [1, 2], "a": {"x": None}}
    assert list(json.loads(first["attributes"])) == ["b", "a"]
    assert (second["attributes"], second["schema_version"]) == ('{"as": "text"}', 3)
    assert second["_ignored"] == ["another", "extra"]
    assert (third["attributes"], third["_ignored"]) == (None, None)
    assert (first["event_time"], first["event_date"]) == (TEN, date(2024, 5, 1))


def test_a_long_number_inside_a_nested_object_keeps_its_digits(room: LandingRoom) -> None:
    line = b'{"event_id":"e1","event_time":"2024-05-01T10:00:00Z","attributes":{"sum":12345678901234567890.12}}\n'
    (row,) = room.judge(line, "a.jsonl")
    found = json.loads(row["attributes"], parse_float=Decimal)
    assert found == {"sum": Decimal("12345678901234567890.12")}


def test_lines_that_are_no_json_object_are_rejected_and_keep_their_number_and_text(room: LandingRoom) -> None:
    good = json_lines(event())
    bad = [
        b'{"event_id": "e1"',
        b"not json",
        b"[1]",
        b"null",
        b"5",
        b'{"event_id": "e1"} trailing',
        b'{"event_id": "e1"},',
        b'{"event_id": NaN}',
        b"{'event_id': 'e1'}",
        b'{"event_id": "a\x00b"}',
        b'{"attributes": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
    ]
    rows = room.judge(good + b"\n  \r\n" + b"\n".join(bad) + b"\n" + good, "a.jsonl")
    assert reasons(rows) == [None, *["the line is not a JSON object"] * len(bad), None]
    assert [row["_row"] for row in rows] == [1, *range(4, 4 + len(bad)), 4 + len(bad)]
    assert [row["text"].encode() for row in rows[1:-1]] == bad


def test_a_line_that_is_not_utf8_or_names_a_column_twice_is_rejected(room: LandingRoom) -> None:
    rows = room.judge(
        b'{"event_id": "\xff\xfe"}\n{"event_id": "a", "event_id": "b"}\n' + json_lines(event()), "a.jsonl"
    )
    assert reasons(rows) == ["the line is not valid UTF-8", "the line names a column twice", None]
    assert rows[0]["text"] == '{"event_id": "\ufffd\ufffd"}'


def test_a_gzip_file_with_a_byte_order_mark_and_no_last_line_break_is_read(room: LandingRoom) -> None:
    content = b"\xef\xbb\xbf" + json_lines(event("é1"), event("e2")).replace(b"\n", b"\r\n").rstrip()
    rows = room.judge(gzip.compress(content), "a.jsonl.gz")
    assert [(row["event_id"], row["_row"], row["_reason"]) for row in rows] == [("é1", 1, None), ("e2", 2, None)]


@pytest.mark.long
def test_a_line_of_five_megabytes_is_a_record_like_any_other(room: LandingRoom) -> None:
    long = "x" * 5_000_000
    rows = room.judge(json_lines(event(attributes={"text": long}), event("e2", attributes=long)), "a.jsonl")
    assert json.loads(rows[0]["attributes"]) == {"text": long}
    assert rows[1]["_reason"].startswith("attributes is not a JSON object: 'xxx")
    assert len(rows[1]["_reason"]) < 200


@pytest.mark.parametrize("of_a_task", [0, 1 << 20])
def test_lines_keep_their_numbers_across_the_splits_of_a_file(
    room: LandingRoom, monkeypatch: pytest.MonkeyPatch, of_a_task: int
) -> None:
    monkeypatch.setattr(probe, "_BYTES_OF_A_TASK", of_a_task)
    numbers = range(1, 2_001)
    content = b"".join(json_lines(event(f"{number}", place="x" * (number % 90))) for number in numbers)
    split = 40_000
    assert len(content) > 5 * split
    room.spark.conf.set("spark.sql.files.maxPartitionBytes", split)
    try:
        rows = room.judge(content, "a.jsonl")
    finally:
        room.spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [(row["event_id"], row["_row"]) for row in rows] == [(f"{n}", n) for n in numbers]


# ------------------------------------------------------------------------------------------------------------- CSV


def test_a_csv_is_read_by_its_header(room: LandingRoom) -> None:
    content = (
        b'\xef\xbb\xbfplace,event_time,"event_id",unknown,attributes,unknown\r\n'
        b'"Via Roma,\r\n""bis"" 5",2024-05-01T12:00:00+02:00,e1,1,"{""a"": ""b\\\\c""}",2\r\n'
        b"\r\n"
        b',2024-05-01T10:00:00Z,e2,,"",\r\n'
    )
    first, second = room.judge(content, "a.csv")
    assert reasons([first, second]) == [None, None]
    assert (first["place"], first["event_time"]) == ('Via Roma,\r\n"bis" 5', TEN)
    assert json.loads(first["attributes"]) == {"a": "b\\c"}
    assert (second["place"], second["_row"], second["schema_version"]) == (None, 2, None)


def test_csv_rows_that_do_not_fit_the_header_are_rejected_with_their_text(room: LandingRoom) -> None:
    content = (
        b"event_id,event_time,place\n"
        b"e1,2024-05-01T10:00:00Z,x\n"
        b"e2,2024-05-01T10:00:00Z\n"
        b"e3,2024-05-01T10:00:00Z,x,y\n"
        b'e4,2024-05-01T10:00:00,"a, b"\n'
        b"\x00e5,2024-05-01T10:00:00Z,a\x00b\n"
    )
    rows = room.judge(content, "a.csv")
    width = "the row does not have the 3 values of the header"
    demand = "a timestamp like 2026-01-01T09:00:00Z"
    zone = no("event_time", demand, "2024-05-01T10:00:00", NO_OFFSET)
    assert reasons(rows) == [None, width, width, zone, None]
    assert [row["text"] for row in rows[1:4]] == [
        "e2,2024-05-01T10:00:00Z",
        "e3,2024-05-01T10:00:00Z,x,y",
        'e4,2024-05-01T10:00:00,"a, b"',
    ]
    assert (rows[4]["event_id"], rows[4]["place"]) == ("\x00e5", "a\x00b")


def test_csv_rows_that_are_not_utf8_are_rejected(room: LandingRoom) -> None:
    content = "event_id,event_time,place\ne1,2024-05-01T10:00:00Z,Forlì\ne2,2024-05-01T10:00:00Z,x\n".encode("latin-1")
    with pytest.raises(UnreadableFile, match="line 2 has the byte 0xEC, which is 'ì' in Latin-1"):
        room.judge(content, "a.csv")
    damaged = "event_id,event_time,place\ne1,2024-05-01T10:00:00Z,Forl\xec\ne2,2024-05-01T10:00:00Z,".encode("latin-1")
    assert reasons(room.judge(damaged + "Orléans\n".encode(), "c.csv")) == ["the row is not valid UTF-8", None]
    assert reasons(room.judge(content.decode("latin-1").encode(), "b.csv")) == [None, None]


@pytest.mark.long
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_values_of_a_csv_are_what_was_written_whatever_ends_its_rows(room: LandingRoom, end: str) -> None:
    chance = random.Random(end)
    parts = ["a", "é", " ", "\t", "\0", "\\", "#", "\ufeff", "'", "\u2028", "\x85", "y" * 31, "z" * 127]
    rows, places = ["event_id,event_time,place"], []
    for number in range(600):
        is_quoted = chance.random() < 0.6
        more = ['""', ",", "\n", "\r", "\r\n", "\r\r\n"] * 2 if is_quoted else ['"'] if chance.random() < 0.1 else []
        pieces = [chance.choice([*parts, *more]) for _ in range(chance.randint(0, 5))]
        if not is_quoted and pieces[:1] == ['"']:
            pieces.insert(0, "a")
        text = "".join(pieces)
        rows.append(f"{number},2024-05-01T10:00:00Z,{chr(34) + text + chr(34) if is_quoted else text}")
        places.append((text.replace('""', '"') if is_quoted else text) or None)
    rows.append(f'long,2024-05-01T10:00:00Z,"{"x" * 200_000}{end}\n"')
    places.append("x" * 200_000 + end + "\n")
    found = room.judge(end.join(rows).encode() + end.encode() * chance.randint(0, 2), "a.csv")
    assert [(row["event_id"], row["_reason"]) for row in found] == [
        *((str(n), None) for n in range(600)),
        ("long", None),
    ]
    assert [row["place"] for row in found] == places


def test_a_key_does_not_end_in_a_part_of_a_line_break(room: LandingRoom) -> None:
    content = b"event_time,event_id\r\n2024-05-01T10:00:00Z,e1\r\n2024-05-01T10:00:00Z,e2"
    assert [row["event_id"] for row in room.judge(content, "a.csv")] == ["e1", "e2"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b"event_time,event_id\n2024-05-01T10:00:00Z,e1\r\n",
            f"rows that end in LF, and others: line 2 ends in CR LF{BOTH}",
        ),
        (b'event_time,event_id\r\n1,"a\nb"\r\n\n', f"rows that end in CR LF, and others: line 4 ends in LF{BOTH}"),
        (b"event_time,event_id\n1,a\rb\n", f"rows that end in LF, and others: line 2 ends in CR{BOTH}"),
        (
            b'event_time,event_id\n1,a\n2,"b\n3,c\n',
            f"a quote that is never closed, in the row that begins in line 3: {QUOTES}",
        ),
        (
            b'event_time,event_id\n1,"a\n" ,b\n',
            f"in line 3 text behind a closing quote, in the row that begins in line 2: {QUOTES}",
        ),
    ],
)
def test_a_csv_of_which_the_rows_are_not_known_is_refused_with_the_line(
    room: LandingRoom, content: bytes, problem: str
) -> None:
    for name, data in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        with pytest.raises(UnreadableFile) as refused:
            room.judge(data, name)
        assert refused.value.message == f"{name} has {problem}."


@pytest.mark.long
def test_a_header_alone_is_a_file_without_records(room: LandingRoom) -> None:
    assert room.judge(b"event_id,event_time\n", "a.csv") == []
    assert room.judge(b"event_id,event_time", "b.csv") == []
    assert room.judge(b"", "c.csv") == []
    assert room.judge(b"", "d.jsonl") == []


# --------------------------------------------------------------------------------------------------------- Parquet


@pytest.mark.long
@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array([1_714_557_600], pa.timestamp("s", tz="Europe/Rome")), {}),
        (pa.array([1_714_557_600_000], pa.timestamp("ms", tz="UTC")), {}),
        (pa.array([1_714_557_600_000_000], pa.timestamp("us", tz="UTC")), {}),
        (pa.array([1_714_557_600_000_000_000], pa.timestamp("ns", tz="UTC")), {}),
        (pa.array([1_714_557_600_000_000_000], pa.timestamp("ns", tz="UTC")), {"version": "2.4"}),
        (pa.array([1_714_557_600_000_000_000], pa.timestamp("ns")), {"use_deprecated_int96_timestamps": True}),
        (pa.array(["2024-05-01T12:00:00+02:00"]), {}),
        (pa.array(["2024-05-01T10:00Z"]).dictionary_encode(), {}),
        (pa.array(["2024-05-01T10:00Z"], pa.large_string()), {}),
    ],
)
def test_an_instant_in_parquet_is_read_whatever_its_unit(
    room: LandingRoom, column: pa.Array, options: dict[str, Any]
) -> None:
    content = parquet(room, pa.table({"event_time": column, "event_id": [7]}), **options)
    (row,) = room.judge(content, "a.parquet")
    assert (row["event_id"], row["event_time"], row["_reason"]) == ("7", TEN, None)


def test_parquet_values_of_another_type_are_taken_when_nothing_is_lost(room: LandingRoom) -> None:
    table = pa.table(
        {
            "event_id": pa.array([b"e1", b"e2", b"\xff", b"e4", None], pa.binary()),
            "event_time": ["2024-05-01T10:00:00Z"] * 5,
            "schema_version": pa.array([1.0, 1.5, 1.0, float("nan"), None]),
            "attributes": pa.array([{"a": 1}, {"a": 2}, None, None, None]),
            "seen": pa.array([1, 2, 3, 4, 5], pa.uint64()),
        }
    )
    rows = room.judge(parquet(room, table), "a.parquet")
    assert reasons(rows) == [
        None,
        "schema_version is not a whole number: '1.5'",
        "event_id is not UTF-8 text",
        "schema_version is not a whole number: 'NaN'",
        "event_id is missing",
    ]
    assert (rows[0]["event_id"], rows[0]["schema_version"], rows[0]["attributes"]) == ("e1", 1, '{"a":1}')
    assert [row["_row"] for row in rows] == [1, 2, 3, 4, 5]
    assert json.loads(rows[1]["text"])["seen"] == 2


def test_rows_of_a_parquet_file_are_numbered_across_row_groups(room: LandingRoom) -> None:
    count = 5_000
    table = pa.table({"event_id": [str(n) for n in range(count)], "event_time": ["2024-05-01T10:00:00Z"] * count})
    rows = room.judge(parquet(room, table, row_group_size=500), "a.parquet")
    assert [(row["event_id"], row["_row"]) for row in rows] == [(str(n), n + 1) for n in range(count)]


# -------------------------------------------------------------------------------------------------------- contract


def test_the_first_rule_that_a_record_breaks_is_named(room: LandingRoom) -> None:
    first = ", which BACKFILL_FIRST_DAY sets"
    ahead = "; declare ahead=seconds(60) of a clock that is ahead, planned=True of a schedule"
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"event_time": "2024-05-01T10:00:00Z"}, "event_id is missing"),
        (event(""), "event_id is missing"),
        (event("  "), "event_id is missing"),
        ({"event_id": None, "event_time": "never"}, "event_id is missing"),
        ({"event_id": "e"}, "event_time is missing"),
        (event(event_time=""), "event_time is missing"),
        (event(event_time="yesterday"), "event_time is not a timestamp like 2026-01-01T09:00:00Z: 'yesterday'"),
        (event(attributes="[1]"), "attributes is not a JSON object: '[1]'"),
        (event(attributes=[1]), "attributes is not a JSON object: '[1]'"),
        (event(attributes=5), "attributes is not a JSON object: '5'"),
        (event(attributes='{"a":1} x'), "attributes is not a JSON object: '{\"a\":1} x'"),
        (event(attributes="null"), "attributes is not a JSON object: 'null'"),
        (event(attributes=""), None),
        (event(attributes={}), None),
        (event(schema_version="two"), "schema_version is not a whole number: 'two'"),
        (event(schema_version=2.5), "schema_version is not a whole number: '2.5'"),
        (event(schema_version=99_999_999_999), "schema_version does not fit int: '99999999999'"),
        (event(schema_version=""), None),
        (event(event_time="1970-01-01T00:00:00Z"), f"event_date 1970-01-01 is before the first day 1999-01-01{first}"),
        (
            event(event_time="1999-01-01T00:30:00+01:00"),
            f"event_date 1998-12-31 is before the first day 1999-01-01{first}",
        ),
        (event(event_time="1998-12-31T23:30:00-01:00"), None),
        (event(event_time="2026-01-15T12:00:00Z"), None),
        (
            event(event_time="2026-01-15T12:00:00.000001Z"),
            f"event_time lies in the future (after it was landed){ahead}",
        ),
        (event(event_time="9999-12-31T23:59:59Z"), f"event_time lies in the future (after it was landed){ahead}"),
        (event(place="", unknown={"a": 1}), None),
    ]
    rows = room.judge(json_lines(*(record for record, _ in cases)), "a.jsonl")
    assert reasons(rows) == [reason for _, reason in cases]


OFFSET = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)", re.ASCII)


MINUTES_TOO_MANY = re.compile(r"[+-]\d{2}:?[6-9]\d$")
"""Of an offset: Python takes an hour and 73 minutes for one."""

BELOW_MICROSECONDS = re.compile(r"\.\d{6}\d*[1-9]")
"""Python cuts them off."""


def instant(text: str) -> datetime | None:
    """What Python takes a timestamp of whole microseconds for: the oracle."""
    if not OFFSET.fullmatch(text) or MINUTES_TOO_MANY.search(text) or BELOW_MICROSECONDS.search(text):
        return None
    try:
        found = datetime.fromisoformat(text)
        offset = found.utcoffset()
        return None if offset is None or abs(offset) > timedelta(hours=18) else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


two_digits = st.integers(0, 99).map("{:02}".format)
usual = st.builds(
    lambda at, separator, seconds, fraction, offset: (
        at.strftime(f"%Y-%m-%d{separator}%H:%M")
        + (f":{at.second:02}" + (f".{fraction}" if fraction else "") if seconds else "")
        + offset
    ),
    st.datetimes(datetime(1999, 1, 3), datetime(2026, 1, 10)),  # noqa: DTZ001
    st.sampled_from(["T", " "]),
    st.booleans(),
    st.text("0123456789", max_size=9),
    st.sampled_from(["Z", "+00:00", "-00:00", "+05:30", "-1130", "+02", "+18:00", "+18:01", "+23:59", "", "z", "UTC"]),
)
odd = st.builds(
    "2024-{}-{}T{}:{}:{}{}:{}".format,
    *[two_digits] * 5,
    st.sampled_from(["+", "-"]).map(lambda s: s + "0" + "1"),
    two_digits,
)


@pytest.mark.long
@hypothesis_settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each step of shrinking would be a Spark job
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
        HealthCheck.too_slow,
    ],
)
@given(texts=st.lists(usual | odd | st.text(max_size=30), min_size=60, max_size=200))
def test_event_times_are_read_as_python_reads_them(room: LandingRoom, texts: list[str]) -> None:
    fixed = ["2024-06-30T23:59:60Z", "2024-05-01T24:00:00Z", "2023-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "NaN"]
    kept = [text for text in [*texts, *fixed] if text.strip()]
    rows = room.judge(json_lines(*(event(event_time=text) for text in kept)), "a.jsonl")
    wrong = []
    for text, row in zip(kept, rows, strict=True):
        expected = instant(text)
        found = row["event_time"] and row["event_time"].replace(tzinfo=UTC)
        if found != expected or (row["_reason"] is None) != (expected is not None):
            wrong.append((text, expected, found, row["_reason"]))
    assert wrong == []


def test_the_raw_copy_is_read_only(room: LandingRoom) -> None:
    only_in_folders("objects have no mode")
    room.judge(json_lines(event()), "a.jsonl")
    (stored,) = (path for path in folder_at(room.settings.landing).rglob("*.jsonl"))
    assert stored.stat().st_mode & 0o222 == 0
