"""Parquet types: what the columns of a Parquet file hold, and the types as which Spark reads them.

Derived from the file's schema rather than by Spark, so that a column of a type that Spark cannot read is left out if
the contract does not have it, and named in the error if it does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.landing.int96 import columns_in_int96, is_any_list

_MOST_DIGITS = 38

# Unsigned integers are read as the next wider signed type.
_ATOMIC: dict[pa.DataType, T.DataType] = {
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.uint8(): T.ShortType(),
    pa.uint16(): T.IntegerType(),
    pa.uint32(): T.LongType(),
    pa.uint64(): T.DecimalType(20, 0),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.date32(): T.DateType(),
    pa.date64(): T.DateType(),
    pa.string(): T.StringType(),
    pa.large_string(): T.StringType(),
    pa.string_view(): T.StringType(),
    pa.binary(): T.BinaryType(),
    pa.large_binary(): T.BinaryType(),
    pa.binary_view(): T.BinaryType(),
}


class Nulls(T.StringType):
    """Values without a type, all of which are null: texts, of which there is none."""

    def simpleString(self) -> str:  # noqa: N802  (Spark's name)
        return "nulls without a type"


_PHYSICAL: dict[str, T.DataType] = {
    "BOOLEAN": T.BooleanType(),
    "INT32": T.IntegerType(),
    "INT64": T.LongType(),
    "FLOAT": T.FloatType(),
    "DOUBLE": T.DoubleType(),
    "BYTE_ARRAY": T.BinaryType(),
    "FIXED_LEN_BYTE_ARRAY": T.BinaryType(),
}
_OF_LEAVES = ("UUID", "FLOAT16", "TIME")
"""What only the file's own schema says of bytes and numbers, which Spark does not read as what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalColumn:
    """One column of a Parquet file.

    Attributes:
        read_type: The type with which Spark has to read it. It differs where that reads something else than the value,
            such as nanoseconds since the epoch as a number; see `as_values`.
        in_int96: Whether it is, or has inside, timestamps in the earlier form.
    """

    name: str
    data_type: T.DataType
    read_type: T.DataType
    in_int96: bool = False


_Leaves = Iterator[pq.ColumnSchema]
_Types = tuple[T.DataType, T.DataType]
"""What values are, and as what they are read."""


def physical_columns(file: pq.ParquetFile) -> tuple[PhysicalColumn, ...]:
    """The columns that Spark can read, in the file's order. A name that occurs twice is left out."""
    names, in_int96 = file.schema_arrow.names, columns_in_int96(file)
    leaves = (file.schema.column(place) for place in range(len(file.schema.names)))
    found = []
    for field in file.schema_arrow:
        types = _types(field.type, leaves)
        if types is not None and names.count(field.name) == 1:
            earlier = field.name in in_int96
            found.append(PhysicalColumn(name=field.name, data_type=types[0], read_type=types[1], in_int96=earlier))
    return tuple(found)


def _types(found: pa.DataType, leaves: _Leaves) -> _Types | None:
    """The types of a column or of a part of one; None when Spark cannot read it.

    Args:
        leaves: The physical columns from this one on, of which those that belong to it are taken.
    """
    if pa.types.is_struct(found):
        members = [(field.name, _types(field.type, leaves)) for field in found]
        known = [(name, types) for name, types in members if types is not None]
        if len(known) < len(members):
            return None
        return _both(lambda place: T.StructType([T.StructField(name, types[place]) for name, types in known]))
    if pa.types.is_map(found):
        key, item = _types(found.key_type, leaves), _types(found.item_type, leaves)
        if key is None or item is None or key[0] != key[1]:
            return None
        return _both(lambda place: T.MapType(key[place], item[place]))
    if is_any_list(found):
        element = _types(found.value_type, leaves)
        return None if element is None else _both(lambda place: T.ArrayType(element[place]))
    if isinstance(found, pa.BaseExtensionType):
        return _types(found.storage_type, leaves)
    if found.num_fields:  # Spark reads none of these; their leaves pass by
        for place in range(found.num_fields):
            _types(found.field(place).type, leaves)
        return None
    leaf = next(leaves)
    if pa.types.is_timestamp(found):
        return _timestamp(leaf)
    read = _PHYSICAL.get(leaf.physical_type)
    if pa.types.is_null(found):
        return None if read is None else (Nulls(), read)
    value = None if leaf.logical_type.type in _OF_LEAVES else _atomic(found)
    return None if value is None else (value, value)


def _both(of_place: Callable[[int], T.DataType]) -> _Types:
    return of_place(0), of_place(1)


def _timestamp(leaf: pq.ColumnSchema) -> _Types:
    """A timestamp as the file stores it: Arrow's own schema may promise another unit than was written."""
    if leaf.physical_type == "INT96":  # an instant by convention, without a flag
        return T.TimestampType(), T.TimestampType()
    logical = json.loads(leaf.logical_type.to_json())
    value = T.TimestampType() if logical.get("isAdjustedToUTC", True) else T.TimestampNTZType()
    return value, T.LongType() if logical.get("timeUnit") == "nanoseconds" else value


