"""How far is a restatement set, and at which versions can its tables be read as one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill_assets.evidence.next_step import next_step_of_set, outdated_partitions
from backfill_assets.evidence.report import run_summary
from backfill_assets.ledger.members import members_of, versions_of
from backfill_assets.ledger.read_publications import Landing
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.states import MEANING, ApprovalState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import describe
from backfill_assets.workspace import Workspace


def set_document(ws: Workspace, set_id: str) -> Mapping[str, Any]:
    """A set as plain values; the fields are documented in docs/cli.md.

    Raises:
        UnknownName: There is no such set.
    """
    with ws.ledger.read() as tx:
        return described_set(ws, tx, tx.sets.get(set_id))


def described_set(ws: Workspace, tx: ReadTransaction, record: SetRecord) -> Mapping[str, Any]:
    """A set as plain values, inside an open transaction."""
    members = members_of(tx.runs, record)
    landed = tx.publications.landed(member.run_id for member in members)
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
        "versions": dict(versions_of(tx.publications, record)),
        "runs": [
            {
                **run_summary(ws, tx, member),
                **_moved(landed.get(member.run_id)),
                "outdated_described": _outdated(ws, tx, member),
            }
            for member in members
        ],
        "next_step": next_step_of_set(ws, tx, record, members),
    }


def _progress(members: Sequence[RunRecord]) -> str:
    staged = sum(m.state not in (RunState.PLANNED, RunState.STAGING, RunState.FAILED) for m in members)
    passed = sum(m.state in (RunState.PASSED, RunState.PUBLISHING, RunState.PUBLISHED) for m in members)
    published = sum(m.state is RunState.PUBLISHED for m in members)
    return f"of {len(members)} runs {staged} are staged, {passed} have passed, {published} are published"


def _outdated(ws: Workspace, tx: ReadTransaction, member: RunRecord) -> str | None:
    """What of a run has to be staged again, because what it read of the set was; null when nothing has to."""
    found = outdated_partitions(ws, tx, member)
    return describe(member.manifest.grain, found) if found else None


def _moved(landing: Landing | None) -> Mapping[str, int | None]:
    """How many partitions a run's publication swapped and how many it found equal; null before it."""
    return {
        "changed_partitions": None if landing is None else landing.changed,
        "verified_partitions": None if landing is None else landing.verified,
    }
