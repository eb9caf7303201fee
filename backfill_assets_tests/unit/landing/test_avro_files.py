"""The records of an Avro file have the values that were written, or it is refused with the block that is wrong."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.landing.decoding.avro_files import avro_records
from backfill_assets_tests.unit.capture.test_packed import zstd

INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "double"}]}
SCHEMA = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}},
        {"name": "value", "type": ["null", "string", INNER]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "map", "type": {"type": "map", "values": "boolean"}},
        {"name": "bytes", "type": "bytes"},
    ],
}
AT = datetime(2026, 3, 1, tzinfo=UTC)
RECORDS = [
    {
        "id": 2**62 + place,
        "amount": Decimal("12345678901234567890.0000000001"),
        "value": [None, "é", {"x": 0.1}][place % 3],
        "kind": "AB"[place % 2],
        "at": AT + timedelta(microseconds=place),
        "day": date(2026, 3, 1),
        "map": {"k": True},
        "bytes": b"\0\1",
    }
    for place in range(500)
]


def written(codec: str = "null", schema: Any = SCHEMA, records: Any = RECORDS) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, json.loads(json.dumps(schema)), records, codec=codec, sync_interval=2_000)
    return file.getvalue()


def read(content: bytes) -> list[dict[str, Any]]:
    found = avro_records(io.BytesIO(content), name="a.avro")
    return [json.loads(each, parse_float=str, parse_int=str) for each in found]


def _as_lines(place: int) -> dict[str, Any]:
    return {
        "id": str(2**62 + place),
        "amount": "12345678901234567890.0000000001",
        "value": [None, "é", {"x": "0.1"}][place % 3],
        "kind": "AB"[place % 2],
        "at": f"2026-03-01T00:00:00.{place:06}Z",
        "day": "2026-03-01",
        "map": {"k": True},
        "bytes": "AAE=",
    }


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_every_value_is_the_one_that_was_written(codec: str) -> None:
    assert read(written(codec)) == [_as_lines(place) for place in range(500)]


def _snappy(text: bytes) -> bytes:
    return pa.Codec("snappy").compress(text, asbytes=True) + struct.pack(">I", zlib.crc32(text))  # type: ignore[no-any-return]


def _long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


TEXTS = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]}


def _packed(codec: str, block: bytes, *, count: int, schema: Any = TEXTS) -> bytes:
    """A file of one block."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    named = b"".join(_long(len(name)) + name.encode() + _long(len(said)) + said for name, said in metadata.items())
    sync = b"s" * 16
    return b"Obj\x01" + _long(2) + named + b"\0" + sync + _long(count) + _long(len(block)) + block + sync


PACKED: Mapping[str, Callable[[bytes], bytes]] = {"snappy": _snappy, "zstandard": zstd, "null": bytes}


@pytest.mark.parametrize("codec", PACKED)
def test_codecs_are_unpacked_and_their_checksums_hold(codec: str) -> None:
    block = PACKED[codec](b"\x04ab\x02c" * 300)
    assert read(_packed(codec, block, count=600)) == [{"x": "ab"}, {"x": "c"}] * 300
    with pytest.raises(BadFile, match=r"is not a complete Avro file: in block 1 it has more than its records"):
        read(_packed(codec, block, count=599))
    with pytest.raises(BadFile, match=r"in block 1 a record is not what its schema says"):
        read(_packed(codec, block, count=601))
    with pytest.raises(BadFile, match=r"is packed by 'lzo', which is not read"):
        read(_packed("lzo", block, count=600))


def test_a_file_that_is_cut_anywhere_is_refused() -> None:
    whole, ends = written("deflate", records=RECORDS[:60]), 0
    for cut in range(len(whole)):
        try:
            found = read(whole[:cut])
        except BadFile:
            continue
        ends += 1  # behind the header, or behind a block: nothing says that another one was written
        assert found == [_as_lines(place) for place in range(len(found))]
    assert ends < 8
    for at in range(4, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        try:
            read(bytes(changed))
        except BadFile:
            continue


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Obj\x02", "it does not begin as one"),
        (b"Obj\x01\x00" + b"s" * 16, "its schema is not an Avro schema"),
        (b"Obj\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "it has a number of too many bytes"),
        (b"Obj\x01\x02\xfe\xff\xff\xff\xff\x01", "bytes follow, and 134,217,728 are the most"),
    ],
)
def test_what_is_no_file_of_avro_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(BadFile, match=f"a.avro is not a complete Avro file: .*{said}"):
        read(content)


def test_a_value_that_no_column_can_hold_is_the_problem_of_its_record() -> None:
    day = {"type": "int", "logicalType": "date"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "day", "type": day}]}
    block = _long(20_000) + _long(2**31 - 1) + _long(0)
    assert read(_packed("null", block, count=3, schema=schema)) == [
        {"day": "2024-10-04"},
        {"day": str(2**31 - 1), "file_problem": "a date is not of the years 1 to 9999"},
        {"day": "1970-01-01"},
    ]
