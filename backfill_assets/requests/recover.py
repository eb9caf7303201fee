"""Recovery of one publication: the log of its table says whether its swap landed.

If it landed, the ledger is updated. If not, it is fenced off, so that it cannot land later, and closed with nothing
changed. One that found every partition equal swaps nothing: the table's log has no mark of it, and the ledger alone
decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.swap import fence
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import PublicationState
from backfill_assets.requests.publish import abandon, acknowledge, evidence_of
from backfill_assets.workspace import Workspace


class RecoveryEnd(StrEnum):
    """The end of work that was in progress."""

    NOT_LANDED = "NOT_LANDED"
    NOTHING_TO_SWAP = "NOTHING_TO_SWAP"
    LANDED = "LANDED"
    UNDONE_SINCE = "UNDONE_SINCE"
    PUBLISHED_SINCE = "PUBLISHED_SINCE"
    PUBLISHED = "PUBLISHED"
    PHASE_PUBLISHED = "PHASE_PUBLISHED"
    PHASE_STOPPED = "PHASE_STOPPED"
    NOTHING_PUBLISHED = "NOTHING_PUBLISHED"
    HALF_WAY = "HALF_WAY"
    ROLLED_BACK = "ROLLED_BACK"
    ROLLED_BACK_TOGETHER = "ROLLED_BACK_TOGETHER"
    NOT_ROLLED_BACK = "NOT_ROLLED_BACK"
    ABANDONED = "ABANDONED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOutcome:
    """The outcome of recovering one piece of work."""

    ended: RecoveryEnd
    table: str = ""  #: Of a publication that landed: the version of the table with its rows.
    version: int | None = None  #: Of a publication that landed: the version of the table with its rows.
    by_others: bool = False  #: True if another process had closed it meanwhile.
    #: Why it could not be completed, where it was rolled back instead, or nothing of it was changed.
    cause: BackfillError | None = None
    error: BackfillError | None = None  #: Why it did not end; None when it did.
    #: The publications and rollbacks that the ledger has recorded because of it, in order.
    landed: tuple[PublicationRecord, ...] = ()


def end_publication(ws: Workspace, record: PublicationRecord, *, by: str) -> RecoveryOutcome:
    """Ends a publication whose process stopped: a swap that landed is acknowledged, others cannot land."""
    version = None
    if record.changes:
        version = fence(ws.lake, record.table, record.publication_id)
        ws.reached(Point.RECOVER_FENCED)
    if version is None:
        ended = RecoveryEnd.NOT_LANDED if record.changes else RecoveryEnd.NOTHING_TO_SWAP
        log = evidence_of(ws, record.table) if record.changes else None
        closed = abandon(ws, record.publication_id, by=by, reason=f"recovered: {ended}", log=log)
        ws.reached(Point.RECOVER_CLOSED)
        return RecoveryOutcome(ended=ended, by_others=not closed)
    with ws.ledger.read() as tx:
        if tx.publications.get(record.publication_id).state is PublicationState.ROLLED_BACK:
            return RecoveryOutcome(ended=RecoveryEnd.UNDONE_SINCE, table=record.table, version=version)
        manifest = tx.runs.get(record.run_id).manifest
    acknowledged = acknowledge(ws, manifest, record, delta_version=version, by=by)
    return RecoveryOutcome(ended=RecoveryEnd.LANDED, table=record.table, version=version, landed=(acknowledged,))
