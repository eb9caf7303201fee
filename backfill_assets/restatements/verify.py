"""Verify what would change nothing: a run, or a set, whose rows are those that readers see needs no approval.

Nothing is swapped, so that no person has to agree. What is recorded is that the accepted rows also follow from what the
run has read; otherwise they would stay stale. The ledger records all runs of a set in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.core.errors import Refused, Retryable
from backfill_assets.ledger.records import PublicationIntent, PublicationRecord, RunRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.publication.authority import demand_of, open_comments
from backfill_assets.publication.publish import intent_of, require_as_intended, require_unchanged
from backfill_assets.workspace import Workspace


def verify_if_equal(ws: Workspace, run_id: str, *, by: str) -> tuple[PublicationRecord, ...]:
    """Records that a run that has passed, or all runs of its set, would change nothing.

    Args:
        ws: The workspace.
        run_id: The run that was measured last.
        by: Who ran it.

    Returns:
        What was recorded; empty when something would change, when a person has approved or has to comment, or when it
        could not be published now either: publication says why.
    """
    with ws.ledger.read() as tx:
        runs = _waiting(ws, tx, run_id)
        if not runs:
            return ()
        try:
            intents = [intent_of(ws, tx, run, by=by) for run in runs]
        except (Refused, Retryable):
            return ()
    if any(intent.changes for intent in intents):
        return ()
    try:
        versions = [require_as_intended(ws, run, intent) for run, intent in zip(runs, intents, strict=True)]
        with ws.ledger.write() as tx:
            return tuple(_recorded(ws, tx, runs, intents, versions, by=by))
    except (Refused, Retryable):
        return ()


def _waiting(ws: Workspace, tx: ReadTransaction, run_id: str) -> Sequence[RunRecord]:
    """The run or the runs of its set, if all of them have passed and wait for a person; none otherwise."""
    run = tx.runs.get(run_id)
    record = tx.sets.of_run(run_id) if run.manifest.member_of else None
    if record is not None and (record.state is not SetState.PENDING or record.manifest.phases):
        # Phases are decided about one by one.
        return ()
    runs = members_of(tx.runs, record) if record else [run]
    waits = all(
        each.state is RunState.PASSED
        and each.approval is ApprovalState.DRAFT
        and each.manifest.mode not in NEVER_PUBLISHED
        # A load of landed files has no inputs of its own kind: it is published by whoever runs it.
        and each.manifest.inputs
        and not open_comments(tx, each)
        # What a policy approves is published by whoever runs it, or by the sensor that follows.
        and demand_of(ws, tx, each).policy is None
        for each in runs
    )
    return runs if waits else ()


def _recorded(
    ws: Workspace,
    tx: WriteTransaction,
    runs: Sequence[RunRecord],
    intents: Sequence[PublicationIntent],
    versions: Sequence[int],
    *,
    by: str,
) -> Sequence[PublicationRecord]:
    # What was read before the transaction is read again: another process may have published meanwhile.
    if _waiting(ws, tx, runs[0].run_id) != runs:
        return ()
    set_id = runs[0].manifest.member_of
    if set_id is not None:
        tx.sets.move(set_id, SetState.VERIFIED, actor=by)
    made = []
    for run, intent, version in zip(runs, intents, versions, strict=True):
        tx.outbox.require_still_asked(run)
        require_unchanged(ws, tx, run.manifest)
        made.append(tx.publications.verify(intent, delta_version=version, actor=by))
    return made
