"""Iceberg tables of others: the snapshots of their current branch, by sequence number.

There is no change feed: what follows the first snapshot is the newest one once more, which lands as a complete extract.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.capture.errors import CannotBeCaptured, NoStream, ReadFailed, StreamDenied, VersionGone
from backfill_assets.capture.lake_table import IcebergTable
from backfill_assets.capture.streams import Operated
from backfill_assets.core.errors import PackageMissing
from backfill_assets.lake.tables_of_others import ROWS, Newest, TableStream

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

_ORDERED = 2
"""The first version of the format whose snapshots have numbers that rise."""


class IcebergStream(TableStream):
    """An Iceberg table that was opened.

    Args:
        declared: The table as its source declares it.
        secret: The secret properties of its catalog.
        event_time: The column that is the time of a record.
        operated: How the source names operations; None where its records have none.

    Raises:
        PackageMissing: pyiceberg is not installed.
    """

    table_format = "iceberg"

    def __init__(
        self, declared: IcebergTable, *, secret: Mapping[str, str], event_time: str, operated: Operated | None
    ) -> None:
        try:
            import pyiceberg  # noqa: F401 - asked for now, so that a refusal comes before anything is read
        except ImportError:
            raise PackageMissing(what="a capture from Iceberg", package="pyiceberg", extra="iceberg") from None
        super().__init__(declared.table, chunk=declared.chunk, event_time=event_time, operated=operated)
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
        history = self._history()
        found = [each for each in history if wanted is None or each.snapshot_id == wanted]
        if not found:
            if history and wanted is not None:
                raise VersionGone(name=self.name, version=wanted)
            raise CannotBeCaptured(name=self.name, why="it has no snapshot yet")
        newest = found[-1]
        pinned = {"snapshot": str(newest.snapshot_id), "change feed": "no"}
        return Newest(version=_number(newest), pinned=pinned, has_changes=False)

    def _history(self) -> list[Snapshot]:
        """The snapshots of the current branch that are kept, the first one first."""
        metadata = self._opened.metadata
        known = {each.snapshot_id: each for each in metadata.snapshots}
        found, at = [], metadata.current_snapshot_id
        while at in known:
            found.append(known[at])
            at = known[at].parent_snapshot_id
        return found[::-1]

    def _snapshot(self, version: int) -> Snapshot:
        found = next((each for each in self._history() if _number(each) == version), None)
        if found is None:
            raise VersionGone(name=self.name, version=version)
        return found

    def _own_schema(self, version: int) -> pa.Schema:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = schema_to_pyarrow(self._scan(version).projection(), include_field_ids=False)
        return pa.schema([pa.field(each.name, _plain(each.type), each.nullable) for each in schema])

    def _scan(self, version: int) -> Any:
        return self._opened.scan(snapshot_id=self._snapshot(version).snapshot_id)

    @lru_cache(maxsize=4)  # noqa: B019 - a stream lives as long as one capture
    def _files(self, version: int) -> Sequence[FileScanTask]:
        with self._reading(version):
            return sorted(self._scan(version).plan_files(), key=lambda task: str(task.file.file_path))

    def _counts(self, version: int) -> Sequence[int]:
        return [task.file.record_count for task in self._files(version)]

    def _require_readable(self, version: int, files: Sequence[FileScanTask]) -> None:
        for each in files:
            if not self._opened.io.new_input(each.file.file_path).exists():
                raise VersionGone(name=self.name, version=version)

    def _batches(self, version: int, file: FileScanTask) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        opened, schema = self._opened, self._own_schema(version)
        read = ArrowScan(opened.metadata, opened.io, self._scan(version).projection(), AlwaysTrue())
        for batch in read.to_record_batches([file]):
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches(max_chunksize=ROWS)

    @contextmanager
    def _reading(self, version: int | None = None) -> Iterator[None]:
        """Turns errors of the client into ours; what it says itself may hold a token."""
        from pyiceberg.exceptions import (
            ForbiddenError,
            NoSuchNamespaceError,
            NoSuchTableError,
            NotInstalledError,
            RESTError,
            UnauthorizedError,
        )

        try:
            yield
        except (NoSuchTableError, NoSuchNamespaceError):
            raise NoStream(name=f"table {self._declared.table}", servers="its catalog") from None
        except (ForbiddenError, UnauthorizedError, PermissionError):
            raise StreamDenied(name=self.name, why="its catalog or store refused the request") from None
        except NotInstalledError as error:
            raise ReadFailed(name=self.name, why=f"its client needs another package: {error}") from None
        except FileNotFoundError:
            if version is None:
                raise NoStream(name="metadata of an Iceberg table", servers=self._declared.table) from None
            raise VersionGone(name=self.name, version=version) from None
        except (RESTError, pa.ArrowException, OSError, ValueError) as error:
            raise ReadFailed(name=self.name, why=f"its client failed ({type(error).__name__})") from None


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
