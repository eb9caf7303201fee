"""Documents of plans: of one run, of a restatement set, and that nothing has to be built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import NextStep
from backfill_assets.core.tariff import Cost, Tariff
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import OPEN_SETS
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.request import Plan
from backfill_assets.planning.restatement import LeftOut, PlannedSet
from backfill_assets.planning.stages import Stage
from backfill_assets.report.alternatives import Alternative
from backfill_assets.report.documents import INLINE
from backfill_assets.report.frozen import FreezeDocument
from backfill_assets.report.not_known import NotKnownDocument
from backfill_assets.report.read_before import ReadBefore
from backfill_assets.report.rejected import RejectedRecords
from backfill_assets.report.releases import BroughtAlong, LaterRelease
from backfill_assets.restatements.left_out import how_to_include


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRuns:
    """The known facts about one planned run, or about those of a set together."""

    #: The newer releases and the other references that they bring, compared with the rows they replace.
    brings: tuple[BroughtAlong, ...] = ()
    #: The present versions of the references that only their gates read, which read those that are there when they are
    #: measured.
    gate_references: tuple[PinnedReference, ...] = ()
    frozen: tuple[FreezeDocument, ...] = ()  #: The freezes over some of their partitions.
    #: What was rejected of the landed files behind the source days that they build or read.
    rejected: tuple[RejectedRecords, ...] = ()
    not_known: tuple[NotKnownDocument, ...] = ()  #: The keys that are not known of these days.
    #: What they are expected to cost together; null where no earlier run of one of their tables tells.
    cost: Cost | None = None
    #: How many accepted rows of their partitions have the values that a pilot names; null where that is not known, and
    #: of other plans.
    scope_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument(PlannedRuns):
    """The plan of one run."""

    plan: Plan = field(metadata=INLINE)  #: The plan.
    #: The later releases whose accepted rows it would replace, the latest first.
    goes_back: tuple[LaterRelease, ...] = ()
    stages: tuple[Stage, ...]  #: What will be done, in order.
    alternatives: tuple[Alternative, ...] = ()  #: What could be done instead, with what that is expected to cost.


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutDocument:
    """Partitions that a plan does not build."""

    some: LeftOut = field(metadata=INLINE)  #: The partitions, and why they are left out.
    include: NextStep  #: How to build them as well.


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan(PlannedRuns):
    """The plan of a set."""

    planned: PlannedSet = field(metadata=INLINE)  #: The set.
    left_out: tuple[LeftOutDocument, ...]  #: What is not built, each partition once.
    #: The open set that does the same already: the same partitions from the same inputs, releases, code and references.
    #: Null where there is none.
    same_as: str | None = None
    #: Landed files of the sources behind it that were read by an earlier declaration.
    read_before: tuple[ReadBefore, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingPlanned:
    """Reports that nothing has to be rebuilt, and no set was made."""

    set_id: None = None  #: Null.
    asked_partitions: int  #: How many partitions were asked for.
    left_out: tuple[LeftOutDocument, ...]  #: What is not built, each partition once.
    #: Landed files that were read by an earlier declaration; nothing is stale for that until they are read anew.
    read_before: tuple[ReadBefore, ...] = ()


def left_out_documents(left_out: Iterable[LeftOut]) -> tuple[LeftOutDocument, ...]:
    """The partitions that a plan does not build."""
    return tuple(LeftOutDocument(some=each, include=how_to_include(each)) for each in left_out)


def open_set_that_does_the_same(tx: ReadTransaction, planned: PlannedSet) -> str | None:
    """The latest open set whose runs do what those of a planned one would do; None where there is none."""
    open_runs = {run_id for plan in planned.plans for run_id in plan.conflicts}
    wanted = [_work_of(plan.manifest) for plan in planned.plans]
    for set_id in sorted(set(tx.sets.ids_of_runs(sorted(open_runs)).values()), reverse=True):
        # A set that was edited in the database does nothing; an audit finds it.
        with suppress(Refused):
            record = tx.sets.get(set_id)
            members = members_of(tx.runs, record)
            is_open = record.state in OPEN_SETS and open_runs.issuperset(each.run_id for each in members)
            does_the_same = [_work_of(each.manifest) for each in members] == wanted
            if is_open and does_the_same and record.manifest.phases == planned.manifest.phases:
                return set_id
    return None


def _work_of(manifest: Manifest) -> tuple[object, ...]:
    """The work of a run: what it computes and replaces, and from what; of other runs of its set, only which
    partitions it reads."""
    how = (manifest.kind, manifest.mode, manifest.change, manifest.transform_version, manifest.code_digest)
    pins = [*manifest.inputs, *([manifest.base] if manifest.base else [])]
    read = tuple(
        (pinned.argument, tuple((pin.partition, pin.version, pin.digest) for pin in pinned.partitions))
        for pinned in pins
    )
    return manifest.table, manifest.partitions, how, manifest.references, read


def expected_cost(plans: Sequence[Plan], tariff: Tariff) -> Cost | None:
    """The expected total cost of runs; None where nothing is known of one of them."""
    known = [each for each in (plan.estimate.core_seconds for plan in plans) if each is not None]
    return tariff.spent(sum(known)) if len(known) == len(plans) else None


def unmeasured_tables(plans: Iterable[Plan]) -> tuple[str, ...]:
    """The tables of runs of which nothing is known, because no measured run of them has ended its gates."""
    unknown = (plan.manifest for plan in plans if plan.estimate.core_seconds is None)
    return tuple(dict.fromkeys(manifest.table for manifest in unknown if manifest.computed))
