"""Runs that wait for a freeze: asked before work begins, and again in the transaction that begins a publication."""

from __future__ import annotations

from datetime import datetime

from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Partitions
from backfill_assets.publication.errors import Frozen


def stopping(tx: ReadTransaction, run: RunRecord, *, at: datetime) -> Freeze | None:
    """The freeze for which a run waits; None when it waits for none."""
    freeze = tx.freezes.stopping(run.manifest, at=at)
    return None if freeze is None or is_begun(tx, run) else freeze


def is_begun(tx: ReadTransaction, run: RunRecord) -> bool:
    """Whether the publication of a run's set has begun, which nothing stops: readers would see half of it meanwhile."""
    return run.manifest.member_of is not None and tx.sets.get(run.manifest.member_of).state is SetState.PUBLISHING


def require_not_frozen(tx: ReadTransaction, run: RunRecord, *, at: datetime) -> None:
    """Refuses a run over partitions that are frozen for it.

    Raises:
        Frozen: Which freeze it waits for.
    """
    if freeze := stopping(tx, run, at=at):
        kept = Partitions.of(run.manifest.grain, freeze.keeps(run.manifest.partitions))
        raise Frozen(run_id=run.run_id, freeze=freeze, partitions=kept)
