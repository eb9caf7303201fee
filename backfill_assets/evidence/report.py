"""What does a reviewer read before agreeing to a run, and an auditor afterwards?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.errors import Interrupted
from backfill_assets.evidence.next_step import next_step
from backfill_assets.evidence.releases import goes_back
from backfill_assets.lease import Lease
from backfill_assets.ledger.records import (
    CandidatePartition,
    ChunkRecord,
    EventRecord,
    GateResult,
    PublicationRecord,
    RunRecord,
    SampleKind,
)
from backfill_assets.ledger.states import MEANING, ApprovalState, PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.planning.policy import Policy
from backfill_assets.versions import staged_versions
from backfill_assets.workspace import Workspace

MOVES = ("rows", "accepted_rows", "added", "removed", "changed", "unchanged")
COMPARISON = "compared_with_accepted"


def run_report(ws: Workspace, run_id: str) -> Mapping[str, Any]:
    """Everything the ledger knows of a run, as plain values; the fields are documented in docs/cli.md.

    Raises:
        UnknownName: There is no such run.
    """
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        candidates = tx.candidates.of_run(run_id)
        results = tx.candidates.gate_results(run_id)
        chunks = tx.candidates.chunks(run_id)
        publications = tx.publications.records(run_id=run_id)
        events = tuple(tx.events.entries(entity_id=run_id))
        sample = tx.samples.of_run(run_id, SampleKind.CHANGED_ROWS)
        failing_keys = tx.samples.of_run(run_id, SampleKind.FAILING_KEYS)
        erased = tx.samples.erased(run_id)
        back = goes_back(tx, run.manifest)
        summary = run_summary(ws, tx, run)
    partitions = moves(results, candidates)
    approved_for = _grounds(events) if run.approval is ApprovalState.APPROVED else None
    standing = [p.intent for p in publications if p.state is PublicationState.PUBLISHED]
    if standing and not any(intent.changes for intent in standing) and not run.manifest.member_of:
        # Everything was found equal: there is nothing to undo.
        summary = {**summary, "next_step": None}
    return {
        **summary,
        "goes_back": back,
        "manifest_digest": run.manifest_digest,
        "policy": policy_document(run.manifest.policy),
        "approved_for": approved_for,
        "manifest": run.manifest.document,
        "supersedes": list(run.manifest.supersedes),
        "versions": run_versions(run, events),
        "totals": {name: sum(p[name] for p in partitions) for name in MOVES} if partitions else None,
        "partitions": partitions,
        "equal_partitions": sum(p["equal"] for p in partitions) if partitions else None,
        "new_empty_partitions": sum(p["new_empty"] for p in partitions) if partitions else None,
        "changed_columns": changed_columns(results),
        "gates": gate_summaries(run, results),
        "sample": list(sample),
        "failing_keys": list(failing_keys),
        "samples_erased": _erasure(erased) if erased else None,
        "chunks": [_chunk_document(chunk) for chunk in chunks],
        "publications": [publication_document(record) for record in publications],
    }


def run_document(ws: Workspace, run_id: str) -> Mapping[str, Any]:
    """A run in one line of plain values; the fields are documented in docs/cli.md.

    Raises:
        UnknownName: There is no such run.
    """
    with ws.ledger.read() as tx:
        return run_summary(ws, tx, tx.runs.get(run_id))


def run_summary(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Mapping[str, Any]:
    """The same, inside an open transaction."""
    manifest = run.manifest
    return {
        "run_id": run.run_id,
        "table": manifest.table,
        "kind": str(manifest.kind),
        "mode": str(manifest.mode),
        "set_id": manifest.member_of,
        "state": str(run.state),
        "meaning": MEANING[run.state],
        "approval": str(run.approval),
        "approved_by": run.approved_by,
        "approved_at": run.approved_at.isoformat() if run.approved_at else None,
        "requested_by": manifest.requested_by,
        "requested_at": manifest.requested_at.isoformat(),
        "reason": manifest.reason,
        "transform": manifest.transform,
        "transform_version": manifest.transform_version,
        "partitions_described": describe(manifest.grain, manifest.partitions),
        "partition_count": len(manifest.partitions),
        "updated_at": run.updated_at.isoformat(),
        "note": run.note,
        "at_work": None if run.lease is None else _lease_document(run.lease),
        "next_step": next_step(ws, tx, run),
    }


def run_versions(run: RunRecord, events: Iterable[EventRecord]) -> Mapping[str, Any]:
    """What a run was planned and staged with; null where that was not recorded."""
    staged = staged_versions(event.payload for event in events)
    return {"planned": dict(run.manifest.versions) or None, "staged": staged}


def _lease_document(lease: Lease) -> Mapping[str, Any]:
    """Who is at work on a run, or was when it stopped."""
    return {
        "holder": lease.holder,
        "machine": lease.machine,
        "since": lease.since_at.isoformat(),
        "until": lease.until_at.isoformat(),
    }


def interrupted(ws: Workspace, run_id: str) -> Interrupted:
    """What somebody reads who stopped a command: staging and gating give their lease back, a swap may have landed."""
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        following = next_step(ws, tx, run)
    is_left = run.state is RunState.PUBLISHING or run.lease is not None
    take_over = " --now --by NAME" if run.lease is not None else ""
    return Interrupted(
        f"interrupted; run {run.run_id} is {run.state} ({MEANING[run.state]}).",
        next_step=f"backfill recover {run.run_id}{take_over}" if is_left else following,
        run_id=run.run_id,
    )


def moves(results: Iterable[GateResult], candidates: Mapping[date, CandidatePartition]) -> Sequence[Mapping[str, Any]]:
    """Per partition, how the candidate differs from the accepted rows it was compared with."""
    return [
        {
            "partition": result.partition.isoformat(),
            **{name: int(result.observed.get(name, 0)) for name in MOVES},
            "checksum": candidates[result.partition].checksum,
            "equal": _is_equal(candidates[result.partition]),
            "new_empty": _is_new_and_empty(candidates[result.partition]),
        }
        for result in results
        if result.gate == COMPARISON and result.partition in candidates
    ]


def _is_equal(candidate: CandidatePartition) -> bool:
    """Whether a partition has an accepted version whose files hold exactly the candidate's rows."""
    return bool(candidate.compared_version) and candidate.checksum == candidate.compared_checksum


