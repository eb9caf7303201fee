"""What a shard that has nothing left tells of what was captured of it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.errors import RangeExpired
from backfill_assets.capture.kinesis.client import KinesisClient, Record, Shard, Stream
from backfill_assets.capture.kinesis.stream import KinesisCapture, lines_of
from backfill_assets.capture.streams import Captured, CapturePeriod
from backfill_assets.domain import KinesisStream

ON = CapturePeriod(start=None, end=None)


def captured_to(position: str) -> tuple[Captured, ...]:
    return (Captured(partition="shard-1", range_from="10", range_to=position, since=None, is_complete=True),)


@pytest.mark.parametrize(
    ("closed", "ended", "is_known"), [("90", "50+", False), ("90", "90+", True), ("", "50+", True)]
)
def test_a_shard_that_ended_behind_its_captures_and_has_expired_is_refused(
    monkeypatch: pytest.MonkeyPatch, closed: str, ended: str, is_known: bool
) -> None:
    stream = Stream(
        arn="arn", status="ACTIVE", created_at=datetime(2020, 1, 1, tzinfo=UTC), retention=timedelta(hours=24)
    )

    def nothing(*_: object, **__: Any) -> None:
        return None

    monkeypatch.setattr(KinesisClient, "summary", lambda _: stream)
    monkeypatch.setattr(KinesisClient, "shards", lambda _: [Shard(name="shard-1", begun="1", closed=closed)])
    monkeypatch.setattr(KinesisClient, "first", nothing)
    monkeypatch.setattr(KinesisClient, "last", nothing)
    opened = KinesisCapture(KinesisStream(stream="sales", region="eu-central-1"), secret={})
    if is_known:
        (span,) = opened.resolve(ON, captured_to(ended)).spans
        assert (span.range_from, span.range_to) == (ended, ended)
    else:
        with pytest.raises(RangeExpired, match=r"begins at 90\+.*, and the captures end at 50\+"):
            opened.resolve(ON, captured_to(ended))


@pytest.mark.parametrize(("hours", "is_known"), [(23, True), (25, False)])
def test_a_shard_of_which_nothing_was_captured_may_have_lost_what_came_since_the_last_captured_record(
    monkeypatch: pytest.MonkeyPatch, hours: int, is_known: bool
) -> None:
    """It had no record yet, or is of a division since."""
    now = datetime.now(UTC)
    held = {
        "shard-1": Record(sequence=50, at=now, key="a", value=b""),
        "shard-2": Record(sequence=70, at=now, key="b", value=b""),
    }
    created_at, day = datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=24)
    stream = Stream(arn="arn", status="ACTIVE", created_at=created_at, retention=day)
    monkeypatch.setattr(KinesisClient, "summary", lambda _: stream)
    monkeypatch.setattr(KinesisClient, "shards", lambda _: [Shard(name=name, begun="1") for name in held])
    monkeypatch.setattr(KinesisClient, "first", lambda _, shard, **__: held[shard])
    monkeypatch.setattr(KinesisClient, "last", lambda _, shard, __: held[shard].sequence)
    opened = KinesisCapture(KinesisStream(stream="sales", region="eu-central-1"), secret={})
    at = now - timedelta(hours=hours)
    captured = (Captured(partition="shard-1", range_from="10", range_to="50+", is_complete=True, last_at=at),)
    if is_known:
        spans = {span.partition: (span.range_from, span.range_to) for span in opened.resolve(ON, captured).spans}
        assert spans == {"shard-1": ("50+", "50+"), "shard-2": ("70", "70+")}
    else:
        with pytest.raises(RangeExpired, match="partition shard-2 of the stream sales begins at 70 "):
            opened.resolve(ON, captured)


def field(number: int, held: int | bytes) -> bytes:
    """A field of a message of Protobuf, written by hand."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)

    if isinstance(held, int):
        return varint(number << 3) + varint(held)
    return varint(number << 3 | 2) + varint(len(held)) + held


def aggregate(records: Sequence[tuple[str, bytes]]) -> bytes:
    """What the Kinesis Producer Library makes of some records."""
    keys = sorted({key for key, _ in records})
    message = b"".join(field(1, key.encode()) for key in keys) + field(2, b"170141183460469231731687303715884105728")
    for key, value in records:
        message += field(3, field(1, keys.index(key)) + field(2, 0) + field(3, value) + field(4, field(1, b"tag")))
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message, usedforsecurity=False).digest()


def landed(value: bytes) -> list[dict[str, Any]]:
    record = Record(sequence=7, at=datetime(2026, 1, 1, tzinfo=UTC), key="of the aggregate", value=value)
    return [json.loads(line) for line in lines_of("shard-1", record)]


def test_an_aggregate_of_the_producer_library_is_its_records() -> None:
    records = [(f"key-{number % 3}", b'{"id": %d, "text": "%s"}' % (number, b"x" * number)) for number in range(300)]
    found = landed(aggregate(records))
    assert [(each["kinesis_partition_key"], each["id"]) for each in found] == [
        (key, number) for number, (key, _) in enumerate(records)
    ]
    assert [(each["kinesis_sequence"], each["kinesis_subsequence"]) for each in found] == [
        ("7", number) for number in range(300)
    ]


@given(place=st.integers(4, 200), bit=st.integers(0, 7))
def test_a_bit_of_an_aggregate_that_changed_rejects_it_and_says_why(place: int, bit: int) -> None:
    value = bytearray(aggregate([("a", b'{"id": 1}'), ("b", b'{"id": 2}')]))
    value[min(place, len(value) - 1)] ^= 1 << bit
    (found,) = landed(bytes(value))
    assert found["kinesis_problem"] == "it is an aggregate of records, and its checksum does not match"
    assert base64.b64decode(found["kinesis_value"]) == value


def test_an_aggregate_of_another_form_is_rejected() -> None:
    for message in (b"\xff", field(3, field(1, 5) + field(3, b"{}")), field(3, b""), b"\x0b\x00"):
        value = b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message, usedforsecurity=False).digest()
        (found,) = landed(value)
        assert "it is not of the form" in found["kinesis_problem"]


def test_data_of_several_objects_counts_as_so_many_records() -> None:
    found = landed(b'{"id": 1}\n{"id": 2}\n')
    kept = [base64.b64decode(each["kinesis_value"]) for each in found]
    assert kept == [b'{"id": 1}\n{"id": 2}\n', b'{"id": 2}']
    assert "one of 2 JSON objects" in found[0]["kinesis_problem"]
    assert [each.get("id") for each in landed(b'{"id": 1, "of": [{}, {}]}\n')] == [1]
