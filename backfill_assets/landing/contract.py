"""Contract: checks each record against the contract of its source table, with the first rule that it breaks.

Pure column expressions: raw values in, typed columns and one reason out. They never throw: everything that could fail
is a `try_` function, or guarded by a pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import OPERATION, STATES

BROKEN = "_broken"
REASON = "_reason"

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NESTED = (StructType, MapType, ArrayType)
_QUOTED_CHARACTERS = 100

# Spark's own cast also takes a bare date, a missing offset and the name of a zone, all of which leave the instant open.
_INSTANT = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
)
_WITHOUT_SECONDS = r"^(.{16})([Z+-])"
_PATTERNS: Mapping[type[DataType], str] = {
    ByteType: r"^[+-]?[0-9]{1,19}$",
    ShortType: r"^[+-]?[0-9]{1,19}$",
    IntegerType: r"^[+-]?[0-9]{1,19}$",
    LongType: r"^[+-]?[0-9]{1,19}$",
    FloatType: r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?$",
    DoubleType: r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?$",
    DecimalType: r"^[+-]?[0-9]{1,38}([.][0-9]{0,38})?$",
    BooleanType: r"^(true|false)$",
    DateType: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
}
_DEMANDS: Mapping[type[DataType], str] = {
    TimestampType: "a timestamp with an offset",
    ByteType: "a whole number",
    ShortType: "a whole number",
    IntegerType: "a whole number",
    LongType: "a whole number",
    FloatType: "a number",
    DoubleType: "a number",
    DecimalType: "a number",
    BooleanType: "true or false",
    DateType: "a date",
}
_STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_LONG_NUMBER = r"[0-9][0-9.]{15,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The event times that a landed record can have.

    Attributes:
        first_day: The first partition of the daily tables.
        landed_at: When the file was landed; nothing can have happened after it.
    """

    first_day: date
    landed_at: datetime


def required_columns(source: SourceTable) -> frozenset[str]:
    """The columns that every record of a state must have: those declared not null, the key, event time and order."""
    declared = {field.name for field in source.schema.fields if not field.nullable}
    return frozenset({*declared, *source.key, source.event_time, *source.order, *_always(source)})


def required_of_a_file(source: SourceTable) -> frozenset[str]:
    """The columns that every file must have: deletes and truncates lack most of what a state must have."""
    return required_columns(source) if source.operation is None else _always(source)


def _always(source: SourceTable) -> frozenset[str]:
    return frozenset() if source.operation is None else frozenset({source.operation.column, *source.order})


def operation_of(source: SourceTable) -> Column:
    """What a record does to its key, by name; null when the source declares no operations, or the value is unknown."""
    nothing = F.lit(None).cast(StringType())
    if source.operation is None:
        return nothing
    found = F.col(source.operation.column)
    for value, operation in source.operation.named.items():
        nothing = F.when(found == F.lit(value), F.lit(str(operation))).otherwise(nothing)
    return nothing


def happened_at(source: SourceTable) -> Column:
    """When a record was true from: the time of its operation where it has one, else its event time."""
    at = None if source.operation is None else source.operation.at
    return F.col(source.event_time) if at is None else F.coalesce(F.col(at), F.col(source.event_time))


def _event_time(source: SourceTable) -> Column:
    """The time that decides the day: that of the operation where a delete or a truncate has no event time."""
    at = None if source.operation is None else source.operation.at
    return F.col(source.event_time) if at is None else F.coalesce(F.col(source.event_time), F.col(at))


def _needed(name: str, source: SourceTable) -> Column | None:
    """For a required column: true for the records that must have it; None when every record must."""
    if source.operation is None or name in _always(source):
        return None
    operation = F.col(OPERATION)
    if name in source.key:
        return F.coalesce(operation != Operation.TRUNCATE, F.lit(True))
    if name == source.event_time and source.operation.at is None:
        return None
    # A record of an unknown operation is rejected for that, and not for what it lacks.
    return F.coalesce(operation.isin(*map(str, STATES)), F.lit(False))


