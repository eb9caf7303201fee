"""Debezium's change events: from the line of an event to the columns of its row.

An event with its schema says what its values are, so that a decimal or a time that is written as bytes or as a number
becomes the text of its value; without it values are taken as they are written. Column expressions that never throw.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from hashlib import md5
from uuid import UUID

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType

from backfill_assets.capture.debezium import COMMIT, COMMITTED_AT, LSN, OPERATION, OPERATIONS, ORDER
from backfill_assets.domain import SourceTable
from backfill_assets.landing.json_text import elements, let, members, plain

LINE = "_line"
"""The members of the line: of an event and, from a topic, what Kafka says of it."""
ROW = "_change"
"""The members of the row: as it is after the change; before it, of a delete."""

VALUES = "_values"
"""The members of the row, as texts of their values."""

_EVENT, _SOURCE, _FIELDS = "_event", "_origin", "_fields"
_OF_KAFKA = "kafka_"
_NOTHING = "{}"
_TYPE = "name: string, parameters: map<string, string>"
_SCHEMA = (
    "struct<fields: array<struct<field: string, fields: array<struct<field: string, "
    f"{_TYPE}, items: struct<{_TYPE}>>>>>>"
)

_DECIMAL, _ANY_SCALE = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"
_DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_MICROSECONDS: Mapping[str, int] = {
    "io.debezium.time.MicroTimestamp": 1,
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
}
"""By the name of a time without a zone, how many microseconds its unit has."""
_ENCODED = (_DECIMAL, _ANY_SCALE, *_DATES, *_MICROSECONDS)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days from 1970-01-01."""
_DAY_US = 86_400_000_000
_NO_ZONE = r"Z\z"
"""What the connector writes behind dates and times without a zone in ISO form (`time.precision.mode=isostring`)."""
_DIGITS = "0123456789ABCDEF"
_HALF_DIGITS = 16
"""Of 16 bytes, which hold any decimal, each half has so many digits in base 16."""


def with_change(lines: DataFrame, text: Column) -> DataFrame:
    """Lines with what the other functions of this module look at."""
    found = lines.withColumn(LINE, members(text))
    is_wrapped = F.array_contains(F.map_keys(LINE), "payload")
    found = found.withColumn(_EVENT, F.when(is_wrapped, _inner(LINE, "payload")).otherwise(F.col(LINE)))
    deletes, truncates = _operation() == OPERATIONS["delete"], _operation() == OPERATIONS["truncate"]
    side = F.when(deletes, "before").otherwise("after")
    nothing = F.from_json(F.lit(_NOTHING), "map<string,string>")
    schema = F.from_json(F.when(is_wrapped, plain(F.col(LINE)["schema"])), _SCHEMA)
    found = found.withColumns(
        {
            ROW: F.when(truncates, nothing).when(deletes, _inner(_EVENT, "before")).otherwise(_inner(_EVENT, "after")),
            _SOURCE: _inner(_EVENT, "source"),
            _FIELDS: F.get(F.filter(schema["fields"], lambda each: each["field"] == side), F.lit(0))["fields"],
        }
    )
    # One expression for the members of a row, however many columns a contract has: Spark plans each of them at length.
    return found.withColumn(
        VALUES, F.transform_values(ROW, lambda name, text: let(_field(name), partial(_decoded, plain(text))))
    )


def names() -> Column:
    """The names of the columns that a line has."""
    of_kafka = F.filter(F.map_keys(LINE), lambda name: name.startswith(_OF_KAFKA))
    return F.concat(of_kafka, F.array(*map(F.lit, (OPERATION, *ORDER, COMMITTED_AT))), F.map_keys(ROW))


