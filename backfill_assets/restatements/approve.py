"""Approval of a set by a person who may approve each of its runs, with the grounds."""

from __future__ import annotations

from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import VISIBLE
from backfill_assets.publication.approve import renewed_grounds
from backfill_assets.workspace import Workspace


def approve_set(ws: Workspace, set_id: str, *, by: str, note: str, place: str = "") -> SetRecord:
    """Records that a person who may approve every run of a set approves exactly this set.

    Raises:
        UnknownName: No such set.
        NotApproved: The person may not approve one of its runs.
        IllegalTransition: One of its runs is published already, or can never be.
    """
    with ws.ledger.write() as tx:
        members = members_of(tx.runs, tx.sets.get(set_id))
        grounds = {run.run_id: renewed_grounds(ws, tx, run, by) for run in members if run.state not in VISIBLE}
        tx.sets.approve(set_id, by=by, note=note, place=place, grounds=grounds)
        return tx.sets.get(set_id)
