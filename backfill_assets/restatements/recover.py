"""Recovery of a restatement set whose publication or rollback stopped half-way."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.core.errors import BackfillError, GateFailed, HalfWay, InputsMovedOn, MissingInput, TargetChanged
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import SetState
from backfill_assets.publication.recover import RecoveryEnd, RecoveryOutcome
from backfill_assets.restatements.publish import PublishOne, publish_set, rollback_set
from backfill_assets.workspace import Workspace

CANNOT_BE_COMPLETED = (TargetChanged, InputsMovedOn, GateFailed, MissingInput)
"""Errors that retrying does not resolve: a set that stopped for one of these is reversed by `recover`."""


def recover_set(ws: Workspace, record: SetRecord, *, by: str, publish: PublishOne) -> RecoveryOutcome:
    """Completes the publication of a set that stopped half-way, or reverses it.

    Args:
        ws: The workspace.
        record: The set.
        by: The person who recovers.
        publish: How one run is published.
    """
    set_id = record.set_id
    if record.state is SetState.ROLLING_BACK:
        return _reversed(ws, set_id, by=by, reason=record.note or "recovered")
    try:
        publish_set(ws, set_id, by=by, publish=publish)
    except BackfillError as error:
        with ws.ledger.read() as tx:
            found = tx.sets.get(set_id).state
        if found is SetState.PUBLISHED:
            return RecoveryOutcome(ended=RecoveryEnd.PUBLISHED_SINCE)
        if found is SetState.PLANNED:
            return RecoveryOutcome(ended=RecoveryEnd.NOTHING_PUBLISHED, cause=error)
        cause = error.__cause__ if isinstance(error, HalfWay) else error
        if isinstance(cause, CANNOT_BE_COMPLETED):
            # Only the cause: how far the set was is not true any more after the reversal.
            return replace(_reversed(ws, set_id, by=by, reason=cause.message), cause=cause)
        return RecoveryOutcome(ended=RecoveryEnd.HALF_WAY, error=error)
    return RecoveryOutcome(ended=RecoveryEnd.PUBLISHED)


def _reversed(ws: Workspace, set_id: str, *, by: str, reason: str) -> RecoveryOutcome:
    try:
        undone = rollback_set(ws, set_id, by=by, reason=reason, ordered=True)
    except BackfillError as error:
        return RecoveryOutcome(ended=RecoveryEnd.NOT_ROLLED_BACK, error=error)
    return RecoveryOutcome(ended=RecoveryEnd.ROLLED_BACK, landed=tuple(undone))
