"""Lineage of runs: the table `lineage.runs`, one row for each run whose rows readers see, saw, or were about to see.

A row of any table names its run, and this table says what is the same for all rows of a run. Its row is appended once,
before the first row of the run becomes visible (`docs/adr/0036-lineage-of-runs.md`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from backfill_assets.core.columns import LINEAGE, LINEAGE_OF_RUN, RUN_ID
from backfill_assets.core.errors import BackfillError
from backfill_assets.files.admission import require_admitted
from backfill_assets.lake.errors import LineageNotWritten
from backfill_assets.lake.tables import TABLE_CONFIGURATION, Lake, in_one_line

MOST_ATTEMPTS = 8
MOST_FILES = 100
"""Every run adds a file; `compact_runs` brings more than these together in one."""
_FIRST_WAIT_S = 0.05

_APPENDED = 1
"""The version of a run's application transaction."""

_SCHEMA = pa.schema([(name, pa.string()) for name in (RUN_ID, *LINEAGE_OF_RUN)])
_CONFIGURATION = {
    **TABLE_CONFIGURATION,
    # A log is never rewritten: it need not repeat the reasons that people gave.
    "delta.dataSkippingStatsColumns": RUN_ID,
    # No rollback needs a file of an earlier version: all rows of it are in the present one.
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


def append_run(lake: Lake, row: Mapping[str, str], *, wait: Callable[[float], None] = time.sleep) -> None:
    """Appends the row of a run, unless it was appended before.

    The run is an application transaction of the commit. It is looked for and committed on one handle, without retries
    inside the library, which would append the row again if another process appended it in between.

    Args:
        lake: Where tables are.
        row: By column, all columns of the table.
        wait: Waits for seconds between two attempts.

    Raises:
        UnreadableTable: The table is damaged.
        LineageNotWritten: It could not be appended.
        StoreRefused, StoreAway: The store of the lake cannot be used.
    """
    run_id = row[RUN_ID]
    require_admitted(lake.root, lake.access)
    batch = pa.Table.from_pylist([dict(row)], schema=_SCHEMA)
    for attempt in range(MOST_ATTEMPTS):
        try:
            handle = _made(lake)
            if handle.transaction_version(run_id) is not None:
                return
            write_deltalake(
                handle,
                batch,
                mode="append",
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=[Transaction(run_id, _APPENDED)]
                ),
            )
        except BackfillError:
            raise
        except Exception as error:
            # Another process may have been first, or a store may have taken a commit whose answer was lost.
            if attempt == MOST_ATTEMPTS - 1:
                raise LineageNotWritten(table=LINEAGE, run_id=run_id, why=in_one_line(error)) from error
            wait(_FIRST_WAIT_S * 2**attempt * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
        else:
            return


def _made(lake: Lake) -> DeltaTable:
    if lake.exists(LINEAGE):
        return lake.open(LINEAGE)
    return DeltaTable.create(
        lake.url(LINEAGE),
        schema=Schema.from_arrow(_SCHEMA),
        mode="ignore",
        configuration=_CONFIGURATION,
        storage_options=lake.storage_options,
        commit_properties=CommitProperties(custom_metadata={"created_by": "backfill_assets"}),
    )


def lineage_rows(lake: Lake) -> Sequence[Mapping[str, str]]:
    """Every row of the table, by column; none when there is no table.

    Raises:
        UnreadableTable: Its log or one of its files is damaged.
    """
    with lake.reading(LINEAGE):
        return lake.open(LINEAGE).to_pyarrow_table().to_pylist() if lake.exists(LINEAGE) else []


def compact_runs(lake: Lake) -> None:
    """Brings the rows of many runs together in one file, and removes files that have been replaced for a week.

    Raises:
        UnreadableTable: The table is damaged.
    """
    if not lake.exists(LINEAGE):
        return
    with lake.reading(LINEAGE):
        handle = lake.open(LINEAGE)
        if len(handle.file_uris()) > MOST_FILES:
            handle.optimize.compact()
        handle.vacuum(dry_run=False)