def value(member: str, name: str, found: Column, source: SourceTable) -> Column:
    """A column of the contract, as a text.

    Of a delete only the key is taken: what else the event has was so before, and depends on the table's replica
    identity.

    Args:
        member: What events call it, or what says something of them.
        name: The column.
        found: The value that the row has of it.
    """
    match name:
        case _ if name == OPERATION:
            return _operation()
        case _ if name == LSN:
            return plain(F.col(_SOURCE)["lsn"])
        case _ if name == COMMIT:
            return _commit()
        case _ if name == COMMITTED_AT:
            return _committed_at()
        case _ if member.startswith(_OF_KAFKA):
            return plain(F.col(LINE)[member])
    if isinstance(source.schema[name].dataType, DateType | TimestampNTZType):
        found = F.regexp_replace(found, _NO_ZONE, "")
    if name in source.key:
        return found
    return F.when(F.coalesce(_operation() != OPERATIONS["delete"], F.lit(True)), found)


def complaint(source: SourceTable) -> Column:
    """Why a line is no change of the table that could be taken; null when it is one."""
    assert source.envelope is not None
    is_event = _operation().isNotNull() & F.col(_SOURCE).isNotNull() & F.col(ROW).isNotNull()
    connector = plain(F.col(_SOURCE)["connector"])
    table = F.concat_ws(".", plain(F.col(_SOURCE)["schema"]), plain(F.col(_SOURCE)["table"]))
    unknown = [
        _unavailable(name, member, source.envelope.unavailable)
        for name, parts in source.places.items()
        for member in dict.fromkeys(str(part).partition(".")[0] for part in parts)
    ]
    return F.coalesce(
        F.when(
            ~F.coalesce(is_event, F.lit(False)),
            F.when(
                F.col(LINE)["kafka_tombstone"].isNotNull(),
                "the record has no value, and no event after it says where in the feed it is",
            ).otherwise("the record is not a Debezium change event"),
        ),
        F.when(
            connector != "postgresql",
            F.concat(F.lit("the event is of the connector for "), connector, F.lit(", whose positions are not known")),
        ),
        F.when(table != source.envelope.table, F.concat(F.lit("the event is of the table "), table)),
        *unknown,
    )


def _unavailable(name: str, member: str, placeholder: str) -> Column:
    """What is wrong with a value that was stored out of line, and that an update left as it was."""
    says = f"{name} was left as it was, and the event does not have its value"
    is_of_state = F.coalesce(_operation() != OPERATIONS["delete"], F.lit(False))
    return F.when(is_of_state & F.col(ROW)[member].isin(*_unavailable_forms(placeholder)), F.lit(says))


def _unavailable_forms(placeholder: str) -> list[str]:
    """How the connector writes the placeholder: as a text, as bytes, and in arrays of texts, bytes, numbers and UUIDs,
    and in a map."""
    found = placeholder.encode()
    encoded = b64encode(found).decode()
    numbers = memoryview(found).cast("b").tolist()  # bytes of Java have a sign
    uuid = str(UUID(bytes=md5(found, usedforsecurity=False).digest(), version=3))
    nested = ([placeholder], [encoded], numbers, [uuid], {placeholder: placeholder})
    as_json = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in nested)
    return [placeholder, encoded, found.hex(), *as_json]


def _operation() -> Column:
    return plain(F.col(_EVENT)["op"])


def _commit() -> Column:
    """The LSN of the last commit before the change in the feed; of a snapshot, that of the snapshot."""
    of_feed = let(elements(plain(F.col(_SOURCE)["sequence"])), lambda both: plain(F.get(both, F.lit(0))))
    return F.coalesce(of_feed, plain(F.col(_SOURCE)["lsn"]))


def _committed_at() -> Column:
    micros = F.coalesce(
        plain(F.col(_SOURCE)["ts_us"]).try_cast("long"), plain(F.col(_SOURCE)["ts_ms"]).try_cast("long") * 1_000
    )
    return F.concat(_local(micros), F.lit("Z"))


def _field(name: Column) -> Column:
    """What the schema of the event says of a member of the row; null without a schema."""
    return F.get(F.filter(F.col(_FIELDS), lambda each: each["field"] == name), F.lit(0))


