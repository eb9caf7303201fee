"""Parquet types: the types as which Spark reads the columns of a Parquet file.

Derived from the file's schema rather than by Spark, so that a column of a type that Spark cannot read is left out if
the contract does not have it, and named in the error if it does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
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
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_MOST_DIGITS = 38

# Unsigned integers are read as the next wider signed type.
_ATOMIC: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalColumn:
    """One column of a Parquet file.

    Attributes:
        data_type: What its values are.
        nanoseconds: It is a timestamp in nanoseconds since the epoch, which Spark reads as a number.
    """

    name: str
    data_type: DataType
    nanoseconds: bool = False

    @property
    def read_type(self) -> DataType:
        """The type with which Spark has to read it."""
        return LongType() if self.nanoseconds else self.data_type


def physical_columns(file: pq.ParquetFile) -> tuple[PhysicalColumn, ...]:
    """The columns that Spark can read, in the file's order. A name that occurs twice is left out."""
    names = file.schema_arrow.names
    leaves = {leaf.path: leaf for leaf in (file.schema.column(i) for i in range(len(file.schema.names)))}
    found = []
    for field in file.schema_arrow:
        if names.count(field.name) > 1:
            continue
        leaf = leaves.get(field.name)
        column = _timestamp(field.name, leaf) if leaf is not None and pa.types.is_timestamp(field.type) else None
        if column is None and (data_type := _spark_type(field.type)) is not None:
            column = PhysicalColumn(name=field.name, data_type=data_type)
        if column is not None:
            found.append(column)
    return tuple(found)


def _timestamp(name: str, leaf: pq.ColumnSchema) -> PhysicalColumn:
    """A timestamp as the file stores it: Arrow's own schema may promise another unit than was written."""
    if leaf.physical_type == "INT96":  # an instant by convention, without a flag
        return PhysicalColumn(name=name, data_type=TimestampType())
    logical = json.loads(leaf.logical_type.to_json())
    zoned = bool(logical.get("isAdjustedToUTC", True))
    nanoseconds = logical.get("timeUnit") == "nanoseconds"
    return PhysicalColumn(
        name=name, data_type=TimestampType() if zoned else TimestampNTZType(), nanoseconds=nanoseconds
    )


def _spark_type(found: pa.DataType) -> DataType | None:
    if found in _ATOMIC:
        return _ATOMIC[found]
    if pa.types.is_dictionary(found):
        return _spark_type(found.value_type)
    if pa.types.is_decimal(found) and found.precision <= _MOST_DIGITS and 0 <= found.scale <= found.precision:
        return DecimalType(found.precision, found.scale)
    if pa.types.is_struct(found):
        members = [(field.name, _spark_type(field.type)) for field in found]
        known = [StructField(name, data_type) for name, data_type in members if data_type is not None]
        return StructType(known) if len(known) == len(members) else None
    if pa.types.is_map(found):
        key, item = _spark_type(found.key_type), _spark_type(found.item_type)
        return MapType(key, item) if key is not None and item is not None else None
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        element = _spark_type(found.value_type)
        return None if element is None else ArrayType(element)
    return None
