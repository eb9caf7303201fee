"""The parts of Delta's protocol that a capture understands, and the rows of one data file read by them.

What is not named here is refused by its name: a reader that ignores a feature reads other rows than the table has.
Files are read by the names or ids that column mapping gave their columns, without the rows of deletion vectors, and
with types that were widened since. Statistics of the log are not believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from deltalake import DeltaTable

_READER_VERSIONS = (1, 2, 3)
_MAPPING_VERSION, _FEATURES_VERSION = 2, 3
_PLAIN = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features that change neither rows nor their names."""
_UNDERSTOOD = _PLAIN | {"columnMapping", "deletionVectors", "typeWidening", "typeWidening-preview"}
_MODE, _NO_MAPPING = "delta.columnMapping.mode", "none"
_PHYSICAL_NAME, _ID = b"delta.columnMapping.physicalName", b"delta.columnMapping.id"
_FILE_ID = b"PARQUET:field_id"


def complaint(table: DeltaTable) -> str | None:
    """Why a version of a table cannot be read; null when it can."""
    protocol, mode = table.protocol(), _mode(table)
    features = set(protocol.reader_features or ())
    has_mapping = protocol.min_reader_version == _MAPPING_VERSION or "columnMapping" in features
    partitions = set(table.metadata().partition_columns)
    binary = [each.name for each in pa.schema(table.schema()) if each.name in partitions and _is_binary(each.type)]
    if protocol.min_reader_version not in _READER_VERSIONS:
        return f"it needs a reader of version {protocol.min_reader_version} of Delta's protocol"
    if unknown := sorted(features - _UNDERSTOOD):
        return f"it uses the {'feature' if len(unknown) == 1 else 'features'} {', '.join(unknown)} of Delta"
    if mode not in (_NO_MAPPING, "name", "id"):
        return f"its columns are mapped by {mode}"
    if mode != _NO_MAPPING and not has_mapping:
        return f"its columns are mapped by {mode}, and its protocol says that they are not"
    if binary:
        return f"it is partitioned by {binary[0]}, which is binary"
    return None


def has_plain_files(table: DeltaTable) -> bool:
    """True if the client can read changes of a version: it knows neither mapped columns nor deletion vectors there."""
    return _mode(table) == _NO_MAPPING and set(table.protocol().reader_features or ()) <= _PLAIN


def has_deletion_vectors(table: DeltaTable) -> bool:
    """True if files may have rows that the table does not have."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def schema_of(table: DeltaTable) -> pa.Schema:
    """The columns of a version, without what Delta keeps about them."""
    return pa.schema([_bare(each) for each in pa.schema(table.schema())])


def _mode(table: DeltaTable) -> str:
    return str((table.metadata().configuration or {}).get(_MODE, _NO_MAPPING))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The mapping of a version's columns to the columns of its files."""

    fields: Sequence[pa.Field]  #: The columns, with what Delta keeps about them.
    by_id: bool  #: Whether files have them by their ids, and not by names.

    @classmethod
    def of(cls, table: DeltaTable) -> Columns:
        mode = _mode(table)
        fields = list(pa.schema(table.schema()))
        return cls(fields=fields if mode != _NO_MAPPING else [_bare(each) for each in fields], by_id=mode == "id")

    def batches(
        self, file: pq.ParquetFile, partition: dict[str, pa.Scalar], kept: pa.Array | None, size: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file.

        Args:
            partition: The values of the partition columns.
            kept: By row, whether the table has it; a shorter one is followed by rows that it has.
            size: At most so many rows at once.
        """
        own = [each for each in self.fields if each.name not in partition]
        found = {each.name: self._place(file.schema_arrow, each) for each in own}
        names = [file.schema_arrow.field(place).name for place in found.values() if place is not None]
        schema, at = pa.schema([_bare(each) for each in self.fields]), 0
        for batch in file.iter_batches(batch_size=size, columns=names):
            arrays = []
            for field, to in zip(self.fields, schema, strict=True):
                if field.name in partition:
                    arrays.append(pa.repeat(partition[field.name].cast(to.type), batch.num_rows))
                    continue
                place = found[field.name]
                column = None if place is None else batch.column(file.schema_arrow.field(place).name)
                arrays.append(self._logical(column, field, batch.num_rows))
            rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
            if kept is not None:
                mask = kept.slice(at, batch.num_rows)
                lacking = batch.num_rows - len(mask)
                rows = rows.filter(pa.concat_arrays([mask, pa.repeat(pa.scalar(value=True), lacking)]))
            at += batch.num_rows
            yield rows

    def _place(self, held: Any, field: pa.Field) -> int | None:
        """Where a struct or a file has a column; null where it was written before that was added."""
        metadata = field.metadata or {}
        if self.by_id:
            wanted = metadata[_ID]
            ids = [(held.field(place).metadata or {}).get(_FILE_ID) for place in range(_width(held))]
            return ids.index(wanted) if wanted in ids else None
        name = metadata.get(_PHYSICAL_NAME, field.name.encode()).decode()
        place = held.get_field_index(name)
        return None if place < 0 else int(place)

    def _logical(self, array: pa.Array | None, field: pa.Field, length: int) -> pa.Array:
        """The values of a file as values of a column, with the names that the column has now."""
        kind = _bare(field).type
        if array is None:
            return pa.nulls(length, kind)
        if pa.types.is_struct(kind):
            places = [self._place(array.type, each) for each in field.type]
            children = [
                self._logical(None if place is None else array.field(place), each, len(array))
                for place, each in zip(places, field.type, strict=True)
            ]
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
        if pa.types.is_list(kind):
            items = self._logical(array.values, field.type.value_field, len(array.values))
            return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), items, type=kind, mask=array.is_null())
        if pa.types.is_map(kind):
            keys = self._logical(array.keys, field.type.key_field, len(array.keys))
            items = self._logical(array.items, field.type.item_field, len(array.items))
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())
        return array.cast(kind)


def _width(held: Any) -> int:
    return int(held.num_fields) if isinstance(held, pa.StructType) else len(held)


def _bare(field: pa.Field) -> pa.Field:
    """A field without metadata, down to its last member."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_bare(each) for each in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_bare(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_bare(kind.key_field), _bare(kind.item_field))
    return pa.field(field.name, kind, field.nullable)
