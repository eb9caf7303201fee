"""Documents of plans: of one run, of a restatement set, and that nothing has to be built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.planning.estimates import Estimate
from backfill_assets.planning.impact import Rebuild, TablePartitions
from backfill_assets.planning.manifest_parts import (
    GateTerm,
    Kind,
    Limits,
    Mode,
    PinnedReference,
    ReferenceSemantics,
    semantics_of,
)
from backfill_assets.planning.partitions import Grain, Partitions
from backfill_assets.planning.policy import Policy
from backfill_assets.planning.request import Plan, PlannedInput
from backfill_assets.planning.restatement import LeftOut, NothingToRebuild, PlannedSet
from backfill_assets.planning.stages import Stage
from backfill_assets.report.advice.left_out import how_to_include
from backfill_assets.report.documents import INLINE
from backfill_assets.report.releases import BroughtAlong, LaterRelease
from backfill_assets.report.requests import NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that has been planned.

    Attributes:
        run_id: Names it.
        state: How far it is.
        approval: That it is not approved yet.
        table: The table whose partitions it computes.
        grain: Whether a partition is a day or a month.
        kind: Why it computes them.
        mode: What may become of it.
        reason: Why, in the words of the requester.
        requested_by: Who planned it.
        transform: The transform that computes it.
        transform_version: The registered version of that transform.
        manifest_digest: sha256 of the manifest: what an approval approves.
        policy: What the manifest pins of its table's policy.
        output: The partitions that it computes.
        inputs: What it reads, input by input; empty for landed files.
        replaced_partitions: How many of its partitions have rows that readers see now.
        replaced_rows: How many rows these have.
        supersedes: The runs whose accepted rows are replaced where they differ; empty for modes that are never
            published.
        code_modules: The modules that the code digest is over (`package.*`: all of the package).
        chunks: In how many parts it is computed; `stages` has each.
        estimate: What it is expected to write and take.
        limits: The bounds of the run; null is no limit.
        references: The versions of the reference documents that it reads.
        reference_semantics: Which truth these give; null without references.
        gates: What is measured before it may be published.
        dependents: What its publication would make stale.
        conflicts: Runs over some of the same partitions that could still be published.
    """

    run_id: str
    state: Literal[RunState.PLANNED] = RunState.PLANNED
    approval: Literal[ApprovalState.DRAFT] = ApprovalState.DRAFT
    table: str
    grain: Grain
    kind: Kind
    mode: Mode
    reason: str
    requested_by: str
    transform: str
    transform_version: str
    manifest_digest: str
    policy: Policy
    output: tuple[date, ...]
    inputs: tuple[PlannedInput, ...]
    replaced_partitions: int
    replaced_rows: int
    supersedes: tuple[str, ...]
    code_modules: tuple[str, ...]
    chunks: int
    estimate: Estimate
    limits: Limits
    references: tuple[PinnedReference, ...]
    reference_semantics: ReferenceSemantics | None
    gates: tuple[GateTerm, ...]
    dependents: tuple[TablePartitions, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """The plan of one run.

    Attributes:
        run: The run.
        asked_partitions: How many partitions were asked for.
        left_out: What of these is not planned; null when all are.
        lacks: The input partitions that what is left out reads and that are not there, by input.
        goes_back: The later releases whose accepted rows it would replace, the latest first.
        brings: The newer release and the other references that it brings, compared with the rows it replaces.
        stages: What will be done, in order.
    """

    run: PlannedRun = field(metadata=INLINE)
    asked_partitions: int
    left_out: Partitions | None
    lacks: tuple[TablePartitions, ...]
    goes_back: tuple[LaterRelease, ...]
    brings: tuple[BroughtAlong, ...]
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutDocument:
    """Partitions that a plan does not build.

    Attributes:
        some: The partitions, and why they are left out.
        include: How to build them as well.
    """

    some: LeftOut = field(metadata=INLINE)
    include: NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan:
    """The plan of a set.

    Attributes:
        set_id: Names it.
        name: What its requester called it; its id by default.
        state: How far it is.
        approval: That it is not approved yet.
        reason: Why, in the words of the requester.
        requested_by: Who planned it.
        because: What changed, in words.
        manifest_digest: sha256 of its manifest: what an approval approves.
        runs: One per table, inputs before dependents.
        planned_partitions: How many partitions it builds, of all tables.
        asked_partitions: How many were asked for: what it builds, and what is left out of the request.
        rebuilds: What is built again, inputs before dependents.
        left_out: What is not built, each partition once.
        brings: The newer releases and the other references that its runs bring, compared with the rows they replace.
        stages: What will be done, in order.
    """

    set_id: str
    name: str
    state: Literal[SetState.PLANNED] = SetState.PLANNED
    approval: Literal[ApprovalState.DRAFT] = ApprovalState.DRAFT
    reason: str
    requested_by: str
    because: str
    manifest_digest: str
    runs: tuple[PlannedRun, ...]
    planned_partitions: int
    asked_partitions: int
    rebuilds: tuple[Rebuild, ...]
    left_out: tuple[LeftOutDocument, ...]
    brings: tuple[BroughtAlong, ...]
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingPlanned:
    """That nothing has to be rebuilt, and no set was made.

    Attributes:
        set_id: Null.
        asked_partitions: How many partitions were asked for.
        left_out: What is not built, each partition once.
    """

    set_id: None = None
    asked_partitions: int
    left_out: tuple[LeftOutDocument, ...]


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
    return PlanDocument(
        run=planned_run(plan),
        asked_partitions=len(plan.manifest.partitions) + len(plan.left_out),
        left_out=Partitions(plan.manifest.grain, plan.left_out) if plan.left_out else None,
        lacks=plan.lacks,
        goes_back=tuple(goes_back),
        brings=tuple(brings),
        stages=tuple(stages),
    )


def planned_run(plan: Plan) -> PlannedRun:
    """A planned run, without what it will do."""
    manifest = plan.manifest
    return PlannedRun(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        kind=manifest.kind,
        mode=manifest.mode,
        reason=manifest.reason,
        requested_by=manifest.requested_by,
        transform=manifest.transform,
        transform_version=manifest.transform_version,
        manifest_digest=manifest.digest,
        policy=manifest.policy,
        output=manifest.partitions,
        inputs=plan.inputs,
        replaced_partitions=plan.replaced_partitions,
        replaced_rows=plan.replaced_rows,
        supersedes=manifest.supersedes,
        code_modules=manifest.code_modules,
        chunks=len(plan.chunks),
        estimate=plan.estimate,
        limits=manifest.limits,
        references=manifest.references,
        reference_semantics=semantics_of(manifest.references),
        gates=manifest.gates,
        dependents=plan.dependents,
        conflicts=plan.conflicts,
    )


def set_plan_document(
    planned: PlannedSet | NothingToRebuild, brings: Sequence[BroughtAlong] = ()
) -> SetPlan | NothingPlanned:
    """The plan of a set.

    Args:
        planned: The set, or that nothing has to be rebuilt.
        brings: The newer releases and the other references that its runs bring.
    """
    left_out = left_out_documents(planned.left_out)
    if isinstance(planned, NothingToRebuild):
        return NothingPlanned(asked_partitions=planned.asked_for, left_out=left_out)
    manifest = planned.manifest
    return SetPlan(
        set_id=manifest.set_id,
        name=manifest.name,
        reason=manifest.reason,
        requested_by=manifest.requested_by,
        because=manifest.because,
        manifest_digest=manifest.digest,
        runs=tuple(planned_run(plan) for plan in planned.plans),
        planned_partitions=planned.planned,
        asked_partitions=planned.asked_for,
        rebuilds=planned.rebuilds,
        left_out=left_out,
        brings=tuple(brings),
        stages=planned.stages,
    )


def left_out_documents(left_out: Iterable[LeftOut]) -> tuple[LeftOutDocument, ...]:
    """What a plan does not build."""
    return tuple(LeftOutDocument(some=each, include=how_to_include(each)) for each in left_out)
