"""How far is a restatement set, and at which versions can its tables be read as one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill_assets.evidence.report import run_summary
from backfill_assets.ledger.read_sets import Landing
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.states import MEANING, ApprovalState, RunState, SetState
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.planning.manifest import NEVER_PUBLISHED
from backfill_assets.publication.sets import members_of, versions_of
from backfill_assets.workspace import Workspace


def set_document(ws: Workspace, set_id: str) -> Mapping[str, Any]:
    """A set as plain values; the fields are documented in docs/cli.md.

    Raises:
        UnknownName: There is no such set.
    """
    with ws.ledger.read() as reader:
        return described_set(reader, reader.restatement_set(set_id))


def described_set(reader: LedgerReader, record: SetRecord) -> Mapping[str, Any]:
    """A set as plain values, inside an open transaction."""
    members = members_of(reader, record)
    landed = reader.landed(member.run_id for member in members)
    approved = [member.approved_by for member in members if member.approval is ApprovalState.APPROVED]
    return {
        "set_id": record.set_id,
        "name": record.manifest.name,
        "state": str(record.state),
        "meaning": MEANING[record.state],
        "note": record.note,
        "because": record.manifest.because,
        "reason": record.manifest.reason,
        "requested_by": record.manifest.requested_by,
        "requested_at": record.manifest.requested_at.isoformat(),
        "approved_by": approved[0] if len(approved) == len(members) else None,
        "manifest_digest": record.digest,
        "progress": _progress(members),
        "versions": dict(versions_of(reader, record)),
        "runs": [{**run_summary(member), **_moved(landed.get(member.run_id))} for member in members],
        "next_step": _next_step(record, members),
    }


def _progress(members: Sequence[RunRecord]) -> str:
    staged = sum(m.state not in (RunState.PLANNED, RunState.STAGING, RunState.FAILED) for m in members)
    passed = sum(m.state in (RunState.PASSED, RunState.PUBLISHING, RunState.PUBLISHED) for m in members)
    published = sum(m.state is RunState.PUBLISHED for m in members)
    return f"of {len(members)} runs {staged} are staged, {passed} have passed, {published} are published"


def _moved(landing: Landing | None) -> Mapping[str, int | None]:
    """How many partitions a run's publication swapped and how many it found equal; null before it."""
    return {
        "changed_partitions": None if landing is None else landing.changed,
        "verified_partitions": None if landing is None else landing.verified,
    }


def _next_step(record: SetRecord, members: Sequence[RunRecord]) -> str | None:
    """The command that moves a set on; None when nothing is left to do."""
    set_id = record.set_id
    match record.state:
        case SetState.CANCELLED:
            return None
        case SetState.PUBLISHED:
            return f"to undo it: backfill rollback {set_id} --by WHO --reason WHY"
        case SetState.PUBLISHING | SetState.ROLLING_BACK:
            return "wait for it; if its process is gone: backfill recover"
        case _:
            pass
    blocked = [member for member in members if member.state is RunState.BLOCKED]
    if blocked:
        return f"backfill report {blocked[0].run_id}; then mend the cause and plan again"
    if any(member.state not in (RunState.PASSED, RunState.PUBLISHED, RunState.ROLLED_BACK) for member in members):
        return f"backfill run {set_id}"
    if all(member.manifest.mode in NEVER_PUBLISHED for member in members):
        return None
    if any(member.approval is ApprovalState.DRAFT for member in members):
        return f"backfill approve {set_id} --by ANOTHER_PERSON"
    return f"backfill publish {set_id} --by WHO"
