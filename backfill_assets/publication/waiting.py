"""What a run waits for before it is published, the end of a freeze or an open run of a higher priority; and whether it
has read older inputs than readers see.

Asked before automatic work begins, when a reader is advised, and again in the transaction that begins a publication.
Nothing is overwritten for a priority: when the other run is published, this one was compared with rows that are no
longer accepted, is refused for that, and is planned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import GATED, UNBLOCKED, RunState, SetState
from backfill_assets.ledger.store import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.partitions import Partitions
from backfill_assets.publication.errors import ComesAfter, Frozen
from backfill_assets.workspace import Workspace


def waits_for(tx: ReadTransaction, run: RunRecord, *, at: datetime) -> Freeze | RunRecord | None:
    """The freeze, or the run of the highest priority over some of the same partitions, that a run waits for.

    None when it waits for neither, or the publication of its set has begun: readers would see half of it meanwhile.
    """
    manifest = run.manifest
    if manifest.member_of is not None and tx.sets.get(manifest.member_of).state is SetState.PUBLISHING:
        return None
    if freeze := tx.freezes.stopping(manifest, at=at):
        return freeze
    others = tx.runs.records(
        table=manifest.table,
        states=UNBLOCKED,
        modes=EVER_PUBLISHED,
        above=manifest.limits.priority,
        over=manifest.partitions,
        # A run whose manifest cannot be read cannot be published either, so nothing waits for it.
        unreadable=lambda _table, _error: None,
    )
    higher = [each for each in others if not set(manifest.partitions).isdisjoint(each.manifest.partitions)]
    return max(higher, key=lambda other: (other.manifest.limits.priority, -other.sequence), default=None)


def require_its_turn(tx: ReadTransaction, run: RunRecord, *, at: datetime) -> None:
    """Refuses a run that waits.

    Raises:
        Frozen: For which freeze.
        ComesAfter: For which run.
    """
    grain, partitions = run.manifest.grain, run.manifest.partitions
    match waits_for(tx, run, at=at):
        case Freeze() as freeze:
            kept = Partitions.of(grain, freeze.keeps(partitions))
            raise Frozen(run_id=run.run_id, freeze=freeze, partitions=kept)
        case RunRecord() as first:
            raise ComesAfter(
                run_id=run.run_id,
                first=first.manifest.member_of or first.run_id,
                state=first.state,
                priority=first.manifest.limits.priority,
                partitions=Partitions.of(grain, set(partitions).intersection(first.manifest.partitions)),
            )


def older_inputs(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Sequence[date]:
    """The partitions of which a run that could be published has rows from older inputs than those that readers see.

    None of a replay, which is meant to; of an expiry, which has no rows; and of a run of a set before its turn, which
    the ledger refuses with a better reason.
    """
    manifest = run.manifest
    if manifest.expires or manifest.mode is Mode.REPLAY or run.state not in GATED:
        return ()
    upstream = {pin.from_run for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    if any(found.state is not RunState.PUBLISHED for found in tx.runs.named(sorted(upstream))):
        return ()
    # It reads much, and most of what is shown cannot be published now.
    from backfill_assets.staleness.find import regressed_partitions

    return regressed_partitions(ws, tx, manifest)
