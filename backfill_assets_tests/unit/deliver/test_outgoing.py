"""What is read of a captured line is what was in the topic; values of rows are written with all that they have."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.kafka.declaration import KafkaReplay, KafkaTopic
from backfill_assets.capture.kafka.replay import ReplayTopic, _bytes_said, _headers_said
from backfill_assets.capture.kafka.stream import TOMBSTONE, KafkaStream
from backfill_assets.capture.kinesis.client import Record
from backfill_assets.capture.kinesis.stream import lines_of
from backfill_assets.capture.streams import Operated
from backfill_assets.deliver.outgoing import (
    CapturedRecords,
    OutgoingRecords,
    key_bytes,
)
from backfill_assets.deliver.replay_parts import _place
from backfill_assets.deliver.sinks import as_captured
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
    said, found = as_captured(line.rstrip("\n"), "kafka_", tombstone=TOMBSTONE)
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
    replay = SimpleNamespace(replay_id="rep-1", parts=parts, is_live=False, period=None, is_as_captured=True, records=8)
    table = SimpleNamespace(name="bronze.sales", version="1")
    monkeypatch.setattr(CapturedRecords, "lines", lambda _, part: iter(content[part.name]))
    for _ in range(2):
        records = OutgoingRecords(ws=cast(Any, None), replay=cast(Any, replay), table=cast(Any, table))
        sent = list(records)
        sources = [value for each in sent for name, value in each.headers if name == "x-source"]
        assert sources == [f"sales/3@{offset}".encode() for offset in range(6)]
        assert {each.partition for each in sent} == {3}
        assert records.left_out == 2
    assert ReplayTopic(TEXT, "sales.backfill", secret={}).partitions_of(parts) == 4


@pytest.mark.parametrize("value", [b'{"a": 1}{"a": 2}', b'[{"a": 1}, {"a": 2}]\n', b'{"a": 1}\n{"a": 2}\n{"a'])
@pytest.mark.parametrize("kind", [PartKind.CAPTURED, PartKind.SHARD])
def test_a_value_of_several_objects_is_sent_once_and_as_it_was(
    monkeypatch: pytest.MonkeyPatch, value: bytes, kind: PartKind
) -> None:
    """They are several landed records."""
    held = [value, b'{"a": 3}']
    if kind is PartKind.CAPTURED:
        written = [Written(each, b"k", [], number=number) for number, each in enumerate(held)]
        lines = list(STREAM._lines(written))  # type: ignore[arg-type]
    else:
        arrived = datetime(2026, 1, 1, tzinfo=UTC)
        records = [Record(sequence=number, at=arrived, key="k", value=each) for number, each in enumerate(held)]
        lines = [line for each in records for line in lines_of("shard", each)]
    part = ReplayPart(
        kind=kind, name="f", digest="", records=len(lines), size_bytes=1, stream="sales", stream_partition="3"
    )
    monkeypatch.setattr(CapturedRecords, "lines", lambda *_: (each.decode().rstrip("\n") for each in lines))
    found = CapturedRecords(ws=cast(Any, None), source="s", parts=(part,), headers=lambda _: [], is_live=False)
    sent = list(found)
    assert [each.value for each in sent if each is not None] == held
    assert len(sent) == len(lines) > len(held)


def test_spaces_around_what_only_looks_like_an_object_are_kept() -> None:
    value = b"\t{\x00} "
    line = STREAM._line(Written(value, None, [])).decode()  # type: ignore[arg-type]
    assert as_captured(line.rstrip("\n"), "kafka_", tombstone=TOMBSTONE)[1] == value


def test_digits_of_a_captured_value_stay_as_they_were_written() -> None:
    line = STREAM._line(Written(b'{"a": 1.50, "b": 1e3}', b"k", [])).decode()  # type: ignore[arg-type]
    said, found = as_captured(line.rstrip("\n"), "kafka_", tombstone=TOMBSTONE)
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


def test_one_number_is_one_key_with_all_of_its_digits() -> None:
    numbers = ["12345678901234567.10", "12345678901234567.11", "1.0", "-0.0", "0.10", "1E+999999"]
    assert [key_bytes({"id": Decimal(each)}, "text") for each in numbers] == [
        b"12345678901234567.1",
        b"12345678901234567.11",
        b"1",
        b"0",
        b"0.1",
        b"1E+999999",
    ]


def test_a_key_is_a_text_or_an_object_whose_values_have_the_types_of_the_contract() -> None:
    key = {"sale_id": "ß1", "number": 7}
    assert key_bytes({"sale_id": "ß1"}, "text") == "ß1".encode()
    assert key_bytes({"number": 7}, "text") == b"7"
    assert key_bytes(key, "json") == '{"sale_id": "ß1", "number": 7}'.encode()
    assert key_bytes({"number": "7"}, "json") == b'{"number": "7"}'
