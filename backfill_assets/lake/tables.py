"""Tables: their paths, how they are opened and created, and which change of columns a table can follow.

A table is never rewritten for other columns: its schema changes in the commit that first publishes files with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructField, StructType

from backfill_assets.core.columns import LINEAGE_OF_RUN, differing_columns, needs_rule, widened
from backfill_assets.core.errors import BackfillError, UnreadableTable
from backfill_assets.core.identity import DataFile, FileSet, digest_of_paths
from backfill_assets.core.places import Place, StoreAccess, StoreUrl
from backfill_assets.files import files_at
from backfill_assets.files.admission import require_admitted
from backfill_assets.files.port import Files, NoAnswer
from backfill_assets.files.recorded import altered, missing, rewritten
from backfill_assets.lake.errors import NoTable, OtherColumns

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

TABLE_CONFIGURATION = {
    # The log is evidence: `audit` compares every commit with the ledger, so none may be removed by age.
    "delta.enableExpiredLogCleanup": "false",
    # A cleanup that somebody asks for, such as delta-rs' `cleanup_metadata`, heeds only this.
    "delta.logRetentionDuration": "interval 36500 days",
    # The ledger decides which files a rollback or a reproduction may need, not their age.
    "delta.deletedFileRetentionDuration": "interval 3650 days",
}


_MOST_CHARACTERS = 300
"""The maximum length of a library's message about a table that it cannot read."""


_TREE = re.compile(r"\s*\n\s*(?:\x1b\[\d*m)?\u21b3(?:\x1b\[\d*m)?\s*")
"""How delta-rs shows the causes of an error: a tree in colours, a line for each."""


