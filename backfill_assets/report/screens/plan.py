"""The plan of a run or a set: what it reads and replaces, what is left out, and every stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backfill_assets.planning.estimates import Estimate
from backfill_assets.planning.impact import Rebuild, TablePartitions, lacks
from backfill_assets.planning.manifest_parts import Limits, Mode
from backfill_assets.planning.partitions import Partitions, count_of
from backfill_assets.planning.request import PlannedInput
from backfill_assets.planning.stages import Agree, Prove, Stage
from backfill_assets.report.page import (
    Items,
    Note,
    Page,
    Section,
    Steps,
    Tone,
    Words,
    facts,
    page,
    run_ref,
    section,
    set_ref,
    table,
    words,
)
from backfill_assets.report.planned import LeftOutDocument, NothingPlanned, PlanDocument, PlannedRun, SetPlan
from backfill_assets.report.references import references_described
from backfill_assets.report.releases import BroughtAlong
from backfill_assets.report.requests import ANOTHER_PERSON, Act, do, step
from backfill_assets.report.screens.runs import backwards, mode_text, run_ids
from backfill_assets.report.values import mebibytes
from backfill_assets.report.words.plans import basis_words
from backfill_assets.report.words.releases import brought_along_words, goes_back_words
from backfill_assets.report.words.stages import policy_words, proof_words, stage_words
from backfill_assets.restatements.errors import why_left_out

_MOST_STAGES = 24


def plan_page(plan: PlanDocument) -> Page:
    """The plan of a run, as an operator reads it before asking another person to agree."""
    run = plan.run
    return page(
        words("Plan of ", run_ref(run.run_id)),
        facts(
            ("run", run_ref(run.run_id)),
            ("table", f"{run.table} by {run.transform} {run.transform_version}"),
            ("kind", f"{run.kind}: {run.reason} (asked by {run.requested_by})"),
            ("mode", mode_text(run.mode)),
            ("policy", policy_words(run.policy)),
            ("output range", Partitions(run.grain, run.output)),
            ("builds", _part_of(len(run.output), plan.asked_partitions)),
            ("left out", f"{plan.left_out}: {lacks(plan.lacks)}" if plan.left_out else None),
            ("replaces", _replaced(run)),
            ("supersedes", run_ids(run.supersedes)),
            ("expected", _expected(run.estimate)),
            ("references", references_described(run.references)),
            ("limits", _limits(run.limits)),
            ("code", ", ".join(run.code_modules)),
            ("manifest", _draft(run.manifest_digest)),
        ),
        *backwards([goes_back_words(each) for each in plan.goes_back]),
        *_brings(plan.brings),
        _reads(run.inputs),
        facts(
            ("gates", ", ".join(gate.name + ("" if gate.blocking else " (informs)") for gate in run.gates)),
            ("proof of the window", next((proof_words(each) for each in plan.stages if isinstance(each, Prove)), None)),
            ("dependents", _some(run.dependents) or "none"),
            ("open runs here", ", ".join(run.conflicts)),
        ),
        _stages(plan.stages),
        _next(run.run_id, plan.stages),
    )


def set_plan_page(plan: SetPlan) -> Page:
    """The plan of a set: what a change asks for, table by table, and what will be done."""
    conflicts = sorted({conflict for run in plan.runs for conflict in run.conflicts})
    return page(
        words("Plan of ", set_ref(plan.set_id, plan.name)),
        facts(
            ("set", set_ref(plan.set_id, plan.name)),
            ("because", plan.because),
            ("reason", f"{plan.reason} (asked by {plan.requested_by})"),
            ("builds", _part_of(plan.planned_partitions, plan.asked_partitions)),
            ("references", _each(references_described(run.references) for run in plan.runs)),
            ("policies", _each(f"{run.table}: {policy_words(run.policy)}" for run in plan.runs)),
            ("limits of each run", _each(_limits(run.limits) for run in plan.runs)),
            ("manifest", _draft(plan.manifest_digest)),
        ),
        *_brings(plan.brings),
        _rebuilds(plan.rebuilds),
        _runs(plan.runs),
        _stages(plan.stages),
        facts(("open runs here", ", ".join(conflicts))),
        _left_out(plan.left_out),
        _next(plan.set_id, plan.stages),
    )


def nothing_planned_page(plan: NothingPlanned) -> Page:
    """That nothing has to be rebuilt, and what could be."""
    nothing = "nothing has to be rebuilt"
    if plan.asked_partitions:
        nothing = f"nothing is planned: {_part_of(0, plan.asked_partitions)}"
    elif plan.left_out:
        nothing = "nothing that was built has to be rebuilt"
    return page("Nothing planned", Note(text=nothing), _left_out(plan.left_out))


def _replaced(run: PlannedRun) -> str:
    return f"{run.replaced_rows:,} accepted rows in {count_of(run.replaced_partitions, 'partition')}"


def _draft(digest: str) -> str:
    return f"sha256 {digest[:16]}... (DRAFT)"


def _brings(brings: Sequence[BroughtAlong]) -> tuple[Note, ...]:
    return tuple(Note(text=f"{brought_along_words(each)}.", tone=Tone.ATTENTION) for each in brings)


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
    time = f", {_duration(expected.seconds)} to stage" if expected.seconds is not None else ""
    if expected.between is not None:
        least, most = map(_duration, expected.between)
        time += f", {least if least == most else f'{least} to {most}'} at the pace of the latest runs"
    return f"about {count_of(expected.total_rows, 'row')}{size}{time} (from {basis_words(expected)})"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _limits(limits: Limits) -> str:
    found = [f"{count_of(limits.chunk_partitions, 'partition')} at once"]
    if limits.chunk_rows:
        found.append(f"{limits.chunk_rows:,} expected rows per chunk")
    if limits.max_rows is not None:
        found.append(f"stops above {limits.max_rows:,} rows")
    if limits.rows_per_minute:
        found.append(f"{limits.rows_per_minute:,} rows per minute")
    if limits.pause_s:
        found.append(f"{limits.pause_s} s between chunks")
    return ", ".join(found)


def _stages(stages: Sequence[Stage]) -> Section | None:
    """What will be done, in order; of many chunks the first and the last."""
    listed = Items(items=tuple(map(stage_words, stages)), numbered=True, most=_MOST_STAGES)
    return section("Stages", listed)


def _next(named: str, stages: Sequence[Stage]) -> Steps:
    """To run it, and to approve it where a person has to."""
    run, approve = do(Act.RUN, named), do(Act.APPROVE, named, by=ANOTHER_PERSON)
    waits = any(isinstance(stage, Agree) and stage.demand.policy is None for stage in stages)
    return Steps(steps=(step(approve, ", and ", run) if waits else run,))


def _each(sentences: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(filter(None, sentences)))


def _rebuilds(rebuilds: Sequence[Rebuild]) -> Section | None:
    rows = [
        (
            each.table,
            Partitions(each.grain, each.partitions),
            _some(each.because) or "it is stale",
            _some(each.only_read),
        )
        for each in rebuilds
    ]
    return section("Rebuilds", table(["table", "partitions", "because of", "only reads"], rows))


def _runs(runs: Sequence[PlannedRun]) -> Section | None:
    rows = [
        (
            run_ref(run.run_id),
            Partitions(run.grain, run.output),
            f"{run.transform} {run.transform_version}",
            run.kind if run.mode is Mode.BACKFILL else f"{run.kind}, {run.mode}",
            run.replaced_rows,
            run.chunks,
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
    """What is not built, why, and what builds it as well."""
    return words(f"{left.some}: {why_left_out(left.some)}. To include it: ", left.include)


def _part_of(planned: int, asked_for: int) -> str:
    """How much of what was asked for is planned."""
    noun = count_of(asked_for, "partition")
    return f"all of {noun} asked for" if planned == asked_for else f"{planned:,} of {noun} asked for"


def _some(some: Sequence[TablePartitions]) -> str:
    return "; ".join(map(str, some))