def _atomic(found: pa.DataType) -> T.DataType | None:
    if pa.types.is_dictionary(found):
        return _atomic(found.value_type)
    if pa.types.is_fixed_size_binary(found):
        return T.BinaryType()
    if pa.types.is_decimal(found) and found.precision <= _MOST_DIGITS and 0 <= found.scale <= found.precision:
        return T.DecimalType(found.precision, found.scale)
    return _ATOMIC.get(found)


def as_values(
    value: Column, column: T.DataType, read: T.DataType, target: T.DataType | None = None, *, timezone: str = ""
) -> Column:
    """A column as it was read, with the values of the file in place of the bytes and numbers that Spark reads of some.

    Nanoseconds since the epoch become the text of a time with nine digits of a second, so that what is below the
    microsecond is seen, and judged by the rules for text. Where the contract has dates a timestamp of midnight is the
    text of its date, and another one that of a time, which is no date.

    Args:
        column: What its values are, as in `PhysicalColumn`.
        read: As what they were read.
        target: The type of the contract; None where the values become JSON.
        timezone: The zone whose midnight that of an instant is; empty for UTC.
    """
    if isinstance(column, T.ArrayType) and isinstance(read, T.ArrayType):
        element, of_read = column.elementType, read.elementType
        inner = target.elementType if isinstance(target, T.ArrayType) else None
        if not _differs(element, of_read, inner):
            return value
        return F.transform(value, lambda item: as_values(item, element, of_read, inner, timezone=timezone))
    if isinstance(column, T.MapType) and isinstance(read, T.MapType):
        item, of_read = column.valueType, read.valueType
        if not _differs(item, of_read, None):
            return value
        return F.transform_values(value, lambda _, each: as_values(each, item, of_read))
    if isinstance(column, T.StructType) and isinstance(read, T.StructType):
        kinds = {each.name: each.dataType for each in target.fields} if isinstance(target, T.StructType) else {}
        if not _differs(column, read, target):
            return value
        members = (
            as_values(
                value[field.name], field.dataType, read[field.name].dataType, kinds.get(field.name), timezone=timezone
            ).alias(field.name)
            for field in column.fields
        )
        return F.when(value.isNotNull(), F.struct(*members))
    if isinstance(column, _STAMPS) and isinstance(target, T.DateType):
        return _date_or_time(value, column, read, timezone)
    match column:
        case _ if column == read:
            return value
        case Nulls():
            return F.lit(None).cast("string")
        case _:
            return _with_nine_digits(value, "Z" if isinstance(column, T.TimestampType) else "")


_STAMPS = (T.TimestampType, T.TimestampNTZType)


def _differs(column: T.DataType, read: T.DataType, target: T.DataType | None) -> bool:
    """Whether a value, or a part of one, is another one than what Spark reads."""
    match column, read:
        case T.ArrayType(), T.ArrayType():
            return _differs(
                column.elementType, read.elementType, target.elementType if isinstance(target, T.ArrayType) else None
            )
        case T.MapType(), T.MapType():
            return _differs(column.valueType, read.valueType, None)
        case T.StructType(), T.StructType():
            kinds = {each.name: each.dataType for each in target.fields} if isinstance(target, T.StructType) else {}
            return any(_differs(f.dataType, read[f.name].dataType, kinds.get(f.name)) for f in column.fields)
        case _:
            return column != read or (isinstance(column, _STAMPS) and isinstance(target, T.DateType))


def _with_nine_digits(nanoseconds: Column, zone: str) -> Column:
    """The text of a time since the epoch."""
    below = F.pmod(nanoseconds, _of(1_000))
    text = F.date_format(F.timestamp_micros(_micros(nanoseconds)), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    return F.concat(text, F.lpad(below.cast("string"), 3, "0"), F.lit(zone))


def _micros(nanoseconds: Column) -> Column:
    is_before = (nanoseconds < 0) & (F.pmod(nanoseconds, _of(1_000)) > 0)
    return F.call_function("div", nanoseconds, _of(1_000)) - F.when(is_before, F.lit(1)).otherwise(F.lit(0))


def _of(number: int) -> Column:
    return F.lit(number).cast(T.LongType())


def _date_or_time(value: Column, column: T.DataType, read: T.DataType, timezone: str) -> Column:
    """The text of a date where a timestamp is its midnight, and of the timestamp otherwise."""
    is_instant = isinstance(column, T.TimestampType)
    in_nanoseconds = isinstance(read, T.LongType)
    time = F.timestamp_micros(_micros(value)) if in_nanoseconds else value
    local = time.cast(T.TimestampNTZType())  # sessions are held to UTC
    if timezone and is_instant:
        local = F.convert_timezone(F.lit("UTC"), F.lit(timezone), local)
    day = F.to_date(local)
    is_midnight = day.cast(T.TimestampNTZType()) == local
    if in_nanoseconds:
        is_midnight &= F.pmod(value, _of(1_000)) == 0
        text = _with_nine_digits(value, "Z" if is_instant else "")
    else:
        text = F.concat(F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"), F.lit("Z" if is_instant else ""))
    return F.when(is_midnight, day.cast("string")).otherwise(text)
