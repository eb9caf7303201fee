"""Values in Confluent's wire format, written without the code that reads them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro


def of_schema(schema_id: int, payload: bytes) -> bytes:
    """A payload behind the id of its schema."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema_id: int, schema: str, value: Any) -> bytes:
    """A value of Avro."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return of_schema(schema_id, stream.getvalue())


def protobuf(schema_id: int, payload: bytes, indexes: Sequence[int] = (0,)) -> bytes:
    """A message of Protobuf: the first one of its schema, or the one of these indexes."""
    numbers = [0] if list(indexes) == [0] else [len(indexes), *indexes]
    return of_schema(schema_id, b"".join(varint(number << 1) for number in numbers) + payload)


def varint(number: int) -> bytes:
    """A number as Protobuf writes it; a negative one as its 64 bits."""
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def message(fields: Mapping[int, int | bytes | str | list[bytes]]) -> bytes:
    """A message of fields by their number: numbers as varints, texts and bytes with their length."""
    found = b""
    for number, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int):
                found += varint(number << 3) + varint(each)
            else:
                content = each.encode() if isinstance(each, str) else bytes(each)
                found += varint(number << 3 | 2) + varint(len(content)) + content
    return found
