"""Approval of captures, where the policy of the source says so, and of replays to live topics.

That history is there does not say that it may be replayed. What is approved are the positions of a capture, or the
inputs and the topic of a replay, in the ledger, which never change; of the policy that they pinned and the one that is
declared now the stricter counts.
"""

from __future__ import annotations

from backfill_assets.domain import SourceTable
from backfill_assets.ledger.approvals import another_person
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.planning.policy import Cause, Demand, Policy, demand
from backfill_assets.publication.authority import require_member
from backfill_assets.publication.errors import MayNotApproveMove
from backfill_assets.workspace import Workspace


def capture_demand(source: SourceTable, *, is_live: bool, pinned: Policy | None = None) -> Demand:
    """The approval that a capture requires.

    Args:
        source: The source.
        is_live: Whether it takes what is new.
        pinned: The policy at the time at which it was asked for.
    """
    cause: Cause = "live" if is_live else "backfill"
    return demand(cause, counting=(source.policy, *((pinned,) if pinned else ())))


def approve_capture(ws: Workspace, capture_id: str, *, by: str, note: str) -> CaptureRecord:
    """Records that an authorized person agrees to exactly the positions of a capture.

    Raises:
        UnknownName: No such capture.
        NotApproved: The person is the requester, no person, or not in a group that the policy names.
        IllegalTransition: It is approved already, or needs no approval.
    """
    with ws.ledger.write() as tx:
        record = tx.captures.get(capture_id)
        require_may_approve(ws, record, by)
        tx.captures.approve(capture_id, by=by, note=note)
        return tx.captures.get(capture_id)


def approve_replay(ws: Workspace, replay_id: str, *, by: str, note: str) -> ReplayRecord:
    """Records that an authorized person agrees that exactly these inputs are sent to a live topic.

    Raises:
        UnknownName: No such replay.
        NotApproved: The person is the requester, no person, or not in a group that the policy names.
        IllegalTransition: It is approved already, or needs no approval.
    """
    with ws.ledger.write() as tx:
        record = tx.replays.get(replay_id)
        require_may_approve(ws, record, by)
        tx.replays.approve(replay_id, by=by, note=note)
        return tx.replays.get(replay_id)


def require_may_approve(ws: Workspace, record: CaptureRecord | ReplayRecord, person: str) -> None:
    """Refuses a person who may not approve a capture or a replay.

    Raises:
        NotApproved: It is the requester, no person, or no member of the groups that the policies name.
    """
    match record:
        case CaptureRecord():
            kind, name, table = "capture", record.capture_id, record.source
            source = ws.domain.source_table(table)
            groups = capture_demand(source, is_live=record.is_live, pinned=record.policy).groups
        case ReplayRecord():
            kind, name, table = "replay", record.replay_id, record.table
            groups = demand("backfill", counting=(ws.domain.table(table).policy, record.policy)).groups
    another_person(person, record.by, kind=kind, name=name)
    if groups:
        require_member(ws, {f"{kind}_id": name}, table, groups, person, MayNotApproveMove)
