"""Avro values: read by the schema that wrote them, with every digit and every unit of it.

The library would round a decimal of more digits than its schema says, and knows no times outside of Python's. So its
logical types get names of our own, and values of these become texts here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, MutableSequence
from datetime import date, timedelta
from decimal import Decimal
from typing import IO, Any

from backfill_assets.capture.schemas.declaration import BrokenValue, Decode, Schema
from backfill_assets.core.errors import PackageMissing

_OURS, _OF_FILES = "backfill-", "backfill-file-"
_CONNECT: Mapping[str, str] = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
}
"""The properties with which Debezium describes a number, besides Avro's logical types."""
_UNITS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_FIRST, _LAST = date.min.toordinal(), date.max.toordinal()
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_S = 86_400
_MOST_PLACES = 1_000


def avro_decoder(schema: Schema, schema_id: int) -> Decode:
    """The decoder of values of a schema.

    Raises:
        BrokenValue: It is no schema.
    """
    try:
        import fastavro
        from fastavro.read import LOGICAL_READERS
    except ImportError:
        raise PackageMissing(what="a topic of Avro values", package="fastavro", extra="schemas") from None
    LOGICAL_READERS.update(_READERS)
    try:
        known: dict[str, Any] = {}
        for each in _with_inner(schema):
            parsed = fastavro.parse_schema(_named(json.loads(each.text)), named_schemas=known)
    except Exception as error:  # noqa: BLE001 - whatever the library says of it, records of it cannot be read
        raise BrokenValue(f"schema {schema_id} is not an Avro schema: {type(error).__name__}") from None

    def decode(value: bytes) -> Any:
        stream = io.BytesIO(value)
        try:
            found = fastavro.schemaless_reader(stream, parsed, None)
        except BrokenValue:
            raise
        except Exception as error:  # noqa: BLE001 - the library reports a broken value by many errors
            raise BrokenValue(f"it is not what schema {schema_id} says: {type(error).__name__}") from None
        if stream.read(1):
            raise BrokenValue(f"it is longer than schema {schema_id} says")
        return found

    return decode


def avro_reader(schema: str, problems: MutableSequence[str]) -> Callable[[IO[bytes]], Any]:
    """The reader of consecutive records of a file.

    Args:
        schema: The one that the file has.
        problems: Takes why a value cannot be read of which the end is known: the record has it as a number then.

    Raises:
        BrokenValue: It is no schema.
    """
    try:
        import fastavro
        from fastavro.read import LOGICAL_READERS
    except ImportError:
        raise PackageMissing(what="a file of Avro", package="fastavro", extra="formats") from None

    def noting(read: Callable[..., Any]) -> Callable[..., Any]:
        def noted(value: Any, *schemas: Any) -> Any:
            try:
                return read(value, *schemas)
            except BrokenValue as error:
                problems.append(str(error))
                return value

        return noted

    try:
        found = json.loads(schema)
        parsed = fastavro.parse_schema(_named(found, _OF_FILES))
    except Exception as error:  # noqa: BLE001 - whatever the library says of it, records of it cannot be read
        raise BrokenValue(f"its schema is not an Avro schema: {type(error).__name__}") from None
    of_file = {name.replace(_OURS, _OF_FILES): noting(read) for name, read in _READERS.items()}

    def record(stream: IO[bytes]) -> Any:
        LOGICAL_READERS.update(of_file)
        return fastavro.schemaless_reader(stream, parsed, None)

    return record


def _with_inner(schema: Schema) -> list[Schema]:
    """A schema behind those that it refers to, each once."""
    found: dict[str, Schema] = {}
    for each in schema.references.values():
        found.update({inner.text: inner for inner in _with_inner(each)})
    return [*found.values(), schema]


def _named(schema: Any, ours: str = _OURS) -> Any:
    """A schema whose logical types have the names that are ours."""
    if isinstance(schema, list):
        return [_named(each, ours) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    logical = found.pop("logicalType", None) or _CONNECT.get(str(found.get("connect.name")))
    if isinstance(found.get("type"), str) and f"{found['type']}-{_OURS}{logical}" in _READERS:
        found["logicalType"] = f"{ours}{logical}"
    for name in ("type", "items", "values"):
        if name in found:
            found[name] = _named(found[name], ours)
    if isinstance(found.get("fields"), list):
        found["fields"] = [_named(each, ours) for each in found["fields"]]
    return found


def _decimal(value: bytes, schema: Any, *_: Any) -> Decimal:
    return decimal_of(value, int(schema.get("scale", 0)))


def decimal_of(value: bytes, scale: int) -> Decimal:
    """The number of unscaled digits and a scale, with every digit.

    Raises:
        BrokenValue: It has more places than any column: a record of a few bytes would be a line of gigabytes.
    """
    if abs(scale) > _MOST_PLACES:
        raise BrokenValue("a decimal has more places than are read")
    unscaled = int.from_bytes(value, "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _date(days: int, *_: Any) -> str:
    if not _FIRST <= days + _EPOCH <= _LAST:
        raise BrokenValue("a date is not of the years 1 to 9999")
    return date.fromordinal(days + _EPOCH).isoformat()


def time_of(unit: int, suffix: str) -> Callable[..., str]:
    """The time that is written as a number of units since 1970."""

    def read(value: int, *_: Any) -> str:
        seconds, rest = divmod(value, unit)
        days, in_day = divmod(seconds, _DAY_S)
        return f"{_date(days)}T{_clock(in_day, rest, unit)}{suffix}"

    return read


def _clock_of(unit: int) -> Callable[..., str]:
    return lambda value, *_: _clock(value // unit, value % unit, unit)


def _clock(seconds: int, rest: int, unit: int) -> str:
    if not 0 <= seconds < _DAY_S:
        raise BrokenValue("a time of day is not one")
    clock = str(timedelta(seconds=seconds)).rjust(8, "0")
    return f"{clock}.{rest:0{len(str(unit)) - 1}}"


_READERS: Mapping[str, Callable[..., Any]] = {
    f"bytes-{_OURS}decimal": _decimal,
    f"fixed-{_OURS}decimal": _decimal,
    f"int-{_OURS}date": _date,
    f"int-{_OURS}time-millis": _clock_of(_UNITS["millis"]),
    f"long-{_OURS}time-micros": _clock_of(_UNITS["micros"]),
    **{f"long-{_OURS}timestamp-{name}": time_of(unit, "Z") for name, unit in _UNITS.items()},
    **{f"long-{_OURS}local-timestamp-{name}": time_of(unit, "") for name, unit in _UNITS.items()},
}
