"""Kinesis aggregates: the records that a producer's library has put into one record of a stream.

The form is that of the Kinesis Producer Library: four bytes, a message of Protobuf with a table of partition keys and
the records, and the MD5 of the message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

_MAGIC = b"\xf3\x89\x9a\xc2"
_KEYS, _RECORDS = 1, 3
_KEY_OF_RECORD, _VALUE_OF_RECORD = 1, 3
_NUMBER, _BYTES = 0, 2


class DamagedAggregate(Exception):
    """An aggregate whose checksum does not match, or that is none."""


def records_in(value: bytes) -> Sequence[tuple[str, bytes]] | None:
    """The partition keys and the values of the records of an aggregate; None of a record that is none.

    Raises:
        DamagedAggregate: What they are cannot be known.
    """
    if not value.startswith(_MAGIC):
        return None
    message, digest = value[len(_MAGIC) : -16], value[-16:]
    if len(value) < len(_MAGIC) + 16 or hashlib.md5(message, usedforsecurity=False).digest() != digest:
        raise DamagedAggregate("its checksum does not match")
    try:
        keys: list[str] = []
        found: list[tuple[int, bytes]] = []
        for number, held in _fields(message):
            if number == _KEYS and isinstance(held, bytes):
                keys.append(held.decode())
            elif number == _RECORDS and isinstance(held, bytes):
                record = dict(_fields(held))
                key, data = record[_KEY_OF_RECORD], record[_VALUE_OF_RECORD]
                if not isinstance(key, int) or not isinstance(data, bytes):
                    raise ValueError("a record of another form")
                found.append((key, data))
        return [(keys[key], data) for key, data in found]
    except (ValueError, LookupError):
        raise DamagedAggregate("it is not of the form of the Kinesis Producer Library") from None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protobuf, those of numbers and of bytes."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        held, at = _number(message, at)
        if tag & 7 == _NUMBER:
            yield tag >> 3, held
        elif tag & 7 == _BYTES and at + held <= len(message):
            yield tag >> 3, message[at : at + held]
            at += held
        else:
            raise ValueError("a field of another form")


def _number(message: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = message[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at
