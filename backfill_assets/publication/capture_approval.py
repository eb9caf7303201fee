"""Approval of captures: reading a period of a stream needs another person where the policy of the source says so.

That history is there does not say that it may be replayed. What is approved are the positions of a capture in the
ledger, which never change; of the policy that the capture pinned and the one that is declared now the stricter counts.
"""

from __future__ import annotations

from typing import cast

from backfill_assets.core.errors import MissingInput
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.approvals import another_person
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.planning.policy import Cause, Demand, Policy, demand
from backfill_assets.publication.authority import WHO_APPROVES, Approvers, has_groups
from backfill_assets.publication.errors import MayNotApproveCapture, NoListOfApprovers
from backfill_assets.transforms.references import file_name, load_reference
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
    groups = capture_demand(source, is_live=record.is_live, pinned=record.policy).groups
    if not groups:
        return
    file = str(ws.settings.reference / file_name(WHO_APPROVES))
    try:
        approvers = cast(Approvers, load_reference(WHO_APPROVES, ws.reference_files).value)
    except MissingInput as error:
        raise NoListOfApprovers(table=source.name, groups=groups, file=file) from error
    if not has_groups(approvers, groups, person):
        raise MayNotApproveCapture(
            capture_id=record.capture_id,
            table=source.name,
            groups=groups,
            person=person,
            file=file,
            version=approvers.version,
        )