def can_become(target: DataType, found: DataType, *, as_json: bool = False) -> bool:
    """Whether values of a Parquet type can become the contract's type without loss, or be recognized if they cannot."""
    if isinstance(found, StringType) or type(found) is type(target):
        return True
    if isinstance(target, StringType):
        return isinstance(found, BinaryType) or as_json == isinstance(found, _NESTED)
    if isinstance(target, _WHOLE):
        return isinstance(found, NumericType)
    if isinstance(target, (FloatType, DoubleType)):
        return isinstance(found, (*_WHOLE[:3], FloatType, DoubleType))
    return isinstance(target, DecimalType) and isinstance(found, _WHOLE)


def json_pair(text: Column) -> Column:
    """An array of two, whose first element maps the names of a JSON object to texts, when the text is exactly that.

    The parser stops after the first value it finds, so the text is put into an array with an empty object behind it:
    what follows the object in the text then breaks the array or changes its length. Numbers inside nested values are
    written anew, as doubles; see `exact_member`.
    """
    return F.from_json(F.concat(F.lit("["), text, F.lit(",{}]")), "array<map<string,string>>", options=_STRICT_JSON)


def is_json_object(text: Column) -> Column:
    """Whether a text is exactly one JSON object; false for null."""
    objects = F.filter(json_pair(text), lambda each: each.isNotNull())
    return F.coalesce(F.size(objects) == 2, F.lit(False))


def exact_member(text: Column, members: Column, name: str) -> Column:
    """One member of a JSON object as text.

    Numbers inside a nested value are written anew as doubles; a text with numbers too long for that goes through the
    variant type instead, which keeps 38 digits but sorts the names.
    """
    precise = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "array<map<string,variant>>", options=_STRICT_JSON)
    nested = members[name].startswith("{") & text.rlike(_LONG_NUMBER)
    return F.when(nested, F.coalesce(F.get(precise, F.lit(0))[name].cast("string"), members[name])).otherwise(
        members[name]
    )


def typed(value: Column, found: DataType, target: DataType) -> Column:
    """A raw value as the contract's type; null when it is null, blank, or not of that type.

    Args:
        value: The raw value.
        found: Its type; anything but a string comes from a Parquet file and has passed `can_become`.
        target: The contract's type.
    """
    if isinstance(target, StringType):
        return _text(value, found)
    if isinstance(found, StringType) and isinstance(target, TimestampType):
        with_seconds = F.regexp_replace(value, _WITHOUT_SECONDS, "$1:00$2")
        return F.when(value.rlike(_INSTANT), with_seconds.try_cast(target))
    if isinstance(found, StringType):
        return F.when(value.rlike(_PATTERNS[type(target)]), value.try_cast(target))
    if isinstance(found, (FloatType, DoubleType)) and isinstance(target, _WHOLE):
        whole = value.try_cast(target)
        return F.when(whole.cast(found) == value, whole)
    if isinstance(found, DecimalType) and isinstance(target, _WHOLE):
        return F.when(value == F.floor(value), value.try_cast(target))
    if isinstance(target, (FloatType, DoubleType)):
        finite = ~F.isnan(value.cast("double")) & (F.abs(value.cast("double")) != F.lit(float("inf")))
        return F.when(finite, value.cast(target))
    return value if found == target else value.try_cast(target)


def _text(value: Column, found: DataType) -> Column:
    if isinstance(found, StringType):
        return value
    if isinstance(found, BinaryType):
        return F.when(F.is_valid_utf8(value.cast("string")), value.cast("string"))
    return F.to_json(value) if isinstance(found, _NESTED) else value.cast("string")


