"""Evidence tables: gate results and rejected records that people query.

Rows are appended exactly once: the application id in the commit shows whether an append has landed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from pyspark.sql import DataFrame

from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, fields_of
from backfill_assets.lake.append import AppendedTable
from backfill_assets.lake.staging import write_staged
from backfill_assets.lake.swap import Exchange, SwapOrder, swap
from backfill_assets.lake.tables import Lake, live_files

VALIDATION_PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """One gate result for queries. Key: run_id, partition, gate, file_set_digest."""

    partition: date
    run_id: str
    gate: str
    blocking: bool
    passed: bool
    finding: str
    observed: str
    file_set_digest: str
    transform_version: str


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
    ]
)


def validation_table(table: str) -> str:
    """The name of the table that holds a table's gate results."""
    return f"validation.{table.partition('.')[2]}"


def append_validation(lake: Lake, table: str, rows: Iterable[ValidationRow], *, app_id: str) -> None:
    """Appends gate results to the date-partitioned table behind `validation/<name>`, once per application id."""
    evidence = AppendedTable(
        name=validation_table(table), schema=_VALIDATION_SCHEMA, partition_by=(VALIDATION_PARTITION,)
    )
    evidence.append_once(lake, [fields_of(row) for row in rows], app_id=app_id)


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
