"""Parquet columns: what PyArrow reads of a Parquet file and Spark does not becomes Parquet that both read.

Values stay what they are: a number of 16 bits is one of 32 bits too, and a UUID, a time of day and a decimal of more
than 38 digits become their texts, which the rules for texts judge. Files that Spark reads as they are stay untouched.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.landing.int96 import batches, is_any_list

_FOREIGN_CODECS = {"BROTLI", "UNKNOWN"}
"""PyArrow has no name for the LZ4 of Hadoop, which it reads in both of its forms, and Spark in one."""

_MOST_DIGITS = 38
_ROWS_AT_ONCE = 1024


def is_foreign(copy: Path) -> bool:
    """Whether a Parquet file has something that PyArrow reads and Spark does not; false for what is no Parquet."""
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
                for batch in batches(file, None, rows=_ROWS_AT_ONCE):
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
