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

from backfill_assets.landing.int96 import columns_in_int96

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalColumn:
    """One column of a Parquet file.

    Attributes:
        read_type: The type with which Spark has to read it. It differs where there are nanoseconds since the epoch,
            which Spark reads as a number; see `with_nanoseconds_as_text`.
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
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        element = _types(found.value_type, leaves)
        return None if element is None else _both(lambda place: T.ArrayType(element[place]))
    if isinstance(found, pa.BaseExtensionType) or found.num_fields:  # Spark reads none of these; their leaves pass by
        parts = [found.field(place).type for place in range(found.num_fields)]
        for part in parts or [found.storage_type]:
            _types(part, leaves)
        return None
    leaf = next(leaves)
    if pa.types.is_timestamp(found):
        return _timestamp(leaf)
    value = _atomic(found)
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
    if pa.types.is_decimal(found) and found.precision <= _MOST_DIGITS and 0 <= found.scale <= found.precision:
        return T.DecimalType(found.precision, found.scale)
    return _ATOMIC.get(found)


def with_nanoseconds_as_text(value: Column, column: T.DataType, read: T.DataType) -> Column:
    """A column as it was read, with nanoseconds since the epoch as the text of a time with nine digits of a second.

    So what is below the microsecond is seen, and judged by the rules for text.

    Args:
        column: What its values are, as in `PhysicalColumn`.
        read: As what they were read.
    """
    if column == read:
        return value
    if isinstance(column, T.ArrayType) and isinstance(read, T.ArrayType):
        element, of_read = column.elementType, read.elementType
        return F.transform(value, lambda item: with_nanoseconds_as_text(item, element, of_read))
    if isinstance(column, T.MapType) and isinstance(read, T.MapType):
        item, of_read = column.valueType, read.valueType
        return F.transform_values(value, lambda _, each: with_nanoseconds_as_text(each, item, of_read))
    if isinstance(column, T.StructType) and isinstance(read, T.StructType):
        members = (
            with_nanoseconds_as_text(value[field.name], field.dataType, read[field.name].dataType).alias(field.name)
            for field in column.fields
        )
        return F.when(value.isNotNull(), F.struct(*members))
    thousand = F.lit(1_000).cast(T.LongType())
    below = F.pmod(value, thousand)
    is_before = (value < 0) & (below > 0)
    micros = F.call_function("div", value, thousand) - F.when(is_before, F.lit(1)).otherwise(F.lit(0))
    text = F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    zone = F.lit("Z" if isinstance(column, T.TimestampType) else "")
    return F.concat(text, F.lpad(below.cast("string"), 3, "0"), zone)
