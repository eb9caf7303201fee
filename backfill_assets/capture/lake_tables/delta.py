"""Delta tables of others: their files, and their changes as operations where they have a change feed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from backfill_assets.calendar.local_days import UTC_DAYS, LocalDays
from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesUnreadable,
    NoStream,
    StreamDenied,
    StreamFailed,
    VersionGone,
    WentBack,
)
from backfill_assets.capture.lake_tables.declaration import COMMITTED, VERSION, LakeTable
from backfill_assets.capture.lake_tables.versions import ROWS, Newest, TableStream, all_there
from backfill_assets.capture.streams import Operated, Span

if TYPE_CHECKING:
    from deltalake import DeltaTable


# The parts of Delta's protocol that a capture understands, and the rows of one data file read by them.
#
# What is not named here is refused by its name: a reader that ignores a feature reads other rows than the table
# has. Files are read by the names or ids that column mapping gave their columns, without the rows of deletion
# vectors, and with types that were widened since. Statistics of the log are not believed.

_READER_VERSIONS = (1, 2, 3)
_MAPPING_VERSION, _FEATURES_VERSION = 2, 3
_PLAIN = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features that change neither rows nor their names."""
_UNDERSTOOD = _PLAIN | {"columnMapping", "deletionVectors", "typeWidening", "typeWidening-preview"}
_MODE, _NO_MAPPING = "delta.columnMapping.mode", "none"
_PHYSICAL_NAME, _ID = b"delta.columnMapping.physicalName", b"delta.columnMapping.id"
_FILE_ID = b"PARQUET:field_id"


def complaint(table: DeltaTable) -> str | None:
    """The reason why a version of a table cannot be read; None when it can."""
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
    by_id: bool  #: True if files have them by their ids, and not by names.

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


_ESCAPED = "%25"
_FEED = "delta.enableChangeDataFeed"
_FEED_WAS_OFF = "Change Data not enabled"
_DENIED = (
    *("403 Forbidden", "401 Unauthorized", "AccessDenied", "InvalidAccessKeyId"),
    *("SignatureDoesNotMatch", "PermissionDenied"),
)
_GONE = ("not found", "No such file", "Invalid table version", "not the same as the specified end version", "404 Not")
"""What the client says; it also says how many milliseconds a request took, so that a bare 403 may be a time."""


_UNKNOWN_FEATURE = re.compile(r"Feature '(\w+)' is not supported")
_OF_A_CATALOG = "catalog-managed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A data file of a version, with the values of its partition and, if the log says so, how many rows it has."""

    path: str
    partition: Mapping[str, pa.Scalar]
    records: int | None


