"""Documents of plans: of one run, of a restatement set, and that nothing has to be built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.calendar.partitions import Partitions, TablePartitions, count_of, describe
from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import Command, NextStep, do, read_first, step, to_approve, to_cancel
from backfill_assets.core.tariff import Cost, Tariff
from backfill_assets.ledger.states import OPEN_SETS
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.impact import LeftOut, Rebuild
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.manifest import Manifest, stays
from backfill_assets.planning.manifest_parts import Limits, Mode, PinnedReference
from backfill_assets.planning.request import Plan, PlannedInput
from backfill_assets.planning.restatement import PlannedSet
from backfill_assets.planning.sets import is_set
from backfill_assets.planning.stages import Agree, Prove, Stage
from backfill_assets.planning.state import Estimate
from backfill_assets.report.alternatives import Alternative
from backfill_assets.report.documents import INLINE
from backfill_assets.report.follow import frozen_section
from backfill_assets.report.page import (
    Items,
    Note,
    Page,
    Section,
    Steps,
    Tone,
    Words,
    facts,
    next_steps,
    page,
    run_ref,
    section,
    set_ref,
    several,
    table,
    words,
)
from backfill_assets.report.releases import LaterRelease, UnrelatedChange
from backfill_assets.report.runs import mode_text, run_ids
from backfill_assets.report.sources import ReadBefore, read_before_notes
from backfill_assets.report.values import cost_words, mebibytes
from backfill_assets.report.waiting import (
    FreezeDocument,
    NotKnownDocument,
    RejectedRecords,
    not_known_section,
    rejected_section,
)
from backfill_assets.report.words.plans import (
    alternative_words,
    basis_words,
    brought_along_words,
    changed_by_table,
    changed_words,
    columns_words,
    gate_references_described,
    goes_back_words,
    inexact_words,
    phase_words,
    publish_words,
    references_described,
    stays_words,
    undetermined_words,
)
from backfill_assets.report.words.stages import WORDS, policy_words, proof_words, stage_words, waits_anyway
from backfill_assets.requests.left_out import how_to_include, lacks, why_left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRuns:
    """The known facts about one planned run, or about those of a set together."""

    #: The newer releases and the other references that they bring, compared with the rows they replace.
    brings: tuple[UnrelatedChange, ...] = ()
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
    for set_id in sorted(filter(is_set, map(tx.runs.request_of, open_runs)), reverse=True):
        # A set that was edited in the database does nothing; an audit finds it.
        with suppress(Refused):
            record = tx.sets.get(set_id)
            members = tx.runs.of_request(set_id)
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


# The plan of a run or a set: what it reads and replaces, what is left out, and every stage.

_MOST_STAGES = 24


def _lacks(plan: Plan) -> str:
    """The inputs that are not there, and the runs by which they have expired."""
    found = [lacks(plan.lacks)]
    for each in plan.lacks:
        by_run: dict[str, list[date]] = {}
        for partition in each.partitions:
            if gone := plan.expired.get(each.table, {}).get(partition):
                by_run.setdefault(gone.run_id, []).append(partition)
        found += [f"{describe(each.grain, some)} expired by run {run_id}" for run_id, some in by_run.items()]
    return ", and ".join(found)


def plan_page(plan: PlanDocument) -> Page:
    """The plan of a run, as an operator reads it before asking another person to agree."""
    run, manifest = plan.plan, plan.plan.manifest
    return page(
        words("Plan of ", run_ref(manifest.run_id)),
        facts(
            ("run", run_ref(manifest.run_id)),
            ("table", f"{manifest.table} by {manifest.transform} {manifest.transform_version}"),
            ("kind", f"{manifest.kind}: {manifest.reason} (asked by {manifest.requested_by})"),
            ("mode", mode_text(manifest.mode)),
            ("policy", policy_words(manifest.policy, plan.stages)),
            ("asked for", f"{run.widened}: every {run.grain.noun} is built completely" if run.widened else None),
            ("output range", manifest.output),
            ("left as they are", f"{Partitions(run.grain, run.between)} between them" if run.between else None),
            ("builds", _part_of(len(manifest.output), run.asked_for)),
            ("left out", f"{Partitions(run.grain, run.left_out)}: {_lacks(run)}" if run.left_out else None),
            ("publishes", publish_words(manifest)),
            ("keeps", _kept(manifest)),
            ("replaces", _replaced(run, _in_scope(plan))),
            ("columns", columns_words(manifest.columns)),
            *several("changed since", changed_words(manifest)),
            ("supersedes", run_ids(manifest.supersedes)),
            ("expected", _expected(run.estimate)),
            ("cost", cost_line(plan.cost, unmeasured_tables([run]))),
            ("references", references_described(manifest.references)),
            ("read by gates", gate_references_described(plan.gate_references)),
            ("report shows", f"the rows of {count_of(manifest.shown.count, 'key')}" if manifest.shown else None),
            ("limits", _limits(manifest.limits)),
            ("code", ", ".join(manifest.code_modules)),
            ("manifest", _draft(manifest.digest)),
        ),
        *(Note(text=f"{goes_back_words(each)}.", tone=Tone.ATTENTION) for each in plan.goes_back),
        *_brings(plan.brings),
        *by_order_notes(manifest),
        _no_rows(plan.scope_rows, manifest.change.scope),
        *_above_limit([run]),
        frozen_section(plan.frozen),
        _reads(run.inputs),
        rejected_section(plan.rejected),
        not_known_section(plan.not_known),
        section("Snapshots that are not used", Items(items=tuple(f"{day}: {why}" for day, why in run.skipped))),
        facts(
            ("gates", ", ".join(gate.name + ("" if gate.blocking else " (informs)") for gate in manifest.gates)),
            ("proof of the window", next((proof_words(each) for each in plan.stages if isinstance(each, Prove)), None)),
            ("dependents", _some(run.dependents) or WORDS[type(manifest.change)].no_dependents),
            ("open runs here", ", ".join(run.conflicts)),
        ),
        section("Alternatives", Items(items=tuple(map(alternative_words, plan.alternatives)))),
        _stages(plan.stages),
        _next(manifest.run_id, plan.stages),
    )


def set_plan_page(plan: SetPlan) -> Page:
    """The plan of a set: what a change asks for, table by table, and what will be done."""
    planned, manifest = plan.planned, plan.planned.manifest
    runs = [run.manifest for run in planned.plans]
    scope = runs[0].change.scope
    conflicts = sorted({conflict for run in planned.plans for conflict in run.conflicts})
    return page(
        words("Plan of ", set_ref(manifest.set_id, manifest.name)),
        facts(
            ("set", set_ref(manifest.set_id, manifest.name)),
            ("because", manifest.because),
            ("reason", f"{manifest.reason} (asked by {manifest.requested_by})"),
            ("builds", _part_of(planned.planned, planned.asked_for)),
            ("phases", phase_words(manifest.phases) if manifest.phases else None),
            ("publishes", publish_words(runs[0]) if scope else None),
            ("columns", _each(f"{run.table}: {columns_words(run.columns)}" for run in runs if run.columns)),
            *several("changed since", changed_by_table(runs)),
            ("references", _each(references_described(run.references) for run in runs)),
            ("read by gates", gate_references_described(plan.gate_references)),
            (
                "policies",
                _each(f"{run.table}: {policy_words(run.policy)}" for run in runs)
                + waits_anyway(planned.stages, (run.policy for run in runs)),
            ),
            ("reports show", _each(_shown_words(run) for run in runs if run.shown)),
            ("cost", cost_line(plan.cost, unmeasured_tables(planned.plans))),
            ("limits of each run", _each(_limits(run.limits) for run in runs)),
            ("manifest", _draft(manifest.digest)),
        ),
        *_same_as(manifest.set_id, plan.same_as),
        *_brings(plan.brings),
        *(note for run in runs for note in by_order_notes(run, title=f"{run.table}: ")),
        _no_rows(plan.scope_rows, scope),
        *_above_limit(planned.plans),
        frozen_section(plan.frozen),
        _rebuilds(planned.rebuilds),
        _runs(planned.plans),
        rejected_section(plan.rejected),
        not_known_section(plan.not_known),
        _stages(planned.stages),
        facts(("open runs here", ", ".join(conflicts))),
        _left_out(plan.left_out),
        *(
            Note(text=words(note.text, ": ", each.again))
            for each in plan.read_before
            for note in read_before_notes([each])
        ),
        # Phases that are approved one by one are approved when each has been measured.
        _next(manifest.set_id, () if manifest.phases and manifest.phases.each else planned.stages),
    )


def _shown_words(run: Manifest) -> str:
    """A note on the table whose requested rows the report of a run of a set shows."""
    return f"the rows of {count_of(run.shown.count, 'key')} of {run.table}" if run.shown else ""


def by_order_notes(manifest: Manifest, *, title: str = "") -> Sequence[Note]:
    """Notes on values of its rows that depend on the order in which Spark takes rows."""
    found = [*undetermined_words(manifest.safeguards), *map(inexact_words, manifest.inexact)]
    return [Note(text=f"{title}{each}.", tone=Tone.ATTENTION) for each in found]


def _same_as(set_id: str, other: str | None) -> Sequence[Note]:
    """A note that an open set does the same and is continued."""
    if other is None:
        return ()
    same = f"The open set {other} does the same, from the same inputs, code and references; continue with that one: "
    then = step(do(Command.STATUS, other), "; and give this one up: ", to_cancel(set_id))
    return [Note(text=words(same, then), tone=Tone.ATTENTION)]


def nothing_planned_page(plan: NothingPlanned) -> Page:
    """The page of a plan with nothing to rebuild, and what could be."""
    nothing = "nothing has to be rebuilt"
    if plan.asked_partitions:
        nothing = f"nothing is planned: {_part_of(0, plan.asked_partitions)}"
    elif plan.left_out:
        nothing = "nothing that was built has to be rebuilt"
    return page(
        "Nothing planned",
        Note(text=nothing),
        _left_out(plan.left_out),
        *read_before_notes(plan.read_before),
        next_steps(*(each.again for each in plan.read_before)),
    )


def _in_scope(plan: PlanDocument) -> int | None:
    """The number of accepted rows that a pilot may change; None for other plans."""
    scope, named = plan.plan.manifest.change.scope, plan.scope_rows
    if scope is None or named is None:
        return None
    return plan.plan.replaced_rows - named if scope.is_rest else named


def _replaced(run: Plan, in_scope: int | None) -> str:
    of = "" if in_scope is None else f"{in_scope:,} of "
    return f"{of}{run.replaced_rows:,} accepted rows in {count_of(run.replaced_partitions, 'partition')}"


def _kept(manifest: Manifest) -> str | None:
    """A line on the snapshots that stay after an expiry, and why."""
    kept = stays_words(manifest)
    return None if kept is None else f"{count_of(len(stays(manifest)), 'snapshot')}, {kept}"


def _kind(manifest: Manifest) -> str:
    return manifest.kind if manifest.mode is Mode.BACKFILL else f"{manifest.kind}, {manifest.mode}"


def _draft(digest: str) -> str:
    return f"sha256 {digest[:16]}..., which nobody has approved yet"


def _brings(brings: Sequence[UnrelatedChange]) -> tuple[Note, ...]:
    return tuple(Note(text=f"{brought_along_words(each)}.", tone=Tone.ATTENTION) for each in brings)


def _no_rows(named_rows: int | None, scope: Scope | None) -> Note | None:
    """A warning that a pilot names values that no row has, which may be mistyped."""
    if scope is None or named_rows != 0:
        return None
    named = replace(scope, is_rest=False)
    so = "every row may change" if scope.is_rest else "only rows that are new can change anything"
    return Note(
        text=f"No accepted row of these partitions has {named}, so that {so}: look whether it is mistyped.",
        tone=Tone.ATTENTION,
    )


def _above_limit(plans: Iterable[Plan]) -> Iterable[Note]:
    """A warning of what is expected to be stopped by its own limit."""
    for plan in plans:
        most, expected = plan.manifest.limits.max_rows, plan.estimate.total_rows
        if most is not None and expected > most:
            of = f"{plan.manifest.table}: about {count_of(expected, 'row')}"
            yield Note(text=f"{of} are expected, and the run stops above {most:,}.", tone=Tone.ATTENTION)


def _reads(inputs: Sequence[PlannedInput]) -> Section | None:
    rows = [
        (
            read.table,
            Partitions(read.grain, read.partitions),
            Partitions(read.grain, read.warm_up),
            read.rows,
            read.files,
            mebibytes(read.size_bytes),
        )
        for read in inputs
    ]
    numbers = ["rows", "files", "size"]
    heads = ["table", "input range", "of these warm-up and look-ahead", *numbers]
    return section("Reads", table(heads, rows, numbers=numbers))


def _expected(expected: Estimate) -> str:
    size = f", {mebibytes(expected.size_bytes)}" if expected.size_bytes is not None else ""
    time = f", {_duration(expected.seconds)} to stage and to measure" if expected.seconds is not None else ""
    return f"about {count_of(expected.total_rows, 'row')}{size}{time} (from {basis_words(expected)})"


def cost_line(cost: Cost | None, unmeasured: Sequence[str]) -> str:
    """A line on the expected cost of runs; nothing for those that compute nothing."""
    if cost is not None:
        return f"about {cost_words(cost)}"
    return f"not known, because no run of {', '.join(unmeasured)} has ended its gates" if unmeasured else ""


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _limits(limits: Limits) -> str:
    found = [f"{count_of(limits.chunk_partitions, 'partition')} at once"]
    if limits.chunk_rows:
        found.append(f"{limits.chunk_rows:,} expected rows per chunk")
    if limits.max_rows is not None:
        found.append(f"stops above {count_of(limits.max_rows, 'row')}")
    if limits.rows_per_minute:
        found.append(f"{limits.rows_per_minute:,} rows per minute")
    if limits.pause_s:
        found.append(f"{limits.pause_s} s between chunks")
    if limits.priority:
        found.append(f"priority {limits.priority}")
    if limits.max_cost is not None:
        found.append(f"stops above {cost_words(limits.max_cost)}")
    return ", ".join(found)


def _stages(stages: Sequence[Stage]) -> Section | None:
    """The stages in order; of many chunks the first and the last."""
    listed = Items(items=tuple(map(stage_words, stages)), numbered=True, most=_MOST_STAGES)
    return section("Stages", listed)


def _next(named: str, stages: Sequence[Stage]) -> Steps:
    """To run it, and where a person has to approve it, to do so when its report can be read."""
    run, waits = (
        do(Command.RUN, named),
        [each for each in stages if isinstance(each, Agree) and each.demand.policy is None],
    )
    if any(stage.repairs for stage in waits):
        return next_steps(run, step("where its report says that it waits for an approval: ", to_approve(named)))
    return next_steps(run, read_first(step(to_approve(named))) if waits else None)


def _each(sentences: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(filter(None, sentences)))


def _rebuilds(rebuilds: Sequence[Rebuild]) -> Section | None:
    rows = [
        (
            each.table,
            Partitions(each.grain, each.partitions),
            _some(each.because) or "the request",
            _some(each.only_read),
        )
        for each in rebuilds
    ]
    return section("Rebuilds", table(["table", "partitions", "because of", "only reads"], rows))


def _runs(runs: Sequence[Plan]) -> Section | None:
    rows = [
        (
            run_ref(run.manifest.run_id),
            run.manifest.output,
            f"{run.manifest.transform} {run.manifest.transform_version}",
            _kind(run.manifest),
            run.replaced_rows,
            run.chunk_count,
            _expected(run.estimate),
        )
        for run in runs
    ]
    numbers = ["replaces rows", "chunks"]
    heads = ["run", "partitions", "by", "kind", *numbers, "expected"]
    return section("Runs", table(heads, rows, numbers=numbers, whole=["run"]))


def _left_out(left_out: Sequence[LeftOutDocument]) -> Section | None:
    return section("Left out", Items(items=tuple(map(left_out_line, left_out))))


def left_out_line(left: LeftOutDocument) -> Words:
    """A line on what is not built, why, and what builds it as well."""
    return words(f"{left.some}: {why_left_out(left.some)}. To include it: ", left.include)


def _part_of(planned: int, asked_for: int) -> str:
    """The share of the request that is planned."""
    noun = count_of(asked_for, "partition")
    return f"all of {noun} asked for" if planned == asked_for else f"{planned:,} of {noun} asked for"


def _some(some: Sequence[TablePartitions]) -> str:
    return "; ".join(map(str, some))
