"""What is read of a captured line is what was in the topic; values of rows are written with all that they have."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from backfill_assets.capture.kafka import KafkaStream
from backfill_assets.capture.kafka_topic import KafkaReplay, KafkaTopic
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.streams import Operated
from backfill_assets.deliver.outgoing import _bytes_said, _headers_said, _instant, _key, _of_the_stream, _records_of
from backfill_assets.lake.row_values import json_of

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
        return 12


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


def test_a_key_is_a_text_or_an_object_and_a_record_without_one_has_none() -> None:
    record = {"sale_id": "s1", "number": 7, "nothing": None}
    assert _key(record, ("sale_id",), TEXT) == b"s1"
    assert _key(record, ("number",), TEXT) == b"7"
    assert _key(record, ("sale_id", "number"), replace(TEXT, key_format="json")) == b'{"sale_id": "s1", "number": 7}'
    assert _key(record, ("nothing",), TEXT) is None
    assert _key(record, ("absent",), TEXT) is None


def test_a_time_without_a_zone_is_one_only_where_the_source_says_which() -> None:
    assert _instant("2026-07-01T12:00:00", "") is None
    assert _instant("2026-07-01T12:00:00", "Europe/Amsterdam") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert _instant(" 2026-07-01T12:00:00Z", "") == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert [_instant(each, "UTC") for each in (None, 7, "yesterday")] == [None, None, None]
