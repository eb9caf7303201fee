"""Append: rows that are added to a table once, whoever else appends and however often it is tried.

The application id in a commit shows whether an append has landed. Appended are the lineage of runs, and the gate
results and rejected records that people query. A row of any table names its run, and `lineage.runs` says what is the
same for all rows of a run: its row is appended once, before the first row of the run becomes visible
(`docs/adr/0036-lineage-of-runs.md`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from pyspark.sql import DataFrame

from backfill_assets.core.columns import EVIDENCE_OF_RUN, LINEAGE, LINEAGE_OF_RUN, RUN_ID
from backfill_assets.core.errors import BackfillError, DiskFull, Retryable, is_full_disk
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, fields_of
from backfill_assets.core.progress import waiting
from backfill_assets.files.admission import require_admitted
from backfill_assets.lake.errors import NotAppended
from backfill_assets.lake.staging import write_staged
from backfill_assets.lake.swap import Exchange, SwapOrder, swap
from backfill_assets.lake.tables import TABLE_CONFIGURATION, Lake, in_one_line, live_files

T = TypeVar("T")

MOST_ATTEMPTS = 8
_FIRST_WAIT_S = 0.05

_APPENDED = 1
"""The version of the application transaction of an append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTable:
    """A table that only grows."""

    name: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    configuration: Mapping[str, str] | None = None  #: What it is created with, besides what every table has.

    def append_once(self, lake: Lake, rows: list[dict[str, object]], *, app_id: str) -> None:
        """Appends rows, unless they were appended before.

        The application transaction is looked for and committed on one handle, without retries inside the library: those
        would append the rows again if another process appended them in between.

        Args:
            rows: By column.
            app_id: Identifies these rows.

        Raises:
            UnreadableTable: The table is damaged.
            NotAppended: The rows could not be written; nothing was appended.
            DiskFull: There is no space for them.
            StoreRefused, StoreAway: The store of the lake cannot be used.
        """
        require_admitted(lake.root, lake.access)
        batch = pa.Table.from_pylist(rows, schema=self.schema)

        def append(handle: DeltaTable) -> None:
            if handle.transaction_version(app_id) is not None:
                return
            is_wider = not set(self.schema.names) <= {each.name for each in handle.schema().fields}
            write_deltalake(
                handle,
                batch,
                mode="append",
                # A table of an earlier release has fewer columns, and gets the others with this commit.
                schema_mode="merge" if is_wider else None,
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=[Transaction(app_id, _APPENDED)]
                ),
            )

        self._tried(lake, append)

    def hold(self, lake: Lake, rows: Callable[[], Sequence[Mapping[str, object]]]) -> int:
        """Lets the table hold exactly some rows, in one commit, which fails where others append meanwhile.

        Returns:
            How many rows it holds.

        Args:
            rows: Gives them, by column; asked again in every attempt.

        Raises:
            UnreadableTable, NotAppended, DiskFull, StoreRefused, StoreAway: As `append_once`.
        """
        require_admitted(lake.root, lake.access)

        def exchange(handle: DeltaTable) -> int:
            batch = pa.Table.from_pylist([dict(row) for row in rows()], schema=self.schema)
            none_between = CommitProperties(max_commit_retries=0)
            write_deltalake(handle, batch, mode="overwrite", schema_mode="overwrite", commit_properties=none_between)

            return len(batch)

        return self._tried(lake, exchange)

    def _tried(self, lake: Lake, write: Callable[[DeltaTable], T]) -> T:
        """One commit to the table as it is now, again where others were first."""
        for attempt in range(MOST_ATTEMPTS):
            try:
                return write(self._made(lake))
            except BackfillError:
                raise
            except Exception as error:
                # Another process may have been first, or a store may have taken a commit whose answer was lost.
                if is_full_disk(error):
                    raise DiskFull(holds=str(lake.root)) from error
                if attempt == MOST_ATTEMPTS - 1:
                    if not isinstance(lake.root, Path):
                        lake.files(self.name).stat("_delta_log")
                    raise NotAppended(table=self.name, why=in_one_line(error)) from error
                with waiting(lambda: f"waiting for other writers of {self.name}"):
                    time.sleep(_FIRST_WAIT_S * 2**attempt * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
        raise AssertionError(MOST_ATTEMPTS)

    def _made(self, lake: Lake) -> DeltaTable:
        if lake.exists(self.name):
            return lake.open(self.name)
        return DeltaTable.create(
            lake.url(self.name),
            schema=Schema.from_arrow(self.schema),
            mode="ignore",
            partition_by=list(self.partition_by) or None,
            configuration={**TABLE_CONFIGURATION, **(self.configuration or {})},
            storage_options=lake.storage_options,
            commit_properties=CommitProperties(custom_metadata={"created_by": "backfill_assets"}),
        )


MOST_FILES = 100
"""Every run adds a file; `compact_runs` brings more than these together in one."""

_TABLE = AppendedTable(
    name=LINEAGE,
    schema=pa.schema([(name, pa.string()) for name in (RUN_ID, *LINEAGE_OF_RUN, *EVIDENCE_OF_RUN)]),
    configuration={
        # A log is never rewritten: it need not repeat the reasons that people gave.
        "delta.dataSkippingStatsColumns": RUN_ID,
        # No rollback needs a file of an earlier version: all rows of it are in the present one.
        "delta.deletedFileRetentionDuration": "interval 7 days",
    },
)


def append_run(lake: Lake, row: Mapping[str, str]) -> None:
    """Appends the row of a run, unless it was appended before.

    Raises:
        Retryable: It could not be appended.
    """
    try:
        _TABLE.append_once(lake, [dict(row)], app_id=row[RUN_ID])
    except NotAppended as error:
        raise Retryable.coded(
            "lineage_not_written",
            "the lineage of run {run_id} could not be written to {table}, so nothing was published: {why}.",
            then="make the lake writable again, then [publish {run_id} by=NAME]",
            table=LINEAGE,
            run_id=row[RUN_ID],
            why=error.why,
        ) from error


def hold_runs(lake: Lake, rows: Callable[[], Sequence[Mapping[str, str]]]) -> int:
    """Lets the table hold exactly the rows of some runs; returns how many."""
    return _TABLE.hold(lake, rows)


def lineage_rows(lake: Lake) -> Sequence[Mapping[str, str]]:
    """Every row of the table, by column; none when there is no table."""
    with lake.reading(LINEAGE):
        return lake.open(LINEAGE).to_pyarrow_table().to_pylist() if lake.exists(LINEAGE) else []


def compact_runs(lake: Lake) -> None:
    """Brings the rows of many runs together in one file, and removes files that have been replaced for a week."""
    if not lake.exists(LINEAGE):
        return
    with lake.reading(LINEAGE):
        handle = lake.open(LINEAGE)
        if len(handle.file_uris()) > MOST_FILES:
            handle.optimize.compact()
        handle.vacuum(dry_run=False)


VALIDATION_PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """One gate result for queries. Key: run_id, partition, gate, file_set_digest, checked_version."""

    partition: date
    run_id: str
    gate: str
    blocking: bool
    passed: bool
    finding: str
    observed: str
    file_set_digest: str
    transform_version: str
    #: The accepted version that a later check measured; null for what a run measured of its candidate.
    checked_version: int | None = None


_VALIDATION_SCHEMA = pa.schema(
    [
        ("partition", pa.date32()),
        ("run_id", pa.string()),
        ("gate", pa.string()),
        ("blocking", pa.bool_()),
        ("passed", pa.bool_()),
        ("finding", pa.string()),
        ("observed", pa.string()),
        ("file_set_digest", pa.string()),
        ("transform_version", pa.string()),
        ("checked_version", pa.int32()),
    ]
)


VALIDATION_COLUMNS = tuple(
    name for name in _VALIDATION_SCHEMA.names if name not in ("transform_version", "checked_version")
)
"""The columns that the ledger has as well, and that a table of any release has."""


def validation_table(table: str) -> str:
    """The name of the table that holds a table's gate results."""
    return f"validation.{table.partition('.')[2]}"


def append_validation(lake: Lake, table: str, rows: Iterable[ValidationRow], *, app_id: str) -> None:
    """Appends gate results to the date-partitioned table behind `validation/<name>`, once per application id."""
    _results(validation_table(table)).append_once(lake, [fields_of(row) for row in rows], app_id=app_id)


def hold_validation(lake: Lake, validation: str, rows: Callable[[], Sequence[Mapping[str, object]]]) -> int:
    """Lets a table with gate results hold exactly some of them; returns how many."""
    return _results(validation).hold(lake, rows)


def _results(validation: str) -> AppendedTable:
    return AppendedTable(name=validation, schema=_VALIDATION_SCHEMA, partition_by=(VALIDATION_PARTITION,))


def replace_quarantined(
    lake: Lake, table: str, frame: DataFrame, *, import_id: str, attempt: str, at_ms: int, partition_column: str
) -> None:
    """Replaces the quarantined records of one import by these rows.

    Args:
        frame: Rejected records; every row holds the import's id in the partition column.
        attempt: Identifies this attempt; the same attempt twice changes nothing.
        at_ms: Milliseconds since 1970, for the commit.
        partition_column: The column with the import's id.
    """
    lake.ensure(table, frame.schema, partition_column)
    staged = write_staged(
        lake,
        table,
        frame,
        run_id=import_id,
        attempt=f"{attempt}-{time.monotonic_ns():x}",
        partition_column=partition_column,
    )
    present = live_files(lake.open(table), partition_column).get(import_id, ())
    expected = FileSet.of(DataFile(path=path, size_bytes=size, rows=0) for path, size in present)
    exchange = Exchange(value=import_id, expected=expected, new=staged.get(import_id, EMPTY_FILE_SET))
    order = SwapOrder(
        table=table,
        partition_column=partition_column,
        publication_id=f"quarantine:{import_id}:{attempt}",
        run_id=import_id,
        exchanges=(exchange,),
        committed_at_ms=at_ms,
    )
    swap(lake, order)
