"""Parquet: the types of a file's columns as Spark reads them, INT96 timestamps, and columns rewritten because only
PyArrow reads them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.capture.errors import BadFile, Fault

# INT96: timestamps of Parquet in their earlier form, the number of a day and nanoseconds of it.
#
# Spark cuts digits below the microsecond, and goes round for years that its timestamps do not hold. A file in
# which it would read another time is refused; a record with a time of no year from 1 to 9999 is rejected, as in
# other forms.

_ROWS_AT_ONCE = 64
_FIRST, _END = -62_135_596_800, 253_402_300_800
"""The seconds since 1970 at which the year 1 begins, and the year 10000."""


def columns_in_int96(file: pq.ParquetFile) -> frozenset[str]:
    """The columns of a file that are timestamps in the earlier form, or have them inside."""
    leaves = (file.schema.column(place) for place in range(len(file.schema.names)))
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    names = file.schema_arrow.names
    return frozenset(name for name in names for path in paths if path == name or path.startswith(f"{name}."))


def require_whole_instants(path: Path, file: pq.ParquetFile, columns: Sequence[str], name: str) -> None:
    """Refuses timestamps that Spark would read as others: it cuts digits below the microsecond, and goes round.

    PyArrow gives them in nanoseconds and in microseconds, which go round as well, and in milliseconds, which do not.
    """
    held = columns_in_int96(file)
    chosen = [column for column in columns if column in held]
    if not chosen:
        return
    with (
        pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as in_micros,
        pq.ParquetFile(path, coerce_int96_timestamp_unit="ms") as in_millis,
    ):
        files = (file, in_micros, in_millis)
        for some in zip(*(batches(each, chosen, rows=_ROWS_AT_ONCE) for each in files), strict=True):
            for column in chosen:
                for nanos, micros, millis in zip(*(ticks(batch.column(column)) for batch in some), strict=True):
                    in_range = _is_in_range(millis, 1_000)
                    if (in_range & (nanos != micros * 1_000)).any():
                        why = f"holds {column} with digits below the microsecond, as INT96, which would be lost"
                        raise BadFile(path=name, fault=Fault.DIGITS, why=why, column=column)
                    if (~in_range & _is_in_range(micros, 1_000_000)).any():
                        why = f"holds {column} with years that no timestamp has, as INT96, which would become others"
                        raise BadFile(path=name, fault=Fault.DIGITS, why=why, column=column)


def batches(file: pq.ParquetFile, columns: Sequence[str] | None, *, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, at most so many at once.

    None has rows of two row groups, because PyArrow does not bring dictionaries inside of structs and lists together.

    Args:
        columns: Those that are read; None for all.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(rows, [group], columns)


def _is_in_range(ticks: Any, per_second: int) -> Any:
    return (ticks >= _FIRST * per_second) & (ticks < _END * per_second)


def is_any_list(found: pa.DataType) -> bool:
    """True if a type is one of those that a Parquet file stores as a list."""
    return any(
        is_list(found)
        for is_list in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def ticks(values: pa.Array) -> Iterator[Any]:
    """The timestamps of a column, and those inside its lists, maps and structs, as numbers."""
    if pa.types.is_timestamp(values.type):
        yield values.drop_null().view(pa.int64()).to_numpy()
    elif is_any_list(values.type):
        yield from ticks(values.flatten())
    elif pa.types.is_map(values.type):
        yield from ticks(values.keys)
        yield from ticks(values.items)
    elif pa.types.is_struct(values.type):
        for member in values.flatten():
            yield from ticks(member)


def beyond_years(values: Mapping[str, Column], kinds: Mapping[str, T.DataType]) -> Column:
    """The sentence about the first of some columns with a time of no year from 1 to 9999; null without one."""
    sentences = (
        F.when(_is_beyond(value, kinds[name]), F.lit(f"{name} has a time of no year from 1 to 9999, as INT96"))
        for name, value in values.items()
    )
    return F.coalesce(*sentences, F.lit(None).cast(T.StringType()))


def within_years(value: Column, kind: T.DataType) -> Column:
    """A value without a time of other years; null with one, because a record is rejected for it."""
    return F.when(~_is_beyond(value, kind), value)


def _is_beyond(value: Column, kind: T.DataType) -> Column:
    """True if a value is, or contains, a time outside the years 1 to 9999."""
    match kind:
        case T.TimestampType():
            micros = F.unix_micros(value)
            found = (micros < F.lit(_FIRST * 1_000_000)) | (micros >= F.lit(_END * 1_000_000))
        case T.ArrayType():
            found = F.exists(value, lambda item: _is_beyond(item, kind.elementType))
        case T.MapType():
            found = _is_beyond(F.map_values(value), T.ArrayType(kind.valueType))
        case T.StructType():
            parts = (_is_beyond(value[field.name], field.dataType) for field in kind.fields)
            found = reduce(lambda left, right: left | right, parts, F.lit(False))
        case _:
            found = F.lit(False)
    return F.coalesce(found, F.lit(False))


# Parquet types: what the columns of a Parquet file hold, and the types as which Spark reads them.
#
# Derived from the file's schema rather than by Spark, so that a column of a type that Spark cannot read is left
# out if the contract does not have it, and named in the error if it does.

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
    """One column of a Parquet file."""

    name: str
    data_type: T.DataType
    #: The type with which Spark has to read it. It differs where that reads something else than the value, such as
    #: nanoseconds since the epoch as a number; see `as_values`.
    read_type: T.DataType
    in_int96: bool = False  #: True if it is, or has inside, timestamps in the earlier form.


_Leaves = Iterator[pq.ColumnSchema]
_Types = tuple[T.DataType, T.DataType]
"""The types of values, and the types as which they are read."""


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
    """True if a value, or a part of one, differs from what Spark reads."""
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


# Parquet columns: what PyArrow reads of a Parquet file and Spark does not becomes Parquet that both read.
#
# Values stay what they are: a number of 16 bits is one of 32 bits too, and a UUID, a time of day and a decimal of
# more than 38 digits become their texts, which the rules for texts judge. Files that Spark reads as they are stay
# untouched.

_FOREIGN_CODECS = {"BROTLI", "UNKNOWN"}
"""PyArrow has no name for the LZ4 of Hadoop, which it reads in both of its forms, and Spark in one."""

_ROWS_REWRITTEN_AT_ONCE = 1024


def is_foreign(copy: Path) -> bool:
    """True if a Parquet file has something that PyArrow reads and Spark does not; false for what is not Parquet."""
    try:
        with pq.ParquetFile(copy) as file:
            return _has_foreign_codec(file) or any(_becomes(field.type) is not None for field in file.schema_arrow)
    except (pa.ArrowException, OSError, ValueError):
        return False


def _has_foreign_codec(file: pq.ParquetFile) -> bool:
    groups = file.metadata
    chunks = (
        groups.row_group(group).column(place)
        for group in range(groups.num_row_groups)
        for place in range(groups.num_columns)
    )
    return any(chunk.compression in _FOREIGN_CODECS for chunk in chunks)


def decode_parquet(copy: Path, *, name: str, into: Path) -> None:
    """Writes the rows of a file as Parquet that Spark reads.

    Raises:
        BadFile: It cannot be read to its end.
    """
    try:
        with pq.ParquetFile(copy, page_checksum_verification=True) as file:
            _require_instants(file, name)
            found = file.schema_arrow
            schema = pa.schema([field.with_type(_becomes(field.type) or field.type) for field in found])
            with pq.ParquetWriter(into, schema, compression="zstd", version="2.6") as written:
                for batch in batches(file, None, rows=_ROWS_REWRITTEN_AT_ONCE):
                    written.write_batch(pa.RecordBatch.from_arrays([*_columns(batch, schema)], schema=schema))
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, PermissionError):
            raise
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise BadFile(path=name, fault=Fault.DAMAGED, why=f"is not a readable Parquet file: {reason}") from error


def _require_instants(file: pq.ParquetFile, name: str) -> None:
    """Refuses timestamps of the form INT96, which PyArrow would give other numbers and no zone."""
    for place in range(len(file.schema.names)):
        leaf = file.schema.column(place)
        if leaf.physical_type == "INT96":
            why = (
                f"holds {leaf.path} as INT96 beside what Spark cannot read (Brotli, LZ4 of Hadoop, numbers of 16 bits)"
            )
            raise BadFile(path=name, fault=Fault.CODEC, why=why)


def _columns(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.Array]:
    for column, field in zip(batch.columns, schema, strict=True):
        yield column if column.type == field.type else _converted(column, field.type)


def _becomes(found: pa.DataType) -> pa.DataType | None:
    """The type of Spark's for values of a type that Spark does not read; None for others."""
    if pa.types.is_float16(found):
        return pa.float32()
    if found == pa.uuid() or pa.types.is_time(found):
        return pa.string()
    if pa.types.is_decimal(found) and found.precision > _MOST_DIGITS:
        return pa.string()
    if pa.types.is_dictionary(found):
        return _becomes(found.value_type)
    if pa.types.is_struct(found):
        fields = [field.with_type(_becomes(field.type) or field.type) for field in found]
        return pa.struct(fields) if pa.struct(fields) != found else None
    if pa.types.is_map(found):
        key, item = _becomes(found.key_type), _becomes(found.item_type)
        return None if key is None and item is None else pa.map_(key or found.key_type, item or found.item_type)
    if is_any_list(found):
        inner = _becomes(found.value_type)
        return None if inner is None else pa.large_list(found.value_field.with_type(inner))
    return None