def in_one_line(error: Exception) -> str:
    """A library's message about a table that it cannot read or write: its first line, and the causes that follow it."""
    text = _TREE.sub(", ", str(error).strip()) or type(error).__name__
    return text.partition("<?xml")[0].splitlines()[0][:_MOST_CHARACTERS].rstrip(" .,")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The place of the Delta tables, one folder per `layer.table`."""

    root: Place  #: Tables live in `<root>/<layer>/<table>`.
    #: Endpoint and credentials, when the place is an object store.
    access: StoreAccess = field(default_factory=StoreAccess)

    def place(self, table: str) -> Place:
        layer, _, name = table.partition(".")
        return self.root / layer / name

    def files(self, table: str) -> Files:
        return files_at(self.place(table), self.access)

    def url(self, table: str) -> str:
        return str(self.place(table))

    def arrow_files(self, table: str) -> FileSystem:
        """The files of a table, for Arrow's readers; paths are relative to it."""
        # Imported here: to look at what the ledger knows takes no Arrow.
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

        if isinstance(self.root, Path):
            return SubTreeFileSystem(str(self.place(table)), LocalFileSystem())
        return PyFileSystem(DeltaStorageHandler(self.url(table), self.storage_options))

    @property
    def storage_options(self) -> dict[str, str]:
        """The options with which delta-rs reaches the place."""
        return {} if isinstance(self.root, Path) else dict(self.access.for_delta_with_patience())

    def exists(self, table: str) -> bool:
        with self.reading(table):
            found = DeltaTable.is_deltatable(self.url(table), storage_options=self.storage_options)
        if not found and isinstance(self.root, StoreUrl):
            self.files(table).stat(_LOG)  # in a bucket that is gone there are no tables either
        return found

    @contextmanager
    def reading(self, table: str) -> Iterator[None]:
        """Converts the errors of the libraries for an unreadable table into an error that names the table.

        Raises:
            UnreadableTable: Its log or one of its files is damaged, or may not be read.
        """
        try:
            yield
        except BackfillError:
            raise
        except Exception as error:  # deltalake has a dozen kinds of errors for a damaged log, some without a class
            if isinstance(self.root, StoreUrl):
                self.files(table).stat(_LOG)  # a store that is away is not a damaged table
            raise UnreadableTable.coded(
                "damaged_table",
                "the table {table} cannot be read: {why}.",
                then="[audit] says whether a file only has to be removed; otherwise restore what "
                "is damaged below {place} from a backup, or make it readable",
                table=table,
                place=str(self.place(table)),
                why=in_one_line(error),
            ) from error

    @contextmanager
    def answering(self, table: str) -> Iterator[None]:
        """Converts what delta-rs reports of a store, while a table is created or appended to, into a sentence.

        Raises:
            StoreRefused: The store accepts the credentials no longer, or the bucket is gone.
            StoreAway: It does not answer as it should.
        """
        try:
            yield
        except (OSError, DeltaError) as error:
            if isinstance(self.root, Path):
                raise
            self.files(table).stat(_LOG)
            raise NoAnswer(place=str(self.place(table)), why=in_one_line(error)) from error

    def open(self, table: str) -> DeltaTable:
        """A handle of the table's newest version.

        Raises:
            MissingInput: The table does not exist.
        """
        with self.reading(table):
            try:
                return DeltaTable(self.url(table), storage_options=self.storage_options)
            except TableNotFoundError as error:
                raise NoTable(table=table, place=str(self.place(table))) from error

    def columns(self, table: str) -> StructType | None:
        """The columns that readers of a table see; None where it does not exist."""
        return schema_of(self.open(table)) if self.exists(table) else None

    def ensure(
        self, table: str, schema: StructType, partition_column: str, *, former: Collection[str] | None = None
    ) -> DeltaTable:
        """The table, created empty if it does not exist; one that exists follows in the swap (`SwapOrder.schema`).

        Args:
            table: `layer.table`.
            former: Columns of earlier contracts of a source; None for any other table.
        """
        require_admitted(self.root, self.access)
        with self.answering(table):
            handle = DeltaTable.create(
                self.url(table),
                schema=Schema.from_json(schema.json()),
                mode="ignore",
                partition_by=[partition_column],
                configuration=dict(TABLE_CONFIGURATION),
                storage_options=self.storage_options,
                commit_properties=CommitProperties(custom_metadata={"created_by": "backfill_assets"}),
            )
        if differing := _other_columns(handle, schema, partition_column, former):
            raise OtherColumns(table=table, differing=differing)
        return handle

    def other_columns(
        self, table: str, schema: StructType, partition_column: str, former: Collection[str] | None
    ) -> str | None:
        """The differences between a declaration's columns and those of its table, where they do not follow from them.

        Args:
            table: As for `ensure`.
            schema: As for `ensure`.
            partition_column: As for `ensure`.
            former: As for `ensure`.
        """
        return _other_columns(self.open(table), schema, partition_column, former) if self.exists(table) else None

    def removal_of_empty(self, table: str, differing: str) -> Callable[[], None]:
        """The removal of a table into which nothing was ever committed, so that `ensure` creates it again: one file.

        The caller keeps others from beginning to commit when it is called, and knows that none has begun before.

        Raises:
            OtherColumns: Something was committed.
        """
        files, version = self.files(table), self.open(table).version()
        log = sorted(file.path for file in files.listed(_LOG) if file.path.endswith(".json"))
        if version or len(log) != 1:
            raise OtherColumns(table=table, differing=differing)
        return partial(files.remove, log)


_LOG = "_delta_log"


def _other_columns(
    handle: DeltaTable, wanted: StructType, partition_column: str, former: Collection[str] | None
) -> str | None:
    (column,) = handle.metadata().partition_columns
    if column != partition_column:
        return f"it is partitioned by {column}, and not by {partition_column}"
    return cannot_follow(schema_of(handle), wanted, former)


def live_files(handle: DeltaTable, partition_column: str) -> Mapping[str, tuple[tuple[str, int], ...]]:
    """The paths and sizes of the files that readers of this version see, by partition value, sorted.

    A file in which another writer has only marked rows as deleted has a path that no other file has: readers see other
    rows than were published, and to remove it takes more than its path.
    """
    actions = handle.get_add_actions(flatten=True)
    names = ("path", "size_bytes", f"partition.{partition_column}")
    found: dict[str, list[tuple[str, int]]] = {}
    marked = _with_deletion_vectors(handle)
    for path, size, value in zip(*(actions.column(name).to_pylist() for name in names), strict=True):
        plain = unquote(path)
        is_marked = any(place.endswith(f"/{plain}") for place in marked)
        found.setdefault(str(value), []).append((f"{plain} without deleted rows" if is_marked else plain, size))
    return {value: tuple(sorted(files)) for value, files in found.items()}


