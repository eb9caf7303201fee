"""What was under way when a process died, and how does it end?

For every publication that the ledger calls PUBLISHING the table's log is asked whether it landed. If it did, the
ledger is told. If it did not, it is fenced off, so that it cannot land later, and closed with nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from backfill_assets.crash_points import Point
from backfill_assets.errors import HalfWay, IllegalTransition, OutcomeUnknown, Refused, Retryable
from backfill_assets.lake.swap import fence
from backfill_assets.landing.land import clean_up_landing
from backfill_assets.ledger.records import PublicationRecord, RollbackOrder
from backfill_assets.ledger.states import ImportState, PublicationState, RunState, SetState
from backfill_assets.publication.publish import acknowledge, close
from backfill_assets.publication.sets import recover_set
from backfill_assets.publication.undo import carry_out_order
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One thing that was under way and how it ended."""

    what: str
    id: str
    outcome: str

    def document(self) -> Mapping[str, Any]:
        """The recovery as plain values."""
        return {"what": self.what, "id": self.id, "outcome": self.outcome}


def recover(ws: Workspace, *, by: str) -> tuple[Recovered, ...]:
    """Ends everything that a dead process left half done: publications, runs, landings.

    Safe to call at any time and again. A process that is still alive loses its turn: its next step is refused by the
    ledger or by the table, and nothing of it becomes visible.
    """
    with ws.ledger.read() as reader:
        under_way = reader.publications(states=[PublicationState.PUBLISHING])
        computing = reader.runs(states=[RunState.STAGING, RunState.GATING])
        landing = reader.imports(states=[ImportState.LANDING])
        orders = reader.rollbacks_under_way()
    found = [
        _ended("publication", record.intent.publication_id, partial(_publication, ws, record, by=by))
        for record in under_way
    ]
    for run in computing:
        found.append(_computation(ws, run.run_id, run.state, by=by))
    # After the publications: how far a set or a rollback is can only be said when none of them is open.
    found += [_ended("rollback", order.of, partial(_rollback, ws, order)) for order in orders]
    with ws.ledger.read() as reader:
        sets = reader.restatement_sets(states=[SetState.PUBLISHING, SetState.ROLLING_BACK])
    found += [_ended("set", each.set_id, partial(recover_set, ws, each, by=by)) for each in sets]
    if landing:
        failed = clean_up_landing(ws.ledger, ws.settings, ws.domain.sources, by=by, reached=ws.reached)
        found += [
            Recovered(what="landing", id=record.import_id, outcome="given up; land the file again") for record in failed
        ]
    return tuple(found)


def _ended(what: str, name: str, end: Callable[[], str]) -> Recovered:
    """One thing that was under way; that it cannot be ended now must not keep the others from being ended."""
    try:
        return Recovered(what=what, id=name, outcome=end())
    except (Retryable, OutcomeUnknown) as error:
        return Recovered(what=what, id=name, outcome=f"could not be ended: {error.message} Next: backfill recover")


def _publication(ws: Workspace, record: PublicationRecord, *, by: str) -> str:
    intent = record.intent
    version = fence(ws.lake, intent.table, intent.publication_id)
    ws.reached(Point.RECOVER_FENCED)
    if version is None:
        closed = close(ws, intent.publication_id, by=by, reason="recovered: the swap had not landed")
        ws.reached(Point.RECOVER_CLOSED)
        return f"had not landed; {'closed' if closed else 'was closed meanwhile'}, nothing has changed"
    with ws.ledger.read() as reader:
        if reader.publication(intent.publication_id).state is PublicationState.ROLLED_BACK:
            return f"had landed as version {version} of {intent.table}, and has been rolled back meanwhile"
        manifest = reader.run(intent.run_id).manifest
    acknowledge(ws, manifest, intent, delta_version=version, by=by)
    return f"had landed as version {version} of {intent.table}; the ledger knows now"


def _rollback(ws: Workspace, order: RollbackOrder) -> str:
    try:
        carry_out_order(ws, order)
    except (Refused, HalfWay) as error:
        return f"could not be completed, and is given up: {error.message} Next: {error.next_step}"
    return "was half-way; now it is rolled back with its dependents"


def _computation(ws: Workspace, run_id: str, state: RunState, *, by: str) -> Recovered:
    note = f"recovered: its process stopped while it was {state}"
    try:
        with ws.ledger.write() as writer:
            writer.move_run(run_id, RunState.FAILED, actor=by, note=note)
    except IllegalTransition:
        # It went on while we looked; then it was not dead.
        return Recovered(what="run", id=run_id, outcome="is still under way")
    ws.reached(Point.RECOVER_CLOSED)
    return Recovered(what="run", id=run_id, outcome=f"stopped while {state}; run it again: backfill run {run_id}")