def _inner(column: str, name: str) -> Column:
    return members(plain(F.col(column)[name]))


# ------------------------------------------------------------------------------------------------- by the schema


def _decoded(text: Column, field: Column) -> Column:
    """The text of a value whose field in the schema is known; what cannot be one of its type stays as it is."""
    items = field["items"]
    each_decoded = F.to_json(F.transform(elements(text), lambda each: _by_type(plain(each), items)))
    return F.when(items["name"].isin(*_ENCODED), F.coalesce(each_decoded, text)).otherwise(_by_type(text, field))


def _by_type(text: Column, field: Column) -> Column:
    kind = field["name"]
    found = F.when(kind == _DECIMAL, _decimal(text, field["parameters"]["scale"]))
    found = found.when(
        kind == _ANY_SCALE, let(members(text), lambda both: _decimal(both["value"], plain(both["scale"])))
    )
    days = text.try_cast("int")
    is_day = days.between(_FIRST_DAY, _LAST_DAY)
    date = F.date_add(F.lit("1970-01-01").cast("date"), F.when(is_day, days)).cast("string")
    found = found.when(kind.isin(*_DATES), F.coalesce(date, text))
    for name, unit in _MICROSECONDS.items():
        found = found.when(kind == name, F.coalesce(_local(F.try_multiply(text.try_cast("long"), F.lit(unit))), text))
    return found.otherwise(text)


def _local(micros: Column) -> Column:
    """A time as text, from microseconds; null for years that no text of four digits has."""
    is_time = micros.between(_FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
    # Sessions are held to UTC, so that the instant shows the digits of the local time.
    return F.date_format(F.timestamp_micros(F.when(is_time, micros)), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")


def _decimal(written: Column, scale: Column) -> Column:
    """A decimal as text, from the Base64 of its unscaled bytes. What has more digits than any decimal is no number."""
    digits = F.hex(F.try_to_binary(written, F.lit("base64")))
    number = let(digits, _unscaled)
    text = let(number.cast("string"), lambda unscaled: _with_point(unscaled, scale.try_cast("int")))
    return F.when(written.isNotNull(), F.coalesce(text, F.concat(F.lit("the bytes "), written)))


def _unscaled(digits: Column) -> Column:
    """The number of a two's complement of at most 16 bytes, from its digits in base 16.

    Of a negative one it is the complement that is computed, so that no part is larger than a decimal can be.
    """
    is_negative = digits.rlike(r"\A[89A-F]")
    fits = F.length(digits).between(2, 2 * _HALF_DIGITS)
    positive = F.when(is_negative, F.translate(digits, _DIGITS, _DIGITS[::-1])).otherwise(digits)
    whole = F.when(fits, F.lpad(positive, 2 * _HALF_DIGITS, "0"))
    halves = (F.left(whole, F.lit(_HALF_DIGITS)), F.right(whole, F.lit(_HALF_DIGITS)))
    high, low = (F.conv(half, 16, 10).try_cast("decimal(20,0)") for half in halves)
    number = F.try_add(F.try_multiply(high, F.lit(Decimal(1 << 64))), low).try_cast("decimal(38,0)")
    complement = F.try_subtract(F.try_subtract(F.lit(Decimal(0)), number), F.lit(Decimal(1)))
    return F.when(is_negative, complement.try_cast("decimal(38,0)")).otherwise(number)


def _with_point(unscaled: Column, scale: Column) -> Column:
    sign = F.when(unscaled.startswith("-"), "-").otherwise("")
    digits = F.ltrim(unscaled, F.lit("-"))
    padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
    fraction = F.concat(F.left(padded, F.length(padded) - scale), F.lit("."), F.right(padded, scale))
    whole = F.concat(digits, F.repeat(F.lit("0"), F.when(scale < 0, -scale).otherwise(0)))
    return F.concat(sign, F.when(scale > 0, fraction).otherwise(whole))
