"""Built since: loads that did not end, and whose days later loads have built."""

from __future__ import annotations

from backfill_assets.domain import SourceTable
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import UNPUBLISHED, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace

_BUILT = (RunState.PUBLISHED, RunState.SUPERSEDED)


def is_built_since(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> bool:
    """Whether nothing of a load is left to do, because every day of it was built by loads that were planned after it.

    A load reads whatever has landed for its days, so a later one has read what this one would have, and possibly more.
    """
    table = run.manifest.table
    if run.state not in UNPUBLISHED or run.lease is not None:
        return False
    if not isinstance(ws.domain.tables.get(table), SourceTable):
        return False
    left = set(run.manifest.partitions)
    for later in tx.runs.records(table=table, states=_BUILT, after=run.sequence, over=run.manifest.partitions):
        left.difference_update(later.manifest.partitions)
    return not left
