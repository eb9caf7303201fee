"""Dagster partitions of a table, and the partition mapping of its windows.

Both are read off the planner's view, so that Dagster's lineage cannot disagree with what a run reads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import dagster as dg

from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import SourceTable, Table
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.partitions import Grain
from backfill_assets.workspace import Workspace

KEY_FORMAT = "%Y-%m-%d"
CAPTURED = "captured"
"""The group of the assets of captures, and the beginning of their keys."""


def first_day_of_data(workspace: Workspace) -> date:
    """The first of the month in which data starts, so that pages show no decades without any.

    Dagster's partitions begin there; what a run may compute begins with the setting BACKFILL_FIRST_DAY, which is also
    the answer where nothing has landed, or no ledger can be asked. A month, so that a late event seldom moves it.
    """
    first_day = workspace.graph.first_day
    kind, _, file = workspace.settings.ledger_url.partition(":///")
    if kind == "sqlite" and not Path(file).exists():
        return first_day
    try:
        with workspace.ledger.read() as tx:
            known = [day for day in (tx.imports.first_event_date(), tx.versions.first_partition()) if day]
    except BackfillError:
        return first_day
    return max(first_day, min(known).replace(day=1)) if known else first_day


def partitions_definition(grain: Grain, first_day: date) -> dg.TimeWindowPartitionsDefinition:
    """Every partition from the first day to today, named by the first day it covers."""
    match grain:
        case Grain.DAILY:
            return dg.DailyPartitionsDefinition(
                start_date=first_day.isoformat(), end_offset=1, timezone="UTC", fmt=KEY_FORMAT
            )
        case Grain.MONTHLY:
            # Dagster begins with the first whole month; ours is the one that the first day falls into.
            return dg.MonthlyPartitionsDefinition(
                start_date=first_day.replace(day=1).isoformat(), end_offset=1, timezone="UTC", fmt=KEY_FORMAT
            )


def window_mapping(*edges: TableInput) -> dg.TimeWindowPartitionMapping:
    """From the partitions of a derived table to those of one table that it reads: its window.

    Days that an input cannot have are left out here. The planner decides whether they are missing, and refuses.

    Args:
        edges: The inputs that this table is, more than one where it is read by several arguments. Every window holds
            the partition itself, so that the longest on either side is all of them together.
    """
    back, ahead = zip(*(edge.window.counts for edge in edges), strict=True)
    with relied_upon():
        return dg.TimeWindowPartitionMapping(
            start_offset=-max(back),
            end_offset=max(ahead),
            allow_nonexistent_upstream_partitions=True,
        )


def published_key(table: Table) -> dg.AssetKey:
    """The asset that readers know: the table's name, split at the dot."""
    return dg.AssetKey(table.name.split("."))


def captured_key(source: SourceTable) -> dg.AssetKey:
    """The asset of a source's captures."""
    return dg.AssetKey([CAPTURED, source.short_name])


def key_of(partition: date) -> str:
    """The Dagster partition key of a partition."""
    return partition.isoformat()


@contextmanager
def relied_upon() -> Iterator[None]:
    """Definitions made inside do not warn about the preview and beta features of Dagster that this package uses.

    - `BackfillPolicy.single_run()`: one run over a range of partitions (beta).
    - `AssetCheckSpec(partitions_def=...)`: a check status per partition (preview).
    - `TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)`: windows at the edges of history (beta).

    Tests hold Dagster to each of them, so its warnings would only hide others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