class DeltaStream(TableStream):
    """A Delta table that was opened.

    Args:
        declared: The table as its source declares it.
        secret: The secret options of its store.
        event_time: The column that is the time of a record.
        days: What its days are.
        operated: How the source names operations; None where its records have none.
        columns: The columns of its contract.
    """

    table_format = "delta"

    def __init__(
        self,
        declared: LakeTable,
        *,
        secret: Mapping[str, str],
        event_time: str,
        days: LocalDays = UTC_DAYS,
        operated: Operated | None,
        columns: Sequence[str] = (),
    ) -> None:
        super().__init__(
            declared.url, chunk=declared.chunk, event_time=event_time, days=days, operated=operated, columns=columns
        )
        self._declared = declared
        self._options = {**declared.options, **secret}

    def _identity(self) -> str:
        return str(self._at(self._declared.version).metadata().id)

    def _newest(self) -> Newest:
        table = self._at(self._declared.version)
        has_feed = self._has_feed(table)
        pinned = {"change feed": "yes" if has_feed else "no"}
        return Newest(version=table.version(), pinned=pinned, has_changes=has_feed)

    def _state(self, partition: str, version: int) -> int:  # noqa: ARG002 - as of any table
        return version

    def _after(self, newest: Newest, version: int) -> int:
        if newest.version < version:
            raise WentBack(name=self.name, captured=version, found=newest.version)
        return newest.version

    def _has_feed(self, table: DeltaTable) -> bool:
        """True if changes can be read as operations."""
        has_deletes = self._operated is not None and self._operated.delete is not None
        is_on = (table.metadata().configuration or {}).get(_FEED) == "true"
        if not has_deletes or not is_on or not has_plain_files(table):
            return False
        # The client looks for files of partition values with such characters in folders that do not exist.
        return not any(_ESCAPED in path for path in pa.table(table.get_add_actions())["path"].to_pylist())

    def _own_schema(self, state: int) -> pa.Schema:
        with self._reading(state):
            return schema_of(self._at(state))

    @lru_cache(maxsize=4)  # noqa: B019 - a stream lives as long as one capture
    def _files(self, state: int) -> Sequence[_File]:
        with self._reading(state):
            actions = pa.table(self._at(state).get_add_actions())
        found = []
        values = actions["partition"] if "partition" in actions.column_names else [pa.scalar(None)] * len(actions)
        for path, records, partition in zip(actions["path"], actions["num_records"], values, strict=True):
            if urlsplit(path.as_py()).scheme:
                raise CannotBeCaptured(name=self.name, why="it is a clone that has files of another table")
            # An empty text is how the log writes a partition of null.
            own = {name: _not_empty(value) for name, value in partition.items()} if partition.is_valid else {}
            found.append(_File(path=unquote(path.as_py()), partition=own, records=records.as_py()))
        return sorted(found, key=lambda each: each.path)

    def _counts(self, state: int) -> Sequence[int]:
        return [
            self._opened(each).metadata.num_rows if each.records is None else each.records
            for each in self._files(state)
        ]

    def _require_readable(self, state: int, files: Sequence[_File]) -> None:
        self._require_there(state, [each.path for each in files])

    def _require_there(self, state: int, paths: Sequence[str]) -> None:
        if not all_there(lambda path: self._store.get_file_info(path).type is pafs.FileType.File, paths):
            raise VersionGone(name=self.name, version=state)

    def _batches(self, state: int, file: _File) -> Iterator[pa.RecordBatch]:
        columns, kept = Columns.of(self._at(state)), self._kept(state).get(file.path)
        yield from columns.batches(self._opened(file), dict(file.partition), kept, ROWS)

    @lru_cache(maxsize=4)  # noqa: B019 - a stream lives as long as one capture
    def _kept(self, state: int) -> Mapping[str, pa.Array]:
        """The rows that the table still has of each file that lost some."""
        table = self._at(state)
        if not has_deletion_vectors(table):
            return {}
        files = {each.path for each in self._files(state)}
        found: dict[str, pa.Array] = {}
        for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
            for uri, kept in zip(batch["filepath"], batch["selection_vector"], strict=True):
                parts = unquote(urlsplit(uri.as_py()).path).split("/")
                # The longest one: another folder may have a file of this name.
                ends = ("/".join(parts[begin:]) for begin in range(len(parts)))
                found[next(each for each in ends if each in files)] = kept.values
        return found

    def _opened(self, file: _File) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._store.open_input_file(file.path),
            # Nanoseconds do not reach as far as what others write into these.
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
            pre_buffer=True,
        )

    @cached_property
    def _store(self) -> pafs.FileSystem:
        from deltalake.fs import DeltaStorageHandler

        return pafs.PyFileSystem(DeltaStorageHandler(self._declared.url, dict(self._options) or None))

    def _require_changes(self, first: int, last: int) -> None:
        with self._reading(last):
            self._schema(last)
            if not has_plain_files(self._at(first)):
                why = "it had mapped columns or deletion vectors, of which its client reads no changes"
                raise ChangesUnreadable(name=self.name, why=why)
            for version in range(first, last + 1):
                self._require_there(version, self._changed_files(version))

    def _changed_files(self, version: int) -> Sequence[str]:
        """The files that have the changes of a version."""
        with self._store.open_input_stream(f"_delta_log/{version:020}.json") as file:
            actions = [loads(line) for line in file.read().decode().splitlines() if line.strip()]
        written = [each["cdc"] for each in actions if "cdc" in each]
        moved = [each[kind] for each in actions for kind in ("add", "remove") if kind in each]
        return [unquote(each["path"]) for each in written or moved if each.get("dataChange") or written]

    def _changes(self, piece: Span, copy: Path) -> Iterator[pa.RecordBatch]:
        """The changes of versions: per version and key what it is afterwards, or that it is deleted.

        A key that a version deletes and writes was changed by it: that is how tables are overwritten. One that was only
        the key before an update is gone.
        """
        operated = self._operated
        assert operated is not None and operated.delete is not None
        first, last = int(piece.range_from), int(piece.range_to) - 1
        schema = self._schema(last)
        self._require_changes(first, last)
        held = copy.with_name(f"{copy.name}.changes")
        try:
            with self._reading(last):
                feed = pa.RecordBatchReader.from_stream(self._at(last).load_cdf(first, last))
                with pq.ParquetWriter(held, feed.schema) as file:
                    for batch in feed:
                        file.write_batch(batch)
            with duckdb.connect(config={"threads": "1", "temp_directory": str(copy.parent)}) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                statement = _changes_statement(self._own_schema(last).names, operated)
                found = connection.sql(statement, params={"held": str(held), **operated.values})
                for batch in found.to_arrow_reader(ROWS):
                    yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        finally:
            held.unlink(missing_ok=True)

    def _at(self, version: int | None) -> DeltaTable:
        from deltalake import DeltaTable

        table = DeltaTable(self._declared.url, version=version, storage_options=dict(self._options) or None)
        if why := complaint(table):
            raise CannotBeCaptured(name=self.name, why=why)
        return table

    @contextmanager
    def _reading(self, version: int | None = None) -> Iterator[None]:
        """Turns errors of the client into ours; what it says itself may hold an access key."""
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            yield
        except TableNotFoundError:
            raise NoStream(name="Delta table", servers=self._declared.url) from None
        except (DeltaError, pa.ArrowException, OSError) as error:
            said = str(error)
            if unknown := _UNKNOWN_FEATURE.search(said):
                raise CannotBeCaptured(name=self.name, why=f"it uses the feature {unknown[1]} of Delta") from None
            if _OF_A_CATALOG in said:
                why = "it uses the feature catalogManaged of Delta: its versions are known to its catalog only"
                raise CannotBeCaptured(name=self.name, why=why) from None
            if _ESCAPED in said:
                why = "the client does not open partitions whose values have characters such as a blank"
                raise ChangesUnreadable(name=self.name, why=why) from None
            if _FEED_WAS_OFF in said:
                raise ChangesUnreadable(name=self.name, why="its change feed was off in between") from None
            if any(word in said for word in _DENIED):
                raise StreamDenied(name=self.name, why="its store refused the request") from None
            if isinstance(error, FileNotFoundError) or any(word in said for word in _GONE):
                wanted = self._declared.version if version is None else version
                raise VersionGone(name=self.name, version=wanted) from None
            raise StreamFailed(name=self.name, why=f"its client failed ({type(error).__name__})") from None


