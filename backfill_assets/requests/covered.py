"""Runs of which nothing is left to do, because later runs have published every partition of them."""

from __future__ import annotations

from backfill_assets.domain import SourceTable
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import EVER_VISIBLE, UNPUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace


def is_built_since(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> bool:
    """True if nothing of a load is left to do, because loads that were planned after it built every day of it.

    A load reads whatever has landed for its days, so a later one has read what this one would have, and possibly more.
    """
    if run.state not in UNPUBLISHED or run.lease is not None:
        return False
    if not isinstance(ws.domain.tables.get(run.manifest.table), SourceTable):
        return False
    return is_covered_since(tx, run)


def is_covered_since(tx: ReadTransaction, run: RunRecord) -> bool:
    """True if runs of the table that were planned later have published every partition of a run."""
    left, partitions = set(run.manifest.partitions), run.manifest.partitions
    for later in tx.runs.records(table=run.manifest.table, states=EVER_VISIBLE, after=run.sequence, over=partitions):
        left.difference_update(later.manifest.partitions)
    return not left
