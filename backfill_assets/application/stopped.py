"""What a stopped process left unfinished, as far as that is known for certain; `recover` ends it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from backfill_assets.ledger.states import ImportState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace

LEASES = 2
"""How many lengths of a lease a publication, a set or a rollback is left alone: these hold none themselves."""


def stopped(ws: Workspace) -> tuple[str, ...]:
    """The publications, runs, landed files, sets and rollbacks whose process lost its lease or shows no sign of life.

    A publication that is only slow is not among them before it has taken twice the length of a lease.
    """
    at = ws.clock()
    quiet_since = at - LEASES * ws.settings.lease
    with ws.ledger.read() as tx:
        publishing = tx.publications.records(states=[PublicationState.PUBLISHING])
        found = [each.intent.publication_id for each in publishing if each.started_at < quiet_since]
        found += _without_lease(tx, at)
        if publishing:
            # How far a set or a rollback is can only be determined when no publication is open.
            return tuple(found)
        found += _quiet(tx, quiet_since)
    return tuple(dict.fromkeys(found))


def _without_lease(tx: ReadTransaction, at: datetime) -> Iterator[str]:
    for run in reversed(tx.runs.headers(states=[RunState.STAGING, RunState.GATING])):
        if run.lease is None or not run.lease.is_alive(at):
            yield run.run_id
    for record in tx.imports.records(states=[ImportState.LANDING]):
        held = tx.leases.get(record.import_id)
        if held is None or not held.is_alive(at):
            yield record.import_id


def _quiet(tx: ReadTransaction, since: datetime) -> Iterator[str]:
    """Sets and rollbacks of which nothing has moved since then."""
    for order in tx.publications.rollbacks_under_way():
        begun = max(event.at for event in tx.events.entries(entity_id=order.of))
        moved = [tx.runs.header(run_id).updated_at for run_id in order.dependents]
        if max([begun, *moved]) < since:
            yield order.of
    half_way = (SetState.PUBLISHING, SetState.ROLLING_BACK)
    for record in tx.sets.records(states=half_way, unreadable=lambda _set_id, _error: None):
        moved = [tx.runs.header(member.run_id).updated_at for member in record.manifest.members]
        if max([record.updated_at, *moved]) < since:
            yield record.set_id
