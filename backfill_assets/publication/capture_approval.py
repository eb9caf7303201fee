"""Approval of captures: reading a period of a stream needs another person where the policy of the source says so.

That history is there does not say that it may be replayed. What is approved are the positions of a capture in the
ledger, which never change; of the policy that the capture pinned and the one that is declared now the stricter counts.
"""

from __future__ import annotations

from backfill_assets.domain import SourceTable
from backfill_assets.ledger.approvals import another_person
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.planning.policy import Cause, Demand, Policy, demand
from backfill_assets.publication.authority import require_member
from backfill_assets.publication.errors import MayNotApproveCapture
from backfill_assets.workspace import Workspace


def capture_demand(source: SourceTable, *, is_live: bool, pinned: Policy | None = None) -> Demand:
    """The approval that a capture requires."""
    cause: Cause = "live" if is_live else "backfill"
    return demand(cause, counting=(source.policy, *((pinned,) if pinned else ())))


def approve_capture(ws: Workspace, capture_id: str, *, by: str, note: str) -> CaptureRecord:
    """Records that an authorized person agrees to exactly the positions of a capture."""
    with ws.ledger.write() as tx:
        record = tx.captures.get(capture_id)
        require_may_approve(ws, record, by)
        tx.captures.approve(capture_id, by=by, note=note)
        return tx.captures.get(capture_id)


def require_may_approve(ws: Workspace, record: CaptureRecord, person: str) -> None:
    """Refuses a person who may not approve a capture.

    Raises:
        NotApproved: It is the requester, no person, or nobody of the groups that the policies name.
    """
    another_person(person, record.by, kind="capture", name=record.capture_id)
    source = ws.domain.source_table(record.source)
    if groups := capture_demand(source, is_live=record.is_live, pinned=record.policy).groups:
        capture = {"capture_id": record.capture_id}
        require_member(ws, capture, source.name, groups, person, MayNotApproveCapture)
