"""Where is a table, and how is it opened or made?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.types import StructType

from backfill_assets.errors import MissingInput, Refused
from backfill_assets.identity import DataFile, FileSet, digest_of_paths

TABLE_CONFIGURATION = {
    # The log is evidence: `audit` holds every commit against the ledger, so none may be cleaned up by age.
    "delta.enableExpiredLogCleanup": "false",
    # Files that a rollback or a reproduction may need are kept by the ledger's word, not by age.
    "delta.deletedFileRetentionDuration": "interval 3650 days",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The folder of Delta tables, one per `layer.table`.

    Attributes:
        root: Tables live in `<root>/<layer>/<table>`.
        storage_options: Handed to the Delta reader and writer.
    """

    root: Path
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def path(self, table: str) -> Path:
        """The folder of a table."""
        layer, _, name = table.partition(".")
        return self.root / layer / name

    def exists(self, table: str) -> bool:
        """Whether the table has been made."""
        return DeltaTable.is_deltatable(str(self.path(table)), storage_options=dict(self.storage_options))

    def open(self, table: str) -> DeltaTable:
        """A handle of the table's newest version.

        Raises:
            MissingInput: The table has not been made yet.
        """
        try:
            return DeltaTable(self.path(table), storage_options=dict(self.storage_options))
        except TableNotFoundError as error:
            raise MissingInput(f"the table {table} has not been made yet.", table=table) from error

    def ensure(self, table: str, schema: StructType, partition_column: str) -> DeltaTable:
        """The table, made empty when it does not exist.

        Args:
            table: `layer.table`.
            schema: Every column, the partition and lineage columns included.
            partition_column: The one column it is partitioned by.

        Raises:
            Refused: It exists with other columns.
        """
        wanted = Schema.from_json(schema.json())
        handle = DeltaTable.create(
            self.path(table),
            schema=wanted,
            mode="ignore",
            partition_by=[partition_column],
            configuration=dict(TABLE_CONFIGURATION),
            storage_options=dict(self.storage_options),
            commit_properties=CommitProperties(custom_metadata={"created_by": "backfill_assets"}),
        )
        found = {field.name: str(field.type) for field in handle.schema().fields}
        expected = {field.name: str(field.type) for field in wanted.fields}
        if found != expected:
            raise Refused(
                f"{table} was made with the columns {_columns(found)}, and its declaration now says "
                f"{_columns(expected)}.",
                next_step="declare the table under a new name, or move the old table away and rebuild it",
                table=table,
            )
        return handle


def _columns(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def live_files(handle: DeltaTable, partition_column: str) -> Mapping[str, tuple[tuple[str, int], ...]]:
    """The paths and sizes of the files that readers of this version see, by partition value, sorted."""
    actions = handle.get_add_actions(flatten=True)
    columns = {name: actions.column(name).to_pylist() for name in _action_columns(partition_column)}
    found: dict[str, list[tuple[str, int]]] = {}
    for path, size, value in zip(*columns.values(), strict=True):
        found.setdefault(str(value), []).append((path, size))
    return {value: tuple(sorted(files)) for value, files in found.items()}


def _action_columns(partition_column: str) -> tuple[str, str, str]:
    return ("path", "size_bytes", f"partition.{partition_column}")


def live_digests(handle: DeltaTable, partition_column: str) -> Mapping[str, str]:
    """The file set digest of every partition that has files, by partition value."""
    return {value: digest_of_paths(files) for value, files in live_files(handle, partition_column).items()}


def live_paths(lake: Lake, table: str) -> frozenset[str]:
    """The files that readers of a table see, relative to it."""
    return frozenset(lake.open(table).get_add_actions(flatten=True).column("path").to_pylist())


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def changed_files(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> tuple[str, ...]:
    """Files that are there in their size, and whose bytes are not those that were staged. Reads all of them."""
    folder = lake.path(table)
    recorded = {file.path: file for file_set in file_sets for file in file_set.files if file.sha256}

    def says(file: DataFile) -> str | None:
        path = folder / file.path
        if not path.is_file() or path.stat().st_size != file.size_bytes or sha256_of_file(path) == file.sha256:
            return None
        return f"the bytes of {file.path} are not those that were staged"

    with ThreadPoolExecutor() as readers:  # hashing lets other threads run
        return tuple(problem for problem in readers.map(says, recorded.values()) if problem)


def missing_files(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> tuple[str, ...]:
    """What keeps these file sets from being read: files that are gone or have another size than recorded."""
    folder = lake.path(table)
    problems: list[str] = []
    for file_set in file_sets:
        for file in file_set.files:
            path = folder / file.path
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                problems.append(f"{file.path} is gone")
                continue
            if size != file.size_bytes:
                problems.append(f"{file.path} has {size:,} bytes where {file.size_bytes:,} were recorded")
    return tuple(problems)