def _converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as those of the type that they become."""
    found = values.type
    if found == kind:
        return values
    if pa.types.is_dictionary(found):
        return _converted(values.dictionary_decode(), kind)
    if pa.types.is_struct(found):
        parts = [_converted(values.field(place), kind.field(place).type) for place in range(found.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(found) or is_any_list(found):
        return _of_elements(values, kind)
    if found == pa.uuid():
        texts = [None if each is None else str(uuid.UUID(bytes=each)) for each in values.storage.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_decimal(found):  # of small ones PyArrow writes an exponent
        return pa.array([None if each is None else format(each, "f") for each in values.to_pylist()], pa.string())
    text = pc.cast(values, kind)
    if pa.types.is_time(found) and found.unit != "s":
        # No zeros at the end: 10:00:00.000000 is 10:00:00.
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    return text


def _of_elements(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """A list or a map whose elements become others, without those of rows beside its own."""
    if pa.types.is_map(kind):
        offsets = values.offsets
        begin, end = offsets[0].as_py(), offsets[-1].as_py()
        keys, items = (each.slice(begin, end - begin) for each in (values.keys, values.items))
        parts = (_converted(keys, kind.key_type), _converted(items, kind.item_type))
        return pa.MapArray.from_arrays(pc.subtract(offsets, begin), *parts, type=kind, mask=values.is_null())
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    elements = _converted(values.flatten(), kind.value_type)
    return pa.LargeListArray.from_arrays(offsets, elements, type=kind, mask=values.is_null())