def _with_deletion_vectors(handle: DeltaTable) -> frozenset[str]:
    """The files of which readers leave out some rows, with their whole paths."""
    if "deletionVectors" not in (handle.protocol().reader_features or ()):
        return frozenset()
    return frozenset(unquote(path) for batch in handle.deletion_vectors() for path in batch["filepath"].to_pylist())


def live_digests(lake: Lake, table: str) -> Mapping[str, str]:
    """The file set digest of every partition that readers see files of, by partition value."""
    with lake.reading(table):
        handle = lake.open(table)
        (column,) = handle.metadata().partition_columns
        present = live_files(handle, column)
    return {value: digest_of_paths(files) for value, files in present.items()}


def live_paths(lake: Lake, table: str) -> frozenset[str]:
    """The files that readers of a table see, relative to it."""
    with lake.reading(table):
        return frozenset(map(unquote, lake.open(table).get_add_actions(flatten=True).column("path").to_pylist()))


def changed_files(
    lake: Lake, table: str, file_sets: Iterable[FileSet], *, trust_stamps: bool = False
) -> tuple[str, ...]:
    """Files of the recorded size whose bytes are not those that were staged; see `files.recorded.rewritten`."""
    with lake.reading(table):
        return rewritten(lake.files(table), _files_of(file_sets), trust_stamps=trust_stamps)


def missing_files(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> tuple[str, ...]:
    """Why these file sets cannot be read: files that do not exist or have another size than recorded."""
    return missing(lake.files(table), _files_of(file_sets))


def altered_files(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> tuple[str, ...]:
    """Why these file sets are not as they were staged: gone, of another size, or of other bytes."""
    with lake.reading(table):
        return altered(lake.files(table), _files_of(file_sets))


def _files_of(file_sets: Iterable[FileSet]) -> Iterator[DataFile]:
    return (file for file_set in file_sets for file in file_set.files)


def problem_of(lake: Lake, table: str, files: FileSet) -> str | None:
    """The first reason why files are not as they were staged; None if they are."""
    problems = altered_files(lake, table, [files])
    return problems[0] if problems else None


def schema_of(handle: DeltaTable) -> StructType:
    """The columns of a Delta table."""
    return StructType.fromJson(json.loads(handle.schema().to_json()))


def cannot_follow(found: StructType, wanted: StructType, former: Collection[str] | None) -> str | None:
    """Why a table cannot take files of other columns, as a part of a sentence; None if it can.

    Args:
        former: Columns of earlier contracts, which new files may lack, and with which come rules for old rows; None
            for a table whose columns have no versions.
    """
    # Whether values can be null is not compared: that is measured in the rows.
    optional = {*LINEAGE_OF_RUN, *(former or ())}
    kept = [f for f in found.fields if f.name in wanted.fieldNames() or f.name not in optional]
    before = StructType([StructField(f.name, f.dataType, nullable=False) for f in kept])
    added = set(wanted.fieldNames()) - set(found.fieldNames())
    if not needs_rule(before, wanted, ruled=() if former is None else added):
        return None
    return differing_columns(*([(f.name, f.dataType.simpleString()) for f in each.fields] for each in (before, wanted)))


def follows_in_swap(handle: DeltaTable, wanted: StructType) -> bool:
    """True if the next publication of files with these columns changes the table's schema."""
    return schema_after(handle, wanted) is not None


def schema_after(handle: DeltaTable, wanted: StructType) -> Schema | None:
    """The schema that the table has once it takes files of these columns; None when it has it already."""
    found = schema_of(handle)
    if cannot_follow(found, wanted, former=found.fieldNames()):
        return None  # staged before the declaration changed, or put back after it
    after = widened(found, wanted, former=found.fieldNames())
    return None if after == found else Schema.from_json(after.json())
