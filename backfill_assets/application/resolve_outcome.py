"""Unknown outcomes: resolves the outcome of a publication or rollback before it is retried, as `recover` does.

The log of the table says whether a swap landed. One that has not landed is fenced off, and the act decides again what
is allowed: nothing is published or undone here. A publication whose process may still be at work is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from backfill_assets.application.recorder import Acting
from backfill_assets.application.sensor_work import LEASES
from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger.records import Action, PublicationRecord, RollbackOrder
from backfill_assets.ledger.states import PublicationState
from backfill_assets.requests.errors import StillUnknown
from backfill_assets.requests.recover import end_publication
from backfill_assets.workspace import Workspace


def resolve_outcomes(ws: Workspace, run_ids: Iterable[str], acting: Acting) -> Sequence[PublicationRecord]:
    """Finds out how publications and rollbacks of runs ended whose process did not learn it.

    Returns:
        Those that turned out to have landed; the ledger has recorded them now.
    """
    chosen = frozenset(run_ids)
    return _resolved(ws, [record for record in _open(ws) if record.run_id in chosen], acting)


def resolve_outcomes_at(ws: Workspace, table: str, acting: Acting) -> None:
    """Resolves the outcomes of whatever was published to a table, before more is published to it."""
    _resolved(ws, [record for record in _open(ws) if record.table == table], acting)


def rollback_under_way(ws: Workspace, name: str) -> RollbackOrder | None:
    """The rollback with dependents of a run or a set that was begun and has not ended."""
    with ws.ledger.read() as tx:
        return next((order for order in tx.publications.rollbacks_under_way() if order.of == name), None)


def undone(landed: Iterable[PublicationRecord]) -> Sequence[PublicationRecord]:
    """The rollbacks among what has landed."""
    return [record for record in landed if record.action is Action.ROLLBACK]


def _open(ws: Workspace) -> Sequence[PublicationRecord]:
    """Open publications whose process is known to have ended, or gave no sign of life for long."""
    with ws.ledger.read() as tx:
        quiet_since = tx.now - LEASES * ws.settings.lease
        records = tx.publications.records(states=[PublicationState.PUBLISHING])
        unknown = tx.publications.is_unknown
        return [r for r in records if r.started_at < quiet_since or unknown(r.publication_id)]


def _resolved(ws: Workspace, records: Iterable[PublicationRecord], acting: Acting) -> Sequence[PublicationRecord]:
    found = list(_ended(ws, records, by=acting.by))
    for record in found:
        acting.recorder.landed(ws, record)
    return found


def _ended(ws: Workspace, records: Iterable[PublicationRecord], *, by: str) -> Iterator[PublicationRecord]:
    for record in records:
        try:
            yield from end_publication(ws, record, by=by).landed
        except BackfillError as error:
            publication_id, table = record.publication_id, record.table
            raise StillUnknown(publication_id=publication_id, table=table, cause=error) from error