def judged(raw: DataFrame, source: SourceTable, *, bounds: Bounds) -> DataFrame:
    """Raw records with typed contract columns, the partition column, and the first rule that each breaks.

    Args:
        raw: One row per record, the contract's columns among its own; a contract column it lacks is null throughout.
            `_broken` is the reason why a record could not be parsed, and null when it could.
        source: The contract.
        bounds: The event times it can have.

    Returns:
        The columns of `raw` that the contract does not know, the contract's columns, `_operation`, `event_date`, and
        `_reason`, which is null for a valid record.
    """
    present = {field.name: field.dataType for field in raw.schema.fields}
    kept = [column for column in raw.columns if column not in source.schema.fieldNames()]
    required = required_columns(source)
    values = {
        field.name: typed(F.col(field.name), present[field.name], field.dataType)
        if field.name in present
        else F.lit(None).cast(field.dataType)
        for field in source.schema.fields
    }
    texts = raw.select(
        *kept,
        *(values[name].alias(name) for name in source.schema.fieldNames()),
        *(F.col(name).alias(_raw(name)) for name in source.schema.fieldNames() if name in present),
    )
    texts = texts.withColumn(OPERATION, operation_of(source))
    time = _event_time(source)
    day = F.to_date(time)
    rules: list[Column] = [F.col(BROKEN), *_of_the_operation(source, present)]
    for field in source.schema.fields:
        if field.name in present:
            rules += _rules(field.name, present[field.name], field.dataType, source, required=field.name in required)
        elif field.name in required:
            rules.append(_missing(field.name, source, F.lit(True)))
    if source.operation is not None and source.operation.at is not None:
        both = f"{source.event_time} is missing, and so is {source.operation.at}"
        rules.append(F.when(time.isNull(), F.lit(both)))
    rules += [
        F.when(
            day < F.lit(bounds.first_day),
            F.concat(
                F.lit(f"{source.partition.column} "),
                day.cast("string"),
                F.lit(f" is before the first day {bounds.first_day}"),
            ),
        ),
        F.when(
            time > F.lit(bounds.landed_at),
            F.lit(f"{source.event_time} lies in the future (after it was landed)"),
        ),
    ]
    return texts.select(
        *kept,
        *source.schema.fieldNames(),
        OPERATION,
        day.alias(source.partition.column),
        F.coalesce(*rules).alias(REASON),
    )


def _raw(name: str) -> str:
    return f"_raw_{name}"


def _rules(name: str, found: DataType, target: DataType, source: SourceTable, *, required: bool) -> list[Column]:
    """What a present column must satisfy, the most basic first; each is null or a sentence."""
    raw, value = F.col(_raw(name)), F.col(name)
    rules: list[Column] = []
    blank = F.lit(False)
    if isinstance(found, StringType):
        blank = F.trim(raw) == ""
    if required:
        rules.append(_missing(name, source, raw.isNull() | blank))
    if name in source.json_columns:
        bad = value.isNotNull() & ~blank & ~is_json_object(value)
        rules.append(F.when(bad, _says(name, "a JSON object", value)))
    elif isinstance(target, StringType):
        rules.append(F.when(raw.isNotNull() & value.isNull(), F.lit(f"{name} is not UTF-8 text")))
    else:
        bad = raw.isNotNull() & ~blank & value.isNull()
        rules.append(F.when(bad, _says(name, _DEMANDS[type(target)], raw)))
    return rules


def _missing(name: str, source: SourceTable, absent: Column) -> Column:
    needed = _needed(name, source)
    return F.when(absent if needed is None else needed & absent, F.lit(f"{name} is missing"))


def _of_the_operation(source: SourceTable, present: Mapping[str, DataType]) -> list[Column]:
    """That the operation is one which the source declares; a missing one is found like any required value."""
    if source.operation is None or source.operation.column not in present:
        return []
    value = F.col(source.operation.column)
    unknown = value.isNotNull() & (F.trim(value) != "") & F.col(OPERATION).isNull()
    return [F.when(unknown, _says(source.operation.column, f"one of {', '.join(source.operation.named)}", value))]


def _says(name: str, demand: str, found: Column) -> Column:
    quoted = F.substring(found.cast("string"), 1, _QUOTED_CHARACTERS)
    return F.concat(F.lit(f"{name} is not {demand}: '"), quoted, F.lit("'"))
