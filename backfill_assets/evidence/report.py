"""Report of a run, for its reviewer and for an auditor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from backfill_assets.documents import INLINE
from backfill_assets.evidence.measured import (
    GateSummary,
    PartitionMoves,
    changed_columns,
    gate_summaries,
    partition_moves,
    total_moves,
)
from backfill_assets.evidence.publications import PublicationDocument, publication_document
from backfill_assets.evidence.releases import LaterRelease, goes_back
from backfill_assets.evidence.runs import RunSummary, run_summary
from backfill_assets.evidence.sets import SetDocument, set_document
from backfill_assets.gates.moves import Moves
from backfill_assets.ledger.approval_grounds import ApprovalGrounds
from backfill_assets.ledger.records import ChunkRecord, EventRecord, PublicationRecord, RunRecord
from backfill_assets.ledger.sampled import FailingKey, SampledRow
from backfill_assets.ledger.states import ApprovalState, ChunkState, PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.policy import Policy
from backfill_assets.versions import Versions, staged_versions
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """The policy that a manifest pins.

    Attributes:
        policy: What needs a person's approval, and whose.
        sentence: The same in words.
    """

    policy: Policy = field(metadata=INLINE)
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVersions:
    """The versions of `backfill_assets`, `pyspark` and `python` of a run; of `spark`, the server, once it is staged.

    Attributes:
        planned: Those that it was planned with; null where they were not recorded.
        staged: Those that it was staged with, or null.
    """

    planned: Versions | None
    staged: Versions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleErasure:
    """That the sampled rows of a run were erased.

    Attributes:
        by: Who erased them.
        at: When.
        reason: Why.
    """

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkDocument:
    """One chunk of a run: partitions that are computed at once.

    Attributes:
        number: Its place in the run, from 1.
        from_: Its first partition.
        to: Its last partition.
        state: How far it is.
        input_rows: How many rows it read; null while it runs.
        output_rows: How many rows it wrote, or null.
        checksum: The content checksum of what it wrote; null while it runs.
        started_at: When it began.
        finished_at: When it was done, or null.
    """

    number: int
    from_: date
    to: date
    state: ChunkState
    input_rows: int | None
    output_rows: int | None
    checksum: str | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything that the ledger knows of a run.

    Attributes:
        run: The run.
        goes_back: The later releases whose accepted rows it would replace, the latest first.
        manifest_digest: sha256 of the manifest: what an approval approves.
        policy: What the manifest pins of its table's policy; null for manifests of earlier formats.
        approved_for: Why the approver may approve; null without an approval, and where any person but the requester
            may.
        manifest: The whole contract, as it is stored.
        supersedes: The runs whose accepted rows it replaces.
        versions: What it was planned and staged with.
        totals: How its rows differ from the accepted ones, over all partitions; null before the gates.
        partitions: The same by partition; empty before the gates.
        equal_partitions: How many partitions equal the accepted rows and stay as they are; null before the gates.
        new_empty_partitions: How many have no accepted version and get no rows; null before the gates.
        changed_columns: Rows that differ, by column, the most changed column first.
        gates: The result of each gate.
        sample: Some rows that move; empty once they are erased.
        failing_keys: Keys of some rows that fail a gate; empty once they are erased.
        samples_erased: Who erased these rows; null when they were not erased.
        chunks: What was computed at once, in order.
        publications: Every publication and rollback of it, in order.
    """

    run: RunSummary = field(metadata=INLINE)
    goes_back: tuple[LaterRelease, ...]
    manifest_digest: str
    policy: PolicyDocument | None
    approved_for: ApprovalGrounds | None
    manifest: Mapping[str, Any]
    supersedes: tuple[str, ...]
    versions: RunVersions
    totals: Moves | None
    partitions: tuple[PartitionMoves, ...]
    equal_partitions: int | None
    new_empty_partitions: int | None
    changed_columns: Mapping[str, int]
    gates: tuple[GateSummary, ...]
    sample: tuple[SampledRow, ...]
    failing_keys: tuple[FailingKey, ...]
    samples_erased: SampleErasure | None
    chunks: tuple[ChunkDocument, ...]
    publications: tuple[PublicationDocument, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether a blocking gate failed."""
        return self.run.state is RunState.BLOCKED


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """A set, and the report of each of its runs.

    Attributes:
        set: The set.
        reports: In the order of publication.
    """

    set: SetDocument = field(metadata=INLINE)
    reports: tuple[RunReport, ...]


def set_report(ws: Workspace, set_id: str) -> SetReport:
    """Where a set stands, and everything that the ledger knows of its runs.

    Raises:
        UnknownName: There is no such set.
    """
    found = set_document(ws, set_id)
    return SetReport(set=found, reports=tuple(run_report(ws, member.run.run_id) for member in found.runs))


def run_report(ws: Workspace, run_id: str) -> RunReport:
    """Everything that the ledger knows of a run.

    Raises:
        UnknownName: There is no such run.
    """
    with ws.ledger.read() as tx:
        return _report(ws, tx, tx.runs.get(run_id))


def _report(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> RunReport:
    results = tx.candidates.gate_results(run.run_id)
    publications = tx.publications.records(run_id=run.run_id)
    events = tuple(tx.events.entries(entity_id=run.run_id))
    erased = tx.samples.erased(run.run_id)
    partitions = partition_moves(results, tx.candidates.of_run(run.run_id))
    return RunReport(
        run=_summary(run_summary(ws, tx, run), publications),
        goes_back=goes_back(tx, run.manifest),
        manifest_digest=run.manifest_digest,
        policy=policy_document(run.manifest.policy),
        approved_for=_grounds(events) if run.approval is ApprovalState.APPROVED else None,
        manifest=run.manifest.document,
        supersedes=run.manifest.supersedes,
        versions=run_versions(run, events),
        totals=total_moves(partitions),
        partitions=partitions,
        equal_partitions=sum(part.equal for part in partitions) if partitions else None,
        new_empty_partitions=sum(part.new_empty for part in partitions) if partitions else None,
        changed_columns=changed_columns(results),
        gates=gate_summaries(run.manifest, results),
        sample=tx.samples.changed_rows(run.run_id),
        failing_keys=tx.samples.failing_keys(run.run_id),
        samples_erased=_erasure(erased) if erased else None,
        chunks=tuple(_chunk_document(chunk) for chunk in tx.candidates.chunks(run.run_id)),
        publications=tuple(publication_document(record) for record in publications),
    )


def _summary(summary: RunSummary, publications: Sequence[PublicationRecord]) -> RunSummary:
    """The run, with nothing to undo where its publication found everything equal."""
    standing = [p.intent for p in publications if p.state is PublicationState.PUBLISHED]
    changed_nothing = standing and not any(intent.changes for intent in standing)
    return replace(summary, next_step=None) if changed_nothing and summary.set_id is None else summary


def run_versions(run: RunRecord, events: Iterable[EventRecord]) -> RunVersions:
    """What a run was planned and staged with."""
    staged = staged_versions(event.payload for event in events)
    return RunVersions(planned=run.manifest.versions or None, staged=staged)


def policy_document(policy: Policy | None) -> PolicyDocument | None:
    """The policy that a manifest pinned; None for manifests that pinned none."""
    return None if policy is None else PolicyDocument(policy=policy, sentence=policy.sentence)


def _chunk_document(chunk: ChunkRecord) -> ChunkDocument:
    return ChunkDocument(
        number=chunk.number,
        from_=chunk.partitions[0],
        to=chunk.partitions[-1],
        state=chunk.state,
        input_rows=chunk.input_rows,
        output_rows=chunk.output_rows,
        checksum=chunk.checksum or None,
        started_at=chunk.started_at,
        finished_at=chunk.finished_at,
    )


def _grounds(events: Iterable[EventRecord]) -> ApprovalGrounds | None:
    """Why the last approver may approve; None where any person but the requester may."""
    approved = [event.payload for event in events if event.entity == "approval" and event.action == "approved"]
    return ApprovalGrounds.parse(approved[-1]) if approved else None


def _erasure(event: EventRecord) -> SampleErasure:
    return SampleErasure(by=event.actor, at=event.at, reason=event.payload["reason"])
