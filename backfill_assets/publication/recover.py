"""Recovery of one publication: the log of its table says whether its swap landed.

If it landed, the ledger is updated. If not, it is fenced off, so that it cannot land later, and closed with nothing
changed. One that found every partition equal swaps nothing: the table's log has no mark of it, and the ledger alone
decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.swap import fence
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import PublicationState
from backfill_assets.publication.publish import abandon, acknowledge
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """The outcome of recovering one piece of work.

    Attributes:
        sentence: How it ended, in words.
        error: Why it did not end; None when it did.
        landed: The publications and rollbacks that the ledger has recorded because of it, in order.
    """

    sentence: str
    error: BackfillError | None = None
    landed: tuple[PublicationRecord, ...] = ()


def end_publication(ws: Workspace, record: PublicationRecord, *, by: str) -> RecoveryOutcome:
    """Ends a publication whose process stopped: a swap that landed is acknowledged, others cannot land."""
    intent = record.intent
    version = None
    if intent.changes:
        version = fence(ws.lake, intent.table, intent.publication_id)
        ws.reached(Point.RECOVER_FENCED)
    if version is None:
        found = "had not landed" if intent.changes else "had nothing to swap"
        closed = abandon(ws, intent.publication_id, by=by, reason=f"recovered: it {found}")
        ws.reached(Point.RECOVER_CLOSED)
        return RecoveryOutcome(
            sentence=f"{found}; {'closed' if closed else 'was closed meanwhile'}, nothing has changed"
        )
    with ws.ledger.read() as tx:
        if tx.publications.get(intent.publication_id).state is PublicationState.ROLLED_BACK:
            landed = f"had landed as version {version} of {intent.table}"
            return RecoveryOutcome(sentence=f"{landed}, and has been rolled back meanwhile")
        manifest = tx.runs.get(intent.run_id).manifest
    acknowledged = acknowledge(ws, manifest, intent, delta_version=version, by=by)
    return RecoveryOutcome(
        sentence=f"had landed as version {version} of {intent.table}; the ledger has recorded it now",
        landed=(acknowledged,),
    )
