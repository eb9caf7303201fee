"""Append: rows that are added to a table once, whoever else appends and however often it is tried."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from backfill_assets.core.errors import BackfillError, DiskFull, is_full_disk
from backfill_assets.files.admission import require_admitted
from backfill_assets.lake.errors import NotAppended
from backfill_assets.lake.tables import TABLE_CONFIGURATION, Lake, in_one_line

MOST_ATTEMPTS = 8
_FIRST_WAIT_S = 0.05

_APPENDED = 1
"""The version of the application transaction of an append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTable:
    """A table that only grows.

    Attributes:
        configuration: What it is created with, besides what every table has.
    """

    name: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    configuration: Mapping[str, str] | None = None

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
        for attempt in range(MOST_ATTEMPTS):
            try:
                handle = self._made(lake)
                if handle.transaction_version(app_id) is not None:
                    return
                write_deltalake(
                    handle,
                    batch,
                    mode="append",
                    commit_properties=CommitProperties(
                        max_commit_retries=0, app_transactions=[Transaction(app_id, _APPENDED)]
                    ),
                )
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
                time.sleep(_FIRST_WAIT_S * 2**attempt * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
            else:
                return

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