def _not_empty(value: pa.Scalar) -> pa.Scalar:
    return pa.scalar(None, value.type) if value.as_py() == "" else value


def _changes_statement(columns: Sequence[str], operated: Operated) -> str:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    own = [quoted(each) for each in columns]
    same_key = " AND ".join(f"w.{quoted(key)} IS NOT DISTINCT FROM c.{quoted(key)}" for key in operated.key)
    wrote, ended = "('insert', 'update_postimage')", "('delete', 'update_preimage')"

    def others(kinds: str) -> str:
        return (
            f"EXISTS (SELECT 1 FROM changes w WHERE w._commit_version = c._commit_version "
            f"AND w._change_type IN {kinds} AND {same_key})"
        )

    return f"""
        WITH changes AS (SELECT * FROM read_parquet($held))
        SELECT {", ".join(f"c.{each}" for each in own)},
            c._commit_version AS {VERSION},
            c._commit_timestamp::TIMESTAMP AT TIME ZONE 'UTC' AS {COMMITTED},
            CASE WHEN c._change_type IN {ended} THEN $delete
                WHEN NOT {others(ended)} THEN $create ELSE $update END
                AS {quoted(operated.column)}
        FROM changes c
        WHERE c._change_type IN {wrote} OR (c._change_type IN {ended} AND NOT {others(wrote)})
        ORDER BY c._commit_version, {", ".join(f"c.{each}" for each in (*map(quoted, operated.key), *own))}
    """
