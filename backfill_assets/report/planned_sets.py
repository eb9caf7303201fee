"""Document of the plan of a restatement set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from backfill_assets.ledger.states import ApprovalState, SetState
from backfill_assets.planning.impact import Rebuild
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.restatement import LeftOut, NothingToRebuild, PlannedSet
from backfill_assets.report.advice.left_out import how_to_include
from backfill_assets.report.documents import INLINE
from backfill_assets.report.planned import PlannedRun, SomePartitions, planned_run, some_partitions
from backfill_assets.report.requests import NextStep
from backfill_assets.report.stages import StageDocument, stage_document
from backfill_assets.report.version_changes import BroughtAlong
from backfill_assets.report.words.plans import left_out_words


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildDocument:
    """The partitions of one table that are built again.

    Attributes:
        table: The table.
        partitions: How many there are.
        described: The same in words.
        new_partitions: How many of them have no accepted version yet.
        because: Their changing inputs; empty for partitions that were only requested themselves.
        only_read: What they read and the set does not build: warm-up, look-ahead, and what had changed.
    """

    table: str
    partitions: int
    described: str
    new_partitions: int
    because: tuple[SomePartitions, ...]
    only_read: tuple[SomePartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutDocument:
    """Partitions that a plan does not build.

    Attributes:
        some: The partitions.
        asked_for: Whether the request asked for them; otherwise they are stale, or were never built, besides.
        why: Why they are left out, in words.
        include: How to build them as well.
    """

    some: SomePartitions = field(metadata=INLINE)
    asked_for: bool
    why: str
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
    rebuilds: tuple[RebuildDocument, ...]
    left_out: tuple[LeftOutDocument, ...]
    brings: tuple[BroughtAlong, ...]
    stages: tuple[StageDocument, ...]


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
        rebuilds=tuple(_rebuild(rebuild) for rebuild in planned.rebuilds),
        left_out=left_out,
        brings=tuple(brings),
        stages=tuple(stage_document(stage) for stage in planned.stages),
    )


def _rebuild(rebuild: Rebuild) -> RebuildDocument:
    return RebuildDocument(
        table=rebuild.table,
        partitions=len(rebuild.partitions),
        described=describe(rebuild.grain, rebuild.partitions),
        new_partitions=len(rebuild.new),
        because=tuple(some_partitions(some) for some in rebuild.because),
        only_read=tuple(some_partitions(some) for some in rebuild.only_read),
    )


def left_out_documents(left_out: Iterable[LeftOut]) -> tuple[LeftOutDocument, ...]:
    """What a plan does not build."""
    return tuple(
        LeftOutDocument(
            some=some_partitions(each), asked_for=each.is_asked, why=left_out_words(each), include=how_to_include(each)
        )
        for each in left_out
    )
