"""Lineage of runs: the table `lineage.runs`, one row for each run whose rows readers see, saw, or were about to see.

A row of any table names its run, and this table says what is the same for all rows of a run. Its row is appended once,
before the first row of the run becomes visible (`docs/adr/0036-lineage-of-runs.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from backfill_assets.core.columns import LINEAGE, LINEAGE_OF_RUN, RUN_ID
from backfill_assets.lake.append import AppendedTable
from backfill_assets.lake.errors import LineageNotWritten, NotAppended
from backfill_assets.lake.tables import Lake

MOST_FILES = 100
"""Every run adds a file; `compact_runs` brings more than these together in one."""

_TABLE = AppendedTable(
    name=LINEAGE,
    schema=pa.schema([(name, pa.string()) for name in (RUN_ID, *LINEAGE_OF_RUN)]),
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
        LineageNotWritten: It could not be appended.
    """
    try:
        _TABLE.append_once(lake, [dict(row)], app_id=row[RUN_ID])
    except NotAppended as error:
        raise LineageNotWritten(table=LINEAGE, run_id=row[RUN_ID], why=error.why) from error


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
