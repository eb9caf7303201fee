"""Footer: the columns of a Parquet file, by what it says of itself, and its first values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.capture.errors import BadFile, Fault

MOST_ROWS = 20_000


def first_rows(path: Path) -> tuple[pa.Table, int]:
    """The first rows of a Parquet file, and how many it has.

    Raises:
        UnreadableFile: It is damaged, or packed by a codec that is not there.
    """
    try:
        with pq.ParquetFile(path) as file:
            first = next(iter(file.iter_batches(batch_size=MOST_ROWS)), None)
            rows = pa.Table.from_batches([first] if first is not None else [], schema=file.schema_arrow)
            return rows, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        why = f"cannot be read as Parquet: {str(error).splitlines()[0]}"
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why=why) from error


def kind_of(found: pa.DataType, values: pa.ChunkedArray) -> tuple[str, bool]:
    """The type of a contract for a column, and whether it has times without an offset; an empty type for none."""
    types = pa.types
    if types.is_dictionary(found):
        return kind_of(found.value_type, values)
    if types.is_timestamp(found):
        if found.tz is None and _are_midnights(values):
            return "DATE", False
        return "TIMESTAMP", found.tz is None
    if types.is_uint64(found):
        return "DECIMAL(20,0)", False
    if types.is_decimal(found):
        return f"DECIMAL({found.precision},{found.scale})", False
    if types.is_list(found) or types.is_large_list(found):
        inner, _ = kind_of(found.value_type, pa.chunked_array([pa.nulls(0, found.value_type)]))
        return (f"ARRAY<{inner}>", False) if inner else ("", False)
    tests = (
        (types.is_integer, "LONG"),
        (types.is_float64, "DOUBLE"),
        (types.is_floating, "FLOAT"),
        (types.is_boolean, "BOOLEAN"),
        (types.is_date, "DATE"),
        (types.is_null, "STRING"),
    )
    for test, kind in tests:
        if test(found):
            return kind, False
    if types.is_string(found) or types.is_large_string(found):
        return "STRING", False
    return ("BINARY", False) if types.is_binary(found) or types.is_large_binary(found) else ("", False)


def _are_midnights(values: pa.ChunkedArray) -> bool:
    found = [value for value in values.to_pylist() if value is not None]
    return bool(found) and all(not (each.hour or each.minute or each.second or each.microsecond) for each in found)


def texts_of(values: pa.ChunkedArray) -> list[str | None]:
    """The values of a column as texts, to compare them."""
    return [None if value is None else _text(value) for value in values.to_pylist()]


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
