"""INT96: timestamps of Parquet in their earlier form, the number of a day and nanoseconds of it.

Spark cuts digits below the microsecond, and goes round for years that its timestamps do not hold. A file in which it
would read another time is refused; a record with a time of no year from 1 to 9999 is rejected, as in other forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.capture.errors import BadFile, Fault

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
    """Whether a type is one of those that a Parquet file has as a list."""
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
    """Whether a value is, or has inside, a time of no year from 1 to 9999."""
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
