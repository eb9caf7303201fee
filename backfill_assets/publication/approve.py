"""Approval of a run by a person who is authorized to give it, with the grounds."""

from __future__ import annotations

from backfill_assets.ledger.records import ApprovalGrounds, RunRecord
from backfill_assets.ledger.states import VISIBLE, ApprovalState
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.publication.authority import demand_of, grounds_of, has_valid_approval
from backfill_assets.workspace import Workspace


def approve_run(ws: Workspace, run_id: str, *, by: str, note: str, place: str = "") -> RunRecord:
    """Records that an authorized person approves exactly this manifest.

    Raises:
        UnknownName: No such run.
        NotApproved: The person is the requester, no person, or not in a group that the policy names.
        IllegalTransition: It is approved or published already, or belongs to a set, which is approved as a whole.
    """
    with ws.ledger.write() as tx:
        run = tx.runs.get(run_id)
        grounds = None if run.manifest.member_of else renewed_grounds(ws, tx, run, by)
        tx.approvals.approve(run_id, by=by, note=note, place=place, grounds=grounds)
        return tx.runs.get(run_id)


def renewed_grounds(ws: Workspace, tx: WriteTransaction, run: RunRecord, by: str) -> ApprovalGrounds | None:
    """Why the person may approve the run; one that is not valid any more is withdrawn to make room for theirs."""
    asked = demand_of(ws, tx, run)
    found = grounds_of(ws, run, asked, by)
    is_void = run.approval is ApprovalState.APPROVED and not has_valid_approval(ws, run, asked)
    if is_void and run.state not in VISIBLE:
        tx.approvals.withdraw(run.run_id, by=by, reason=f"the approval by {run.approved_by} is not valid any more")
    return found
