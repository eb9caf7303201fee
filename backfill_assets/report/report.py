"""Report of a run, for its reviewer and for an auditor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from backfill_assets.core.errors import Refused
from backfill_assets.core.versions import Versions, staged_versions
from backfill_assets.gates.moves import Moves
from backfill_assets.ledger.records import (
    ApprovalGrounds,
    BreakdownCell,
    ChunkRecord,
    EventRecord,
    FailingKey,
    GateResult,
    PublicationRecord,
    RunRecord,
    SampledRow,
)
from backfill_assets.ledger.states import ApprovalState, ChunkState, PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED
from backfill_assets.planning.policy import Policy
from backfill_assets.planning.stages import Stage, stages_of
from backfill_assets.publication.authority import demand_of, open_comments
from backfill_assets.report.breakdown import BreakdownDocument, breakdown_document
from backfill_assets.report.cost import CostDocument, bytes_read, cost_of
from backfill_assets.report.documents import INLINE
from backfill_assets.report.measured import (
    GateSummary,
    MovesOfSome,
    PartitionMoves,
    StateMove,
    changed_columns,
    gate_summaries,
    moves_of_some,
    partition_moves,
    state_moves,
    total_moves,
)
from backfill_assets.report.publications import PublicationDocument, publication_document
from backfill_assets.report.reach import DependentMoves, breakdown_of, dependent_moves
from backfill_assets.report.releases import (
    LaterRelease,
    LeftBehind,
    in_order,
    inputs_moved_on,
    later_than,
    left_behind,
    replaced_releases,
)
from backfill_assets.report.review import Review, Reviewed, review_of
from backfill_assets.report.run_history import Moment, timeline
from backfill_assets.report.runs import RunSummary, run_summary
from backfill_assets.report.words.stages import policy_words
from backfill_assets.report.words.verdicts import said_of
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
        planned: Those that it was planned with.
        staged: Those that it was staged with, or null.
    """

    planned: Versions
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
        review: What its reviewer asks, answered in words.
        plan: What is done, step by step; nothing while references cannot be read, or for a table that is no longer
            declared.
        from_versions: The releases whose accepted rows it replaces.
        goes_back: The later releases whose accepted rows it would replace, the latest first.
        moved_on: The inputs that were published again or rolled back since it was planned; empty once it is published.
        left_behind: Partitions on its borders that keep rows of another release; empty once it is published.
        manifest_digest: sha256 of the manifest: what an approval approves.
        policy: What the manifest pins of its table's policy.
        to_comment: What the approver has to comment on and no standing approval has, in words; null when there is
            nothing.
        comment: What the standing approval says in writing; null without one.
        approved_for: Why the approver may approve; null without an approval, and where any person but the requester
            may.
        manifest: The whole contract, as it is stored.
        supersedes: The runs whose accepted rows it replaces.
        versions: What it was planned and staged with.
        totals: How its rows differ from the accepted ones, over all partitions; null before the gates.
        restated: The same of partitions that had accepted rows; null where there are none.
        new: The same of partitions that had none, or null.
        partitions: The same by partition; empty before the gates.
        equal_partitions: How many partitions equal the accepted rows and stay as they are; null before the gates.
        new_empty_partitions: How many have no accepted version and get no rows; null before the gates.
        breakdown: Its measures by month and business dimensions, before and after; null where its table declares none,
            before the gates, and once it is erased.
        changed_columns: Rows that differ, by column, the most changed column first.
        state_moves: From which value to which the rows that differ have moved, in columns whose values a gate lists; of
            restated partitions.
        gates: The result of each gate.
        sample: Some rows that move; empty once they are erased.
        failing_keys: Keys of some rows that fail a gate; empty once they are erased.
        samples_erased: Who erased these rows; null when they were not erased.
        dependents: What its publication makes stale downstream, table by table.
        cost: What it has cost so far.
        timeline: What happened to it, in order.
        chunks: What was computed at once, in order.
        publications: Every publication and rollback of it, in order.
    """

    run: RunSummary = field(metadata=INLINE)
    review: Review
    plan: tuple[Stage, ...]
    from_versions: tuple[str, ...]
    goes_back: tuple[LaterRelease, ...]
    moved_on: tuple[TablePartitions, ...]
    left_behind: tuple[LeftBehind, ...]
    manifest_digest: str
    policy: PolicyDocument
    to_comment: str | None
    comment: str | None
    approved_for: ApprovalGrounds | None
    manifest: Mapping[str, Any]
    supersedes: tuple[str, ...]
    versions: RunVersions
    totals: Moves | None
    restated: MovesOfSome | None
    new: MovesOfSome | None
    partitions: tuple[PartitionMoves, ...]
    equal_partitions: int | None
    new_empty_partitions: int | None
    breakdown: BreakdownDocument | None
    changed_columns: Mapping[str, int]
    state_moves: tuple[StateMove, ...]
    gates: tuple[GateSummary, ...]
    sample: tuple[SampledRow, ...]
    failing_keys: tuple[FailingKey, ...]
    samples_erased: SampleErasure | None
    dependents: tuple[DependentMoves, ...]
    cost: CostDocument
    timeline: tuple[Moment, ...]
    chunks: tuple[ChunkDocument, ...]
    publications: tuple[PublicationDocument, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether a blocking gate failed."""
        return self.run.state is RunState.BLOCKED


