"""Priority of open runs over the same partitions: a run waits for one that was planned with a higher one.

Nothing is overwritten for it: when the other run is published, this one was compared with rows that are no longer
accepted, is refused for that, and is planned again.
"""

from __future__ import annotations

from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import OPEN_STATES, RunState
from backfill_assets.ledger.store import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Partitions
from backfill_assets.publication.errors import ComesAfter
from backfill_assets.publication.frozen import is_begun

_CAN_BE_PUBLISHED = tuple(state for state in OPEN_STATES if state is not RunState.BLOCKED)


def preceding(tx: ReadTransaction, run: RunRecord) -> RunRecord | None:
    """The open run of the highest priority over some of the same partitions; None when this run's is as high, or the
    publication of its set has begun."""
    manifest = run.manifest
    if is_begun(tx, run):
        return None
    others = tx.runs.records(
        table=manifest.table, states=_CAN_BE_PUBLISHED, modes=EVER_PUBLISHED, over=manifest.partitions
    )
    higher = [
        other
        for other in others
        if other.manifest.limits.priority > manifest.limits.priority
        and not set(manifest.partitions).isdisjoint(other.manifest.partitions)
    ]
    return max(higher, key=lambda other: (other.manifest.limits.priority, -other.sequence), default=None)


def require_its_turn(tx: ReadTransaction, run: RunRecord) -> None:
    """Refuses a run while one of a higher priority is open.

    Raises:
        ComesAfter: Which one.
    """
    if first := preceding(tx, run):
        shared = set(run.manifest.partitions).intersection(first.manifest.partitions)
        raise ComesAfter(
            run_id=run.run_id,
            first=first.manifest.member_of or first.run_id,
            state=first.state,
            priority=first.manifest.limits.priority,
            partitions=Partitions.of(run.manifest.grain, shared),
        )
