"""How to undo a publication: by a rollback, or after undoing what has replaced some of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.requests import NextStep, step, undo


def how_to_undo(tx: ReadTransaction, named: str, run_ids: Iterable[str]) -> NextStep:
    """The rollback that is not refused for a later publication of the same partitions.

    Args:
        tx: The ledger.
        named: What is undone: a run, or the set that it belongs to.
        run_ids: The run, or the runs of the set.
    """
    later = next(filter(None, map(tx.versions.replaced_by, run_ids)), None)
    if later is None:
        return step(undo(named))
    return step("first undo what has replaced some of it: ", undo(tx.sets.whole_of(later)))


def published_together(tx: ReadTransaction, run: RunRecord) -> Sequence[str]:
    """The run, or the runs of its set."""
    its_set = tx.sets.of_run(run.run_id) if run.manifest.member_of else None
    return [member.run_id for member in its_set.manifest.members] if its_set else [run.run_id]
