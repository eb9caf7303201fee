"""Iceberg tables of others: their current snapshots, by sequence number.

There is no change feed: what follows the first snapshot is the newest one once more, which lands as a complete extract.
A table that was rolled back has an earlier snapshot again, under the next number that was not captured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.calendar.local_days import UTC_DAYS, LocalDays
from backfill_assets.capture.errors import CannotBeCaptured, NoStream, StreamDenied, StreamFailed, VersionGone
from backfill_assets.capture.lake_tables.declaration import IcebergTable
from backfill_assets.capture.lake_tables.versions import OF_STATE, ROWS, Newest, TableStream, all_there
from backfill_assets.capture.streams import Operated
from backfill_assets.core.errors import PackageMissing

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

_CHECKSUM = "CRC checksum verification failed"
_EQUALITY_DELETES = "equality deletes"
_ORDERED = 2
"""The first version of the format whose snapshots have numbers that rise."""


class IcebergStream(TableStream):
    """An Iceberg table that was opened.

    Args:
        declared: The table as its source declares it.
        secret: The secret properties of its catalog.
        event_time: The column that is the time of a record.
        days: What its days are.
        operated: How the source names operations; None where its records have none.
        columns: The columns of its contract.

    Raises:
        PackageMissing: pyiceberg is not installed.
    """

    table_format = "iceberg"

    def __init__(
        self,
        declared: IcebergTable,
        *,
        secret: Mapping[str, str],
        event_time: str,
        days: LocalDays = UTC_DAYS,
        operated: Operated | None,
        columns: Sequence[str] = (),
    ) -> None:
        try:
            import pyiceberg  # noqa: F401 - asked for now, so that a refusal comes before anything is read
        except ImportError:
            raise PackageMissing(what="a capture from Iceberg", package="pyiceberg", extra="iceberg") from None
        super().__init__(
            declared.table, chunk=declared.chunk, event_time=event_time, days=days, operated=operated, columns=columns
        )
        self._declared = declared
        self._properties = {**declared.catalog, **secret}

    @cached_property
    def _opened(self) -> Table:
        """The table as it was when the capture began."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable

        if self._declared.is_metadata:
            return StaticTable.from_metadata(self._declared.table, dict(self._properties))
        others = {name: value for name, value in self._properties.items() if name != "name"}
        return load_catalog(self._properties.get("name", "default"), **others).load_table(self._declared.table)

    def _identity(self) -> str:
        return str(self._opened.metadata.table_uuid)

    def _newest(self) -> Newest:
        metadata, wanted = self._opened.metadata, self._declared.snapshot
        if metadata.format_version < _ORDERED:
            why = f"it has version {metadata.format_version} of its format, whose snapshots are not numbered"
            raise CannotBeCaptured(name=self.name, why=why)
        chosen = metadata.current_snapshot_id if wanted is None else wanted
        newest = None if chosen is None else metadata.snapshot_by_id(chosen)
        if newest is None:
            if wanted is not None and metadata.snapshots:
                raise VersionGone(name=self.name, version=wanted)
            raise CannotBeCaptured(name=self.name, why="it has no snapshot yet")
        pinned = {"snapshot": str(newest.snapshot_id), "change feed": "no"}
        return Newest(version=_number(newest), state=newest.snapshot_id, pinned=pinned, has_changes=False)

    def _state(self, partition: str, version: int) -> int | None:
        _, _, state = partition.partition(OF_STATE)
        if state:
            return int(state)
        return next((each.snapshot_id for each in self._opened.metadata.snapshots if _number(each) == version), None)

    def _after(self, newest: Newest, version: int) -> int:
        """Its own number; the next one where the table has gone back to a snapshot of before what was captured."""
        return max(newest.version, version + 1)

    def _own_schema(self, state: int) -> pa.Schema:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = schema_to_pyarrow(self._scan(state).projection(), include_field_ids=False)
        return pa.schema([pa.field(each.name, _plain(each.type), each.nullable) for each in schema])

    def _scan(self, state: int) -> Any:
        return self._opened.scan(snapshot_id=state)

    @lru_cache(maxsize=4)  # noqa: B019 - a stream lives as long as one capture
    def _files(self, state: int) -> Sequence[FileScanTask]:
        with self._reading(state):
            return sorted(self._scan(state).plan_files(), key=lambda task: str(task.file.file_path))

    def _counts(self, state: int) -> Sequence[int]:
        return [task.file.record_count for task in self._files(state)]

    def _require_readable(self, state: int, files: Sequence[FileScanTask]) -> None:
        deletes = (delete for each in files for delete in each.delete_files)
        paths = {str(each.file_path) for each in (*(each.file for each in files), *deletes)}
        if not all_there(lambda path: bool(self._opened.io.new_input(path).exists()), sorted(paths)):
            raise VersionGone(name=self.name, version=state)

    def _batches(self, state: int, file: FileScanTask) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        opened, schema = self._opened, self._own_schema(state)
        read = ArrowScan(opened.metadata, opened.io, self._scan(state).projection(), AlwaysTrue())
        self._require_whole(file)
        for batch in read.to_record_batches([file]):
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches(max_chunksize=ROWS)

    def _require_whole(self, task: FileScanTask) -> None:
        """Compares the pages of a data file and of its deletes with their checksums, which the client does not."""
        for each in (task.file, *task.delete_files):
            if str(each.file_format).upper().endswith("PARQUET"):
                with self._opened.io.new_input(each.file_path).open() as opened:
                    for _ in pq.ParquetFile(opened, page_checksum_verification=True).iter_batches(ROWS):
                        pass

    @contextmanager
    def _reading(self, state: int | None = None) -> Iterator[None]:
        """Turns errors of the client into ours; what it says itself may hold a token."""
        from pyiceberg.exceptions import (
            ForbiddenError,
            NoSuchNamespaceError,
            NoSuchTableError,
            NotInstalledError,
            RESTError,
            UnauthorizedError,
        )
        from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

        try:
            yield
        except (NoSuchTableError, NoSuchNamespaceError):
            raise NoStream(name=f"table {self._declared.table}", servers="its catalog") from None
        except (ForbiddenError, UnauthorizedError, PermissionError):
            raise StreamDenied(name=self.name, why="its catalog or store refused the request") from None
        except NotInstalledError as error:
            raise StreamFailed(name=self.name, why=f"its client needs another package: {error}") from None
        except FileNotFoundError:
            if state is None:
                raise NoStream(name="metadata of an Iceberg table", servers=self._declared.table) from None
            raise VersionGone(name=self.name, version=state) from None
        except UnsupportedPyArrowTypeException as error:
            why = f"its client does not read the type of {error.field.name}, which is {error.field.field_type}"
            raise CannotBeCaptured(name=self.name, why=why) from None
        except (RESTError, pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
            if _EQUALITY_DELETES in str(error):
                why = "it has equality deletes, which its client does not apply: compact the table"
                raise CannotBeCaptured(name=self.name, why=why) from None
            if _CHECKSUM in str(error):
                why = "a page of one of its files does not match its checksum"
                raise CannotBeCaptured(name=self.name, why=why) from None
            raise StreamFailed(name=self.name, why=f"its client failed ({type(error).__name__})") from None


def _number(snapshot: Snapshot) -> int:
    return int(snapshot.sequence_number or 0)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type as other readers of Parquet have it: large texts and lists are an encoding of Arrow's own."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_plain(each.type)) for each in kind])
    return kind
