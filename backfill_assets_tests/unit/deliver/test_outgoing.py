"""What is read of a captured line is what was in the topic; values of rows are written with all that they have."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from backfill_assets.capture.kafka import KafkaStream
from backfill_assets.capture.kafka_topic import KafkaReplay, KafkaTopic
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.streams import Operated
from backfill_assets.deliver.kafka_out import ReplayTopic
from backfill_assets.deliver.outgoing import (
    OutgoingRecords,
    _bytes_said,
    _headers_said,
    _instant,
    _key,
    _of_the_stream,
    _place,
    _records_of,
)
from backfill_assets.lake.row_values import json_of
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.records import PartKind, ReplayPart

STREAM = KafkaStream(
    KafkaTopic(topic="sales", servers="broker:9092"),
    secret={},
    operated=Operated(
        key=("sale_id",),
        column="op",
        create="u",
        update="u",
        snapshot="u",
        delete="d",
        at="sold_at",
        version=1,
        in_events=False,
    ),
)
TEXT = KafkaReplay(servers="broker:9092", key_format="text")


@dataclass(frozen=True)
class Written:
    """A record as the client gives it."""

    held: bytes | None
    named: bytes | None
    more: list[tuple[str, bytes | None]]
    at: int = 1_700_000_000_123
    number: int = 12

    def value(self) -> bytes | None:
        return self.held

    def key(self) -> bytes | None:
        return self.named

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.more or None

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.number


members = st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3)
objects = st.builds(
    lambda found, indent: json.dumps(found, indent=indent).encode(), members, st.sampled_from([None, 1])
)
values = st.one_of(st.none(), st.binary(max_size=12), objects, st.just(b'{"kafka_offset": 1}'), st.just(b'{"a": 1.50}'))
headers_of = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)


@given(values, st.none() | st.binary(max_size=8), headers_of)
def test_a_captured_record_is_read_as_it_was_in_the_topic(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = STREAM._line(Written(value, key, headers)).decode()  # type: ignore[arg-type]
    said, found = _of_the_stream(line.rstrip("\n"), "kafka_")
    assert _bytes_said(said, "kafka_key") == key
    assert _headers_said(said) == headers
    assert (said["kafka_offset"], said["kafka_timestamp"]) == (12, "2023-11-14T22:13:20.123Z")
    if value is None or found is None:
        assert found == value
    else:
        # Of a JSON object, the space around its members is not kept.
        assert found == value or json.loads(found) == json.loads(value)


def test_a_record_that_was_read_once_more_with_its_topic_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(partition: str, *offsets: int) -> CapturedFile:
        lines = [STREAM._line(Written(b"{}", b"k", [], number=offset)).decode() for offset in offsets]  # type: ignore[arg-type]
        path = f"sales/topic/{partition}-{offsets[0]}.jsonl.gz"
        content[path] = [line.rstrip("\n") for line in lines]
        return cast(
            CapturedFile,
            SimpleNamespace(partition=partition, range_from=str(offsets[0]), stored_path=path, lines=lines),
        )

    content: dict[str, list[str]] = {}
    files = sorted([held("3", 0, 1), held("3", 2, 3), held("scan-1-3", 0, 3), held("scan-1-3", 4, 5)], key=_place)
    parts = tuple(
        ReplayPart(
            kind=PartKind.CAPTURED,
            name=each.stored_path,
            digest="",
            records=2,
            size_bytes=1,
            stream="sales",
            stream_partition=each.partition,
        )
        for each in files
    )
    replay = SimpleNamespace(replay_id="rep-1", parts=parts, is_live=False, period_from=None, period_to=None)
    table = SimpleNamespace(contract_version=1)
    monkeypatch.setattr(OutgoingRecords, "_lines", lambda _, part: iter(content[part.name]))
    records = OutgoingRecords(ws=cast(Any, None), replay=cast(Any, replay), table=cast(Any, table))
    for _ in range(2):
        sent = list(records)
        sources = [value for each in sent for name, value in each.headers if name == "x-source"]
        assert sources == [f"sales/3@{offset}".encode() for offset in range(6)]
        assert {each.partition for each in sent} == {3}
    assert ReplayTopic(TEXT, "sales.backfill", secret={}).partitions_of(parts) == 4


def test_spaces_around_what_only_looks_like_an_object_are_kept() -> None:
    value = b"\t{\x00} "
    line = STREAM._line(Written(value, None, [])).decode()  # type: ignore[arg-type]
    assert _of_the_stream(line.rstrip("\n"), "kafka_")[1] == value


def test_digits_of_a_captured_value_stay_as_they_were_written() -> None:
    line = STREAM._line(Written(b'{"a": 1.50, "b": 1e3}', b"k", [])).decode()  # type: ignore[arg-type]
    said, found = _of_the_stream(line.rstrip("\n"), "kafka_")
    assert found == b'{"a": 1.50, "b": 1e3}'
    assert said["kafka_partition"] == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (1.5, "1.5"),
        (math.nan, '"nan"'),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC), '"2026-01-01T12:00:00.000005Z"'),
        (datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), '"2026-01-01T10:00:00Z"'),
        (datetime(2026, 1, 1, 12), '"2026-01-01T12:00:00"'),  # noqa: DTZ001 - a column without a zone
        (date(2026, 1, 1), '"2026-01-01"'),
        (b"\x00", '"AA=="'),
        ('ä"\n', '"ä\\"\\n"'),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ([("k", Decimal("2.0"))], '[["k", 2.0]]'),
    ],
)
def test_a_value_of_a_row_is_json_with_all_of_its_digits(value: object, text: str) -> None:
    assert json_of(value) == text
    json.loads(text)


def test_records_of_landed_files_are_read_whatever_they_are_written_in(tmp_path: Path) -> None:
    rows: list[dict[str, str | None]] = [{"sale_id": "s1", "amount": "1.50"}, {"sale_id": "s2", "amount": None}]
    lines, table, columns = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    lines.write_bytes(b'{"sale_id":"s1", "amount": "1.50"}\n\nno json\n{"sale_id": "s2", "amount": null}')
    columns.write_text('\ufeffsale_id,amount\r\ns1,1.50\r\n"s2",\r\n', encoding="utf-8")
    parquet.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), table)
    with lines.open("rb") as copy:
        found = list(_records_of(copy, FileKind(format=Format.JSONL, compression="")))
    assert [value for value, _ in found][:2] == [b'{"sale_id":"s1", "amount": "1.50"}', b"no json"]
    assert [record for _, record in found if record is not None] == rows
    for path, kind in ((columns, Format.CSV), (table, Format.PARQUET)):
        with path.open("rb") as copy:
            read = list(_records_of(copy, FileKind(format=kind, compression="")))
        assert [record for _, record in read] == [json.loads(value) for value, _ in read] == rows


def records_of(content: bytes, kind: Format) -> list[tuple[bytes, Mapping[str, Any] | None]]:
    return list(_records_of(io.BytesIO(content), FileKind(format=kind, compression="")))


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    written = io.BytesIO()
    parquet.write_table(table, written, **options)
    return written.getvalue()


def test_a_csv_is_read_as_landing_reads_it() -> None:
    large = "x" * 200_000
    content = f"sale_id , sold_at\ns1,2026\n\ns2,2026,more\ns3\n{large},2026\n".encode() + b"s\xff,2026\n"
    assert [record for _, record in records_of(content, Format.CSV)] == [
        {"sale_id": "s1", "sold_at": "2026"},
        None,  # of other columns than the header, and rejected
        None,
        {"sale_id": large, "sold_at": "2026"},
        None,  # no UTF-8
    ]


def test_lines_end_as_landing_has_them_end() -> None:
    content = b'\xef\xbb\xbf{"a": 1}\r{"a": "\xc2\x85"}\r\n\xff\n\r\n{"a": 3}'
    assert records_of(content, Format.JSONL) == [
        (b'{"a": 1}', {"a": 1}),
        (b'{"a": "\xc2\x85"}', {"a": "\x85"}),
        (b"\xff", None),
        (b'{"a": 3}', {"a": 3}),
    ]


def test_times_of_a_parquet_file_keep_their_zone_or_have_none_and_all_of_their_digits() -> None:
    at = datetime(2026, 7, 1, 0, 30)  # noqa: DTZ001 - what a column without a zone has
    table = pa.table(
        {
            "local": pa.array([at], pa.timestamp("us")),
            "instant": pa.array([at], pa.timestamp("us", tz="UTC")),
            "nanos": pa.array([1_000_000_001], pa.timestamp("ns", tz="UTC")),
            "local_nanos": pa.array([-1_000], pa.timestamp("ns")),
        }
    )
    ((value, record),) = records_of(parquet_of(table), Format.PARQUET)
    assert json.loads(value) == record
    assert record == {
        "local": "2026-07-01T00:30:00",
        "instant": "2026-07-01T00:30:00Z",
        "nanos": "1970-01-01T00:00:01.000000001Z",
        "local_nanos": "1969-12-31T23:59:59.999999",
    }
    assert _instant(record["local"], "Europe/Rome") == datetime(2026, 6, 30, 22, 30, tzinfo=UTC)
    earlier = pa.table({"at": pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))})  # noqa: DTZ001 - as above
    ((_, record),) = records_of(parquet_of(earlier, use_deprecated_int96_timestamps=True), Format.PARQUET)
    assert record == {"at": "9999-01-01T00:00:00Z"}


def test_keys_that_differ_in_a_digit_are_two_and_one_number_is_one_key() -> None:
    numbers = [Decimal("12345678901234567.10"), Decimal("12345678901234567.11")]
    table = pa.table({"id": pa.array(numbers, pa.decimal128(20, 2))})
    of_rows = records_of(parquet_of(table), Format.PARQUET)
    declared = replace(TEXT, key_format="json")
    assert [_key(record or {}, ("id",), declared) for _, record in of_rows] == [
        b'{"id": 12345678901234567.1}',
        b'{"id": 12345678901234567.11}',
    ]
    lines = b'{"id": 1.10}\n{"id": 1.1}\n{"id": 11e-1}\n{"id": 1.0}\n{"id": 1}\n{"id": -0.0}\n{"id": 1e999999}\n'
    keys = [_key(record or {}, ("id",), TEXT) for _, record in records_of(lines, Format.JSONL)]
    assert keys == [b"1.1", b"1.1", b"1.1", b"1", b"1", b"0", b"1E+999999"]


def test_a_key_is_a_text_or_an_object_and_a_record_without_one_has_none() -> None:
    record = {"sale_id": "s1", "number": 7, "nothing": None}
    assert _key(record, ("sale_id",), TEXT) == b"s1"
    assert _key(record, ("number",), TEXT) == b"7"
    assert _key(record, ("sale_id", "number"), replace(TEXT, key_format="json")) == b'{"sale_id": "s1", "number": 7}'
    assert _key(record, ("nothing",), TEXT) is None
    assert _key(record, ("absent",), TEXT) is None
    ((_, half),) = records_of(b'{"sale_id": "\\ud800"}', Format.JSONL)
    for declared in (TEXT, replace(TEXT, key_format="json")):
        assert _key(half or {}, ("sale_id",), declared) is None, "half a character is no text"


def test_a_time_without_a_zone_is_one_only_where_the_source_says_which() -> None:
    assert _instant("2026-07-01T12:00:00", "") is None
    assert _instant("2026-07-01T12:00:00", "Europe/Amsterdam") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert _instant(" 2026-07-01T12:00:00Z", "") == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert [_instant(each, "UTC") for each in (None, 7, "yesterday")] == [None, None, None]
