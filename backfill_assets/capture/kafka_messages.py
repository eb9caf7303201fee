"""Kafka messages: what Kafka says of a record beside its value, as a landed record has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from backfill_assets.capture.json_members import quoted, text_or_base64

if TYPE_CHECKING:
    from confluent_kafka import Message

NO_TIME = 253_402_300_800_000
"""The milliseconds since 1970 that no calendar of ours has, from the year 10,000 on: a producer may write any."""
_TIMESTAMP_TYPES = {1: "create", 2: "append"}


def kafka_members(message: Message) -> str:
    """Kafka's metadata of a record, as members of a JSON object; written by hand, because a capture spends its time
    here."""
    kind, at = message.timestamp()
    said = f'"kafka_partition": {message.partition()}, "kafka_offset": {message.offset()}'
    if kind in _TIMESTAMP_TYPES and (written := iso(at)) is not None:
        said += f', "kafka_timestamp": "{written}", "kafka_timestamp_type": "{_TIMESTAMP_TYPES[kind]}"'
    key, headers = message.key(), message.headers()
    if key is not None:
        ((name, text),) = text_or_base64("kafka_key", key).items()
        said += f', "{name}": {quoted(text)}'
    if headers:
        assert isinstance(headers, list)
        said += f', "kafka_headers": {quoted(quoted([_header(name, value) for name, value in headers]))}'
    return said


def _header(name: str, value: str | bytes | None) -> Mapping[str, str | None]:
    held = value.encode() if isinstance(value, str) else value
    return {"name": name, **({"value": None} if held is None else text_or_base64("value", held))}


def size_of(message: Message) -> int:
    """The size of a record in bytes."""
    return len(message.value() or b"") + len(message.key() or b"")


def times_of(batch: Sequence[Message]) -> Iterator[tuple[int, int | None]]:
    """The offsets and the timestamps of records."""
    return ((each.offset() or 0, milliseconds(each)) for each in batch)


def milliseconds(message: Message) -> int | None:
    """The timestamp of a record, as Kafka has it; None for none."""
    kind, at = message.timestamp()
    return at if kind in _TIMESTAMP_TYPES else None


def time_of(message: Message) -> datetime | None:
    """The timestamp of a record; None for none, and for one of no calendar."""
    return instant(milliseconds(message))


def instant(since_ms: int | None) -> datetime | None:
    """The instant of a timestamp; None for one of no calendar."""
    if since_ms is None:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=since_ms)
    except OverflowError:  # a producer may write any number
        return None


def iso(since_ms: int) -> str | None:
    """A timestamp as a landed record has it; None for one of no calendar."""
    second = _iso_second(since_ms // 1000)
    return None if second is None else f"{second}.{since_ms % 1000:03}Z"


@lru_cache(maxsize=10_000)
def _iso_second(second: int) -> str | None:
    found = instant(second * 1000)
    return None if found is None else found.replace(tzinfo=None).isoformat(timespec="seconds")