def run_report(ws: Workspace, run_id: str) -> RunReport:
    """Everything that the ledger knows of a run.

    Raises:
        UnknownName: There is no such run.
    """
    with ws.ledger.read() as tx:
        return _report(ws, tx, tx.runs.get(run_id))


def _stages(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> tuple[Stage, ...]:
    try:
        return stages_of([run.manifest], ws.graph, of=run.manifest.member_of, demand=demand_of(ws, tx, run))
    except Refused:
        return ()


def _report(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> RunReport:
    results = tx.candidates.gate_results(run.run_id)
    publications = tx.publications.records(run_id=run.run_id)
    events = tuple(tx.events.entries(entity_id=run.run_id))
    erased = tx.samples.erased(run.run_id)
    staged = tx.candidates.of_run(run.run_id)
    chunks = tx.candidates.chunks(run.run_id)
    partitions = partition_moves(results, staged)
    releases = replaced_releases(tx, run.manifest, staged)
    cells = tx.samples.breakdown(run.run_id)
    reviewed = _reviewed(ws, tx, run, results, publications, partitions, releases, cells)
    return RunReport(
        run=reviewed.run,
        review=review_of(reviewed),
        plan=_stages(ws, tx, run),
        from_versions=reviewed.from_versions,
        goes_back=reviewed.goes_back,
        moved_on=reviewed.moved_on,
        left_behind=reviewed.left_behind,
        manifest_digest=run.manifest_digest,
        policy=policy_document(run.manifest.policy),
        to_comment=said_of(reviewed.to_comment) or None,
        comment=_comment(events) if run.approval is ApprovalState.APPROVED else None,
        approved_for=_grounds(events) if run.approval is ApprovalState.APPROVED else None,
        manifest=run.manifest.document,
        supersedes=run.manifest.supersedes,
        versions=run_versions(run, events),
        totals=reviewed.totals,
        restated=reviewed.restated,
        new=reviewed.new,
        partitions=partitions,
        equal_partitions=sum(part.equal for part in partitions) if partitions else None,
        new_empty_partitions=sum(part.new_empty for part in partitions) if partitions else None,
        breakdown=breakdown_document(cells, breakdown_of(ws, run.manifest.table)),
        changed_columns=changed_columns(results),
        state_moves=state_moves(results, {part.partition for part in partitions if part.new}),
        gates=reviewed.gates,
        sample=tx.samples.changed_rows(run.run_id),
        failing_keys=tx.samples.failing_keys(run.run_id),
        samples_erased=_erasure(erased) if erased else None,
        dependents=reviewed.dependents,
        cost=cost_of(chunks, staged.values(), events, publications, read_bytes=bytes_read(tx, run)),
        timeline=timeline(events, publications),
        chunks=tuple(_chunk_document(chunk) for chunk in chunks),
        publications=tuple(publication_document(record) for record in publications),
    )


def _reviewed(
    ws: Workspace,
    tx: ReadTransaction,
    run: RunRecord,
    results: Sequence[GateResult],
    publications: Sequence[PublicationRecord],
    partitions: Sequence[PartitionMoves],
    releases: Mapping[date, str],
    cells: Sequence[BreakdownCell],
) -> Reviewed:
    grain, always = run.manifest.grain, run.manifest.kind in ALWAYS_SWAPPED
    swapped = [part.partition for part in partitions if always or not (part.equal or part.new_empty)]
    return Reviewed(
        noun=grain.noun,
        run=_summary(run_summary(ws, tx, run), publications),
        from_versions=in_order(releases),
        goes_back=later_than(run.manifest, releases),
        moved_on=inputs_moved_on(ws.graph, tx, run),
        left_behind=left_behind(ws.graph, tx, run, releases),
        totals=total_moves(partitions),
        new=moves_of_some(grain, [part for part in partitions if part.new]),
        restated=moves_of_some(grain, [part for part in partitions if not part.new]),
        swapped=len(swapped),
        equal=sum(part.equal for part in partitions),
        gates=gate_summaries(run.manifest, results),
        dependents=dependent_moves(ws, tx, run, swapped if partitions else run.manifest.partitions, cells),
        to_comment=tuple(open_comments(tx, run)),
    )


def _summary(summary: RunSummary, publications: Sequence[PublicationRecord]) -> RunSummary:
    """The run, with nothing to undo where its publication found everything equal."""
    standing = [p.intent for p in publications if p.state is PublicationState.PUBLISHED]
    changed_nothing = standing and not any(intent.changes for intent in standing)
    return replace(summary, next_step=None) if changed_nothing and summary.set_id is None else summary


def run_versions(run: RunRecord, events: Iterable[EventRecord]) -> RunVersions:
    """What a run was planned and staged with."""
    staged = staged_versions(event.payload for event in events)
    return RunVersions(planned=run.manifest.versions, staged=staged)


def policy_document(policy: Policy) -> PolicyDocument:
    """The policy that a manifest pinned."""
    return PolicyDocument(policy=policy, sentence=policy_words(policy))


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


def _comment(events: Iterable[EventRecord]) -> str | None:
    """The note of the last approval."""
    notes = [event.payload.get("note") for event in events if event.entity == "approval" and event.action == "approved"]
    return str(notes[-1]) if notes and notes[-1] else None


def _erasure(event: EventRecord) -> SampleErasure:
    return SampleErasure(by=event.actor, at=event.at, reason=event.payload["reason"])
