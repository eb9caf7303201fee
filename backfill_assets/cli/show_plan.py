"""Terminal views of the plans of runs and sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import facts, listing, mebibytes
from backfill_assets.planning.manifest_parts import Limits, Mode
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.planned import (
    InputOfRun,
    PlanDocument,
    PlannedCost,
    PlannedRun,
    SomePartitions,
    whole_sentence,
)
from backfill_assets.report.planned_sets import (
    LeftOutDocument,
    NothingPlanned,
    RebuildDocument,
    SetPlan,
)
from backfill_assets.report.screens.runs import mode_text, run_ids
from backfill_assets.report.stages import StageDocument
from backfill_assets.report.version_changes import BroughtAlong

_MOST_STAGES = 24


def plan_view(plan: PlanDocument) -> RenderableType:
    """The plan as an operator reads it before asking another person to agree."""
    run = plan.run
    gates = ", ".join(gate.name + ("" if gate.blocking else " (informs)") for gate in run.gates)
    below = facts(
        [
            ("builds", whole_sentence(run.output.partitions, plan.asked_partitions)),
            ("left out", plan.left_out),
            ("gates", gates),
            ("proof of the window", plan.proof),
            ("dependents", _some(run.dependents) or "none"),
            ("open runs here", ", ".join(run.conflicts)),
        ]
    )
    parts: list[RenderableType] = [
        _head(run),
        "",
        *(Text(f"{each.sentence}.", style="bold yellow") for each in plan.goes_back),
        *_brings(plan.brings),
        _reads(run.inputs),
        "",
        below,
    ]
    return Group(*parts, "", stages_view(plan.stages))


def _head(run: PlannedRun) -> RenderableType:
    replaced = f"{run.replaces.rows:,} accepted rows in {count_of(run.replaces.partitions, 'partition')}"
    return facts(
        [
            ("run", run.run_id),
            ("table", f"{run.table} by {run.transform} {run.transform_version}"),
            ("kind", f"{run.kind}: {run.reason} (asked by {run.requested_by})"),
            ("mode", mode_text(run.mode)),
            ("policy", run.policy.sentence),
            ("output range", run.output.described),
            ("replaces", replaced),
            ("supersedes", run_ids(run.supersedes)),
            ("expected", _expected(run.estimate)),
            ("references", run.references_described),
            ("limits", _limits(run.limits)),
            ("code", ", ".join(run.code_modules)),
            ("manifest", _draft(run.manifest_digest)),
        ]
    )


def _draft(digest: str) -> str:
    return f"sha256 {digest[:16]}... (DRAFT)"


def _reads(inputs: Sequence[InputOfRun]) -> RenderableType:
    rows = [
        [read.table, read.described, read.warm_up, read.rows, read.files, mebibytes(read.size_bytes)] for read in inputs
    ]
    heads = ["table", "input range", "of these warm-up and look-ahead", "rows", "files", "MiB"]
    return listing("reads", heads, rows, numbers=["rows", "files", "MiB"])


def _expected(expected: PlannedCost) -> str:
    size = f", {expected.size_bytes / 2**20:,.1f} MiB" if expected.size_bytes is not None else ""
    time = f", {_duration(expected.seconds)} to stage" if expected.seconds is not None else ""
    if expected.at_least_seconds is not None and expected.at_most_seconds is not None:
        least, most = _duration(expected.at_least_seconds), _duration(expected.at_most_seconds)
        time += f", {least if least == most else f'{least} to {most}'} at the pace of the latest runs"
    return f"about {expected.rows:,} rows{size}{time} (from {expected.based_on})"


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


def stages_view(stages: Sequence[StageDocument]) -> RenderableType:
    """What will be done, in order; many chunks are shortened to the first and the last of them."""
    numbered = [f"{number:>3}. {stage.sentence}" for number, stage in enumerate(stages, start=1)]
    if len(numbered) > _MOST_STAGES:
        left_out = len(numbered) - _MOST_STAGES
        half = _MOST_STAGES // 2
        numbered = [*numbered[:half], f"     ... {left_out:,} more; --json has all", *numbered[-half:]]
    return Group(Text("stages", style="bold"), *(Text(line) for line in numbered))


def set_plan_view(plan: SetPlan) -> RenderableType:
    """What a change asks for, table by table, and what will be done."""
    conflicts = sorted({conflict for run in plan.runs for conflict in run.conflicts})
    parts: list[RenderableType] = [
        _set_head(plan),
        "",
        *_brings(plan.brings),
        _rebuilds(plan.rebuilds),
        "",
        _set_runs(plan.runs),
        "",
    ]
    parts.append(stages_view(plan.stages))
    if conflicts:
        parts += ["", facts([("open runs here", ", ".join(conflicts))])]
    return Group(*parts, *_left_out(plan.left_out))


def _brings(brings: Sequence[BroughtAlong]) -> list[RenderableType]:
    lines: list[RenderableType] = [Text(f"{each.sentence}.", style="yellow") for each in brings]
    return [*lines, ""] if lines else []


def _set_head(plan: SetPlan) -> RenderableType:
    return facts(
        [
            ("set", plan.set_id if plan.name == plan.set_id else f"{plan.set_id} ({plan.name})"),
            ("because", plan.because),
            ("reason", f"{plan.reason} (asked by {plan.requested_by})"),
            ("builds", whole_sentence(plan.planned_partitions, plan.asked_partitions)),
            ("references", _each(run.references_described for run in plan.runs if run.references_described)),
            ("policies", _each(f"{run.table}: {run.policy.sentence}" for run in plan.runs)),
            ("limits of each run", _each(_limits(run.limits) for run in plan.runs)),
            ("manifest", _draft(plan.manifest_digest)),
        ]
    )


def _each(sentences: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(sentences))


def _rebuilds(rebuilds: Sequence[RebuildDocument]) -> RenderableType:
    rows = [
        [rebuild.table, rebuild.described, _some(rebuild.because) or "it is stale", _some(rebuild.only_read)]
        for rebuild in rebuilds
    ]
    return listing("rebuilds", ["table", "partitions", "because of", "only reads"], rows)


def _set_runs(runs: Sequence[PlannedRun]) -> RenderableType:
    rows = [
        [
            run.run_id,
            run.output.described,
            f"{run.transform} {run.transform_version}",
            run.kind if run.mode is Mode.BACKFILL else f"{run.kind}, {run.mode}",
            run.replaces.rows,
            run.chunks,
            _expected(run.estimate),
        ]
        for run in runs
    ]
    heads = ["run", "partitions", "by", "kind", "replaces rows", "chunks", "expected"]
    return listing("runs", heads, rows, numbers=["replaces rows", "chunks"])


def nothing_planned_view(plan: NothingPlanned) -> RenderableType:
    """That nothing has to be rebuilt, and what could be."""
    nothing = "nothing has to be rebuilt"
    if plan.asked_partitions:
        nothing = f"nothing is planned: {whole_sentence(0, plan.asked_partitions)}"
    elif plan.left_out:
        nothing = "nothing that was built has to be rebuilt"
    return Group(Text(nothing), *_left_out(plan.left_out))


def _left_out(left_out: Sequence[LeftOutDocument]) -> Sequence[RenderableType]:
    if not left_out:
        return []
    rows = [[each.some.table, each.some.described, each.why, each.include] for each in left_out]
    return ["", listing("left out", ["table", "partitions", "because", "to include them"], rows)]


def _some(some: Sequence[SomePartitions]) -> str:
    return "; ".join(f"{each.table} {each.described}" for each in some)
