"""Tables: their paths, and how they are opened and created."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError

from backfill_assets.errors import BackfillError, MissingInput, Refused, UnreadableTable
from backfill_assets.identity import DataFile, FileSet, digest_of_paths
from backfill_assets.lake.schemas import cannot_follow, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
from backfill_assets.next_steps import Act, do, step

TABLE_CONFIGURATION = {
    # The log is evidence: `audit` compares every commit with the ledger, so none may be removed by age.
    "delta.enableExpiredLogCleanup": "false",
    # The ledger decides which files a rollback or a reproduction may need, not their age.
    "delta.deletedFileRetentionDuration": "interval 3650 days",
}


_MOST_CHARACTERS = 300
"""The maximum length of a library's message about a table that it cannot read."""


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
        """Whether the table exists.

        Raises:
            UnreadableTable: Its folder cannot be read.
        """
        with self.reading(table):
            return DeltaTable.is_deltatable(str(self.path(table)), storage_options=dict(self.storage_options))

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
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnreadableTable(
                f"the table {table} cannot be read: {reason[:_MOST_CHARACTERS].rstrip('.')}.",
                next_step=step(
                    f"restore what is damaged below {self.path(table)} from a backup, or make it readable; then ",
                    do(Act.AUDIT),
                ),
                table=table,
            ) from error

    def open(self, table: str) -> DeltaTable:
        """A handle of the table's newest version.

        Raises:
            MissingInput: The table does not exist.
            UnreadableTable: Its log is damaged, or may not be read.
        """
        with self.reading(table):
            try:
                return DeltaTable(self.path(table), storage_options=dict(self.storage_options))
            except TableNotFoundError as error:
                raise MissingInput(
                    f"the table {table} does not exist, or its log is missing.",
                    next_step=step(
                        f"if it was published, restore {self.path(table)} from a backup; then ", do(Act.AUDIT)
                    ),
                    table=table,
                ) from error

    def ensure(
        self, table: str, schema: StructType, partition_column: str, *, former: Collection[str] | None = None
    ) -> DeltaTable:
        """The table, created empty if it does not exist; one that exists follows in the swap (`SwapOrder.schema`).

        Args:
            table: `layer.table`.
            schema: Every column, the partition and lineage columns included.
            partition_column: The one column it is partitioned by.
            former: Columns of earlier contracts of a source; None for any other table.

        Raises:
            Refused: It exists with columns that these do not follow from.
        """
        handle = DeltaTable.create(
            self.path(table),
            schema=Schema.from_json(schema.json()),
            mode="ignore",
            partition_by=[partition_column],
            configuration=dict(TABLE_CONFIGURATION),
            storage_options=dict(self.storage_options),
            commit_properties=CommitProperties(custom_metadata={"created_by": "backfill_assets"}),
        )
        if differing := cannot_follow(schema_of(handle), schema, former):
            raise Refused(
                f"{table} was created with other columns than it declares now: {differing}.",
                next_step="only columns that can be null may be added and types widened; declare the table under a new "
                "name, or move the old table away and rebuild it",
                table=table,
            )
        return handle


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
        return frozenset(lake.open(table).get_add_actions(flatten=True).column("path").to_pylist())


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stamp_of(path: Path) -> str:
    """The inode number and change time of a file, which differ after any write to it.

    The change time is that of the inode, which no program can set back, unlike the time of modification.
    """
    found = path.stat()
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"


def changed_files(
    lake: Lake, table: str, file_sets: Iterable[FileSet], *, trust_stamps: bool = False
) -> tuple[str, ...]:
    """Files of the recorded size whose bytes are not those that were staged.

    Args:
        lake: Where tables are.
        table: The table the files belong to.
        file_sets: As they were staged.
        trust_stamps: Only read files whose stamp is not the one they had when their sha256 was taken; else all.
    """
    folder = lake.path(table)
    recorded = {file.path: file for file_set in file_sets for file in file_set.files if file.sha256}

    def says(file: DataFile) -> str | None:
        path = folder / file.path
        if not path.is_file() or path.stat().st_size != file.size_bytes:
            return None
        if (trust_stamps and stamp_of(path) == file.stamp) or sha256_of_file(path) == file.sha256:
            return None
        return f"the bytes of {file.path} are not those that were staged"

    with lake.reading(table), ThreadPoolExecutor() as readers:  # hashing lets other threads run
        return tuple(problem for problem in readers.map(says, recorded.values()) if problem)


def missing_files(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> tuple[str, ...]:
    """Why these file sets cannot be read: files that do not exist or have another size than recorded."""
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
            except OSError as error:
                problems.append(f"{file.path} cannot be read: {error.strerror}")
                continue
            if size != file.size_bytes:
                problems.append(f"{file.path} has {size:,} bytes where {file.size_bytes:,} were recorded")
    return tuple(problems)
