"""Document of the plan of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.planning.chunks import Chunk
from backfill_assets.planning.estimates import Estimate
from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import GateTerm, Kind, Limits, Mode, ReferenceSemantics, semantics_of
from backfill_assets.planning.partitions import count_of, describe
from backfill_assets.planning.request import Plan, PlannedInput
from backfill_assets.planning.stages import Prove, Stage
from backfill_assets.report.documents import INLINE
from backfill_assets.report.references import references_described
from backfill_assets.report.releases import LaterRelease
from backfill_assets.report.report import PolicyDocument, policy_document
from backfill_assets.report.stages import StageDocument, stage_document
from backfill_assets.report.version_changes import BroughtAlong
from backfill_assets.report.words.plans import basis_words, lacks
from backfill_assets.report.words.stages import proof_words


@dataclass(frozen=True, slots=True, kw_only=True)
class SomePartitions:
    """Some partitions of a table.

    Attributes:
        table: The table.
        partitions: How many there are.
        described: The same in words.
    """

    table: str
    partitions: int
    described: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOutput:
    """What a run computes.

    Attributes:
        from_: The first partition.
        to: The last one; there can be gaps between them.
        partitions: How many there are.
        described: The same in words.
    """

    from_: date
    to: date
    partitions: int
    described: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOfRun:
    """What a run reads of one input.

    Attributes:
        argument: The argument of the transform.
        table: The input.
        days_back: How many days before an output day the transform looks at; null for a window that counts months.
        days_ahead: How many days after it, or null.
        months_back: How many months before an output month it looks at; null for a window that counts days.
        months_ahead: How many months after it, or null.
        from_: The first partition that is read.
        to: The last one.
        partitions: How many are read, warm-up and look-ahead included.
        described: The same in words.
        warm_up: Of these, what lies outside the output days, in words: read, never published.
        warm_up_partitions: How many these are.
        staged_partitions: How many are read as another run of the set stages them.
        rows: How many rows are read: accepted ones, and those expected of the other run.
        files: How many files are read.
        size_bytes: Of these files.
    """

    argument: str
    table: str
    days_back: int | None
    days_ahead: int | None
    months_back: int | None
    months_ahead: int | None
    from_: date
    to: date
    partitions: int
    described: str
    warm_up: str
    warm_up_partitions: int
    staged_partitions: int
    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedRows:
    """What readers see now of what a run would replace.

    Attributes:
        partitions: How many partitions have an accepted version.
        rows: How many rows these have.
    """

    partitions: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChunk:
    """One part in which a run is computed.

    Attributes:
        number: Its place, from 1.
        from_: Its first partition.
        to: Its last partition.
        partitions: How many there are.
        expected_rows: How many rows it is expected to write.
    """

    number: int
    from_: date
    to: date
    partitions: int
    expected_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """What a run is expected to write and take.

    Attributes:
        rows: How many rows.
        size_bytes: Of all data files; null when no rows of the table are known.
        seconds: To stage it; null when there is no earlier run.
        at_least_seconds: The same at the pace of the fastest of the runs it is taken from; null with fewer than two.
        at_most_seconds: The same at the pace of the slowest, or null.
        based_on: Where the numbers come from, in words.
    """

    rows: int
    size_bytes: int | None
    seconds: float | None
    at_least_seconds: float | None
    at_most_seconds: float | None
    based_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that has been planned.

    Attributes:
        run_id: Names it.
        state: How far it is.
        approval: That it is not approved yet.
        table: The table whose partitions it computes.
        kind: Why it computes them.
        mode: What may become of it.
        reason: Why, in the words of the requester.
        requested_by: Who planned it.
        transform: The transform that computes it.
        transform_version: The registered version of that transform.
        manifest_digest: sha256 of the manifest: what an approval approves.
        policy: What the manifest pins of its table's policy.
        output: What it computes.
        inputs: What it reads, input by input; empty for landed files.
        replaces: What readers see now of it.
        supersedes: The runs whose accepted rows are replaced where they differ; empty for modes that are never
            published.
        code_modules: The modules that the code digest is over (`package.*`: all of the package).
        chunks: In how many parts it is computed.
        chunk_list: These parts, in order.
        estimate: What it is expected to write and take.
        limits: The bounds of the run; null is no limit.
        references: The versions of the reference documents that it reads, by name.
        reference_semantics: Which truth these give; null without references.
        references_described: The same in words, or null.
        gates: What is measured before it may be published.
        dependents: What its publication would make stale.
        conflicts: Runs over some of the same partitions that could still be published.
    """

    run_id: str
    state: Literal[RunState.PLANNED] = RunState.PLANNED
    approval: Literal[ApprovalState.DRAFT] = ApprovalState.DRAFT
    table: str
    kind: Kind
    mode: Mode
    reason: str
    requested_by: str
    transform: str
    transform_version: str
    manifest_digest: str
    policy: PolicyDocument
    output: PlannedOutput
    inputs: tuple[InputOfRun, ...]
    replaces: ReplacedRows
    supersedes: tuple[str, ...]
    code_modules: tuple[str, ...]
    chunks: int
    chunk_list: tuple[PlannedChunk, ...]
    estimate: PlannedCost
    limits: Limits
    references: Mapping[str, str]
    reference_semantics: ReferenceSemantics | None
    references_described: str | None
    gates: tuple[GateTerm, ...]
    dependents: tuple[SomePartitions, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """The plan of one run.

    Attributes:
        run: The run.
        asked_partitions: How many partitions were asked for.
        left_out: What of these is not planned and what it lacks, in words; null when all are.
        proof: What the warm-up gate computes again, and with which days, in words; null without that gate.
        goes_back: The later releases whose accepted rows it would replace, the latest first.
        brings: The newer release and the other references that it brings, compared with the rows it replaces.
        stages: What will be done, in order.
    """

    run: PlannedRun = field(metadata=INLINE)
    asked_partitions: int
    left_out: str | None
    proof: str | None
    goes_back: tuple[LaterRelease, ...]
    brings: tuple[BroughtAlong, ...]
    stages: tuple[StageDocument, ...]


def plan_document(
    plan: Plan,
    stages: Sequence[Stage],
    goes_back: Sequence[LaterRelease] = (),
    brings: Sequence[BroughtAlong] = (),
) -> PlanDocument:
    """The plan of one run.

    Args:
        plan: The plan.
        stages: What will be done, in order, as `stages_of` reads it from the manifest.
        goes_back: The later releases whose accepted rows it would replace.
        brings: The newer release and the other references that it brings.
    """
    proofs = [proof_words(stage) for stage in stages if isinstance(stage, Prove)]
    return PlanDocument(
        run=planned_run(plan),
        asked_partitions=len(plan.manifest.partitions) + len(plan.left_out),
        left_out=_left_out(plan),
        proof=proofs[0] if proofs else None,
        goes_back=tuple(goes_back),
        brings=tuple(brings),
        stages=tuple(stage_document(stage) for stage in stages),
    )


def _left_out(plan: Plan) -> str | None:
    if not plan.left_out:
        return None
    return f"{describe(plan.manifest.grain, plan.left_out)}: {lacks(plan.lacks)}"


def whole_sentence(planned: int, asked_for: int) -> str:
    """How much of what was asked for is planned."""
    noun = count_of(asked_for, "partition")
    return f"all of {noun} asked for" if planned == asked_for else f"{planned:,} of {noun} asked for"


def planned_run(plan: Plan) -> PlannedRun:
    """A planned run, without what it will do."""
    manifest = plan.manifest
    return PlannedRun(
        run_id=manifest.run_id,
        table=manifest.table,
        kind=manifest.kind,
        mode=manifest.mode,
        reason=manifest.reason,
        requested_by=manifest.requested_by,
        transform=manifest.transform,
        transform_version=manifest.transform_version,
        manifest_digest=manifest.digest,
        policy=policy_document(manifest.policy),
        output=_output(manifest),
        inputs=tuple(_input(read) for read in plan.inputs),
        replaces=ReplacedRows(partitions=plan.replaced_partitions, rows=plan.replaced_rows),
        supersedes=manifest.supersedes,
        code_modules=manifest.code_modules,
        chunks=len(plan.chunks),
        chunk_list=tuple(_chunk(chunk, plan.estimate) for chunk in plan.chunks),
        estimate=_cost(plan.estimate),
        limits=manifest.limits,
        references={reference.name: reference.version for reference in manifest.references},
        reference_semantics=semantics_of(manifest.references),
        references_described=references_described(manifest.references),
        gates=manifest.gates,
        dependents=tuple(some_partitions(dependent) for dependent in plan.dependents),
        conflicts=plan.conflicts,
    )


def some_partitions(some: TablePartitions) -> SomePartitions:
    """Some partitions of a table, counted and in words."""
    return SomePartitions(
        table=some.table, partitions=len(some.partitions), described=describe(some.grain, some.partitions)
    )


def _output(manifest: Manifest) -> PlannedOutput:
    return PlannedOutput(
        from_=manifest.partitions[0],
        to=manifest.partitions[-1],
        partitions=len(manifest.partitions),
        described=describe(manifest.grain, manifest.partitions),
    )


def _input(read: PlannedInput) -> InputOfRun:
    window = read.window.document
    return InputOfRun(
        argument=read.argument,
        table=read.table,
        days_back=window.get("days_back"),
        days_ahead=window.get("days_ahead"),
        months_back=window.get("months_back"),
        months_ahead=window.get("months_ahead"),
        from_=read.partitions[0],
        to=read.partitions[-1],
        partitions=len(read.partitions),
        described=describe(read.grain, read.partitions),
        warm_up=describe(read.grain, read.warm_up),
        warm_up_partitions=len(read.warm_up),
        staged_partitions=len(read.staged),
        rows=read.rows,
        files=read.files,
        size_bytes=read.size_bytes,
    )


def _chunk(chunk: Chunk, expected: Estimate) -> PlannedChunk:
    return PlannedChunk(
        number=chunk.number,
        from_=chunk.partitions[0],
        to=chunk.partitions[-1],
        partitions=len(chunk.partitions),
        expected_rows=sum(expected.rows.get(partition, 0) for partition in chunk.partitions),
    )


def _cost(expected: Estimate) -> PlannedCost:
    least, most = expected.between or (None, None)
    return PlannedCost(
        at_least_seconds=None if least is None else round(least, 1),
        at_most_seconds=None if most is None else round(most, 1),
        rows=expected.total_rows,
        size_bytes=expected.size_bytes,
        seconds=None if expected.seconds is None else round(expected.seconds, 1),
        based_on=basis_words(expected),
    )