def _is_new_and_empty(candidate: CandidatePartition) -> bool:
    """Whether a partition has no accepted version and gets no rows: it is recorded, and nothing changes for readers."""
    return candidate.compared_version == 0 and not candidate.rows


def changed_columns(results: Iterable[GateResult]) -> Mapping[str, int]:
    """Over all partitions, how many keys have another value per column; the most changed first."""
    total: dict[str, int] = {}
    for result in results:
        for name, count in result.observed.get("changed_columns", {}).items():
            total[name] = total.get(name, 0) + int(count)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def gate_summaries(run: RunRecord, results: Sequence[GateResult]) -> Sequence[Mapping[str, Any]]:
    """Per gate of the manifest, in how many partitions it passed, and the first failure in words."""
    manifest = run.manifest
    by_gate: dict[str, list[GateResult]] = {}
    for result in results:
        by_gate.setdefault(result.gate, []).append(result)
    found = []
    for term in manifest.gates:
        own = by_gate.get(term.name, [])
        failed = [result for result in own if not result.passed]
        found.append(
            {
                "gate": term.name,
                "demands": term.demands,
                "blocking": term.blocking,
                "passed_partitions": len(own) - len(failed),
                "failed_partitions": len(failed),
                "outcome": _outcome(manifest.grain, len(failed), len(own)),
                "failed_in": describe(manifest.grain, (r.partition for r in failed)) if failed else None,
                "first_failure": f"{failed[0].partition}: {failed[0].verdict}" if failed else None,
            }
        )
    return found


def _outcome(grain: Grain, failed: int, measured: int) -> str:
    """How many partitions passed or failed, in words that cannot be read the other way round."""
    every = count_of(measured, grain.noun)
    if not measured:
        return "not measured yet"
    return f"{failed:,} of {every} failed" if failed else f"{every} passed"


def publication_document(record: PublicationRecord) -> Mapping[str, Any]:
    """One swap as plain values."""
    intent = record.intent
    named = intent.partitions
    empty = sum(1 for change in intent.changes if not change.expected.files and not change.new.files)
    return {
        "publication_id": intent.publication_id,
        "run_id": intent.run_id,
        "action": str(intent.action),
        "undoes": intent.undoes,
        "table": intent.table,
        "state": str(record.state),
        "by": intent.by,
        "reason": intent.reason,
        "partition_count": len(intent.changes) - empty,
        "new_empty_count": empty,
        "verified_count": len(intent.verified),
        "from": named[0].isoformat() if named else None,
        "to": named[-1].isoformat() if named else None,
        "rows": sum(change.rows for change in intent.changes),
        "started_at": record.started_at.isoformat(),
        "finished_at": record.finished_at.isoformat() if record.finished_at else None,
        "delta_version": record.delta_version,
        "note": record.note,
    }


def _chunk_document(chunk: ChunkRecord) -> Mapping[str, Any]:
    return {
        "number": chunk.number,
        "from": chunk.partitions[0].isoformat(),
        "to": chunk.partitions[-1].isoformat(),
        "state": str(chunk.state),
        "input_rows": chunk.input_rows,
        "output_rows": chunk.output_rows,
        "checksum": chunk.checksum or None,
        "started_at": chunk.started_at.isoformat(),
        "finished_at": chunk.finished_at.isoformat() if chunk.finished_at else None,
    }


def policy_document(policy: Policy | None) -> Mapping[str, Any] | None:
    """The policy that a manifest pinned as plain values; null for manifests that pinned none."""
    return None if policy is None else {**policy.document, "sentence": policy.sentence}


def _grounds(events: Iterable[EventRecord]) -> Mapping[str, Any] | None:
    """Why the last approver may approve; null where anybody but the requester may."""
    approved = [event.payload for event in events if event.entity == "approval" and event.action == "approved"]
    if not approved or "groups" not in approved[-1]:
        return None
    return {name: approved[-1][name] for name in ("groups", "approvers_version", "approvers_sha256")}


def _erasure(event: EventRecord) -> Mapping[str, Any]:
    return {"by": event.actor, "at": event.at.isoformat(), "reason": event.payload["reason"]}
