"""Approval of what besides runs and sets is asked for: acts on versions of a table, captures where the policy of the
source says so, and replays to live topics.

That history is there does not say that it may be replayed. What is approved are the tables of an act, the positions of
a capture, or the inputs and the topic of a replay, in the ledger, which never change; of the policy that they pinned
and the one that is declared now the stricter counts.
"""

from __future__ import annotations

from typing import TypeAlias

from backfill_assets.ledger.approvals import another_person
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import AskedKind
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.policy import Demand, demand
from backfill_assets.publication.authority import require_member
from backfill_assets.publication.errors import MayNotApproveAsked
from backfill_assets.workspace import Workspace

AskedRecord: TypeAlias = ActRecord | CaptureRecord | ReplayRecord


def asked(tx: ReadTransaction, name: str) -> AskedRecord:
    """The act, capture or replay that has an id.

    Raises:
        UnknownName: There is none.
    """
    match AskedKind.of_id(name):
        case AskedKind.ACT:
            return tx.acts.get(name)
        case AskedKind.CAPTURE:
            return tx.captures.get(name)
        case _:
            return tx.replays.get(name)


def asked_demand(ws: Workspace, record: AskedRecord) -> Demand:
    """The approval that an act, a capture of history or a replay requires now."""
    return demand("backfill", counting=(record.policy, ws.domain.table(_table_of(record)).policy))


def approve_asked(ws: Workspace, name: str, *, by: str, note: str) -> None:
    """Records that an authorized person agrees to exactly what was asked for.

    Raises:
        UnknownName: There is none of this id.
        NotApproved: The person is the requester, no person, or not in a group that the policy names.
        IllegalTransition: It is approved already, needs no approval, or has ended.
    """
    with ws.ledger.write() as tx:
        require_may_approve(ws, asked(tx, name), by)
        tx.approvals.approve_asked(name, by=by, note=note)


def require_may_approve(ws: Workspace, record: AskedRecord, person: str) -> None:
    """Refuses a person who may not approve what was asked for.

    Raises:
        NotApproved: It is the requester, no person, or no member of the groups that the policies name.
    """
    match record:
        case ActRecord():
            kind, name = "act", record.act_id
        case CaptureRecord():
            kind, name = "capture", record.capture_id
        case ReplayRecord():
            kind, name = "replay", record.replay_id
    another_person(person, record.by, kind=kind, name=name)
    if groups := asked_demand(ws, record).groups:
        require_member(ws, {"kind": kind, "name": name}, _table_of(record), groups, person, MayNotApproveAsked)


def _table_of(record: AskedRecord) -> str:
    """The table whose policy counts."""
    match record:
        case ActRecord():
            return record.name
        case CaptureRecord():
            return record.source
        case ReplayRecord():
            return record.table
