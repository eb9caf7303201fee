"""Plans in sentences, for the log of a Dagster run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backfill_assets.planning.partitions import count_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.planned import PlanDocument, PlannedRun, whole_sentence
from backfill_assets.report.planned_sets import NothingPlanned, SetPlan
from backfill_assets.report.stages import StageDocument

MOST_STAGES = 24
"""How many stages are logged; of more, the first and the last ones."""


def plan_lines(plan: PlanDocument) -> Iterator[str]:
    """The plan of a run: what it reads and replaces, what depends on it, and what will be done."""
    run = plan.run
    yield f"{run.run_id}: {run.table} by {run.transform} {run.transform_version}. {run.kind}: {run.reason}"
    yield from _run_lines(run)
    yield f"Builds {whole_sentence(run.output.partitions, plan.asked_partitions)}"
    if plan.left_out:
        yield f"Left out: {plan.left_out}"
    yield from (each.sentence for each in plan.goes_back)
    yield from (each.sentence for each in plan.brings)
    if plan.proof:
        yield f"Proof of the window: {plan.proof}"
    yield from _stage_lines(plan.stages)


def set_plan_lines(plan: SetPlan) -> Iterator[str]:
    """The plan of a set, run by run."""
    yield f"{plan.set_id}: {plan.reason}, because of {plan.because}"
    yield f"Builds {whole_sentence(plan.planned_partitions, plan.asked_partitions)}"
    for run in plan.runs:
        yield f"{run.run_id}: {run.table} by {run.transform} {run.transform_version}. {run.kind}"
        yield from _run_lines(run)
    yield from (each.sentence for each in plan.brings)
    yield from _left_out(plan)
    yield from _stage_lines(plan.stages)


def nothing_lines(plan: NothingPlanned) -> Iterator[str]:
    """That nothing has to be rebuilt, and what could be."""
    yield "Nothing has to be rebuilt."
    yield from _left_out(plan)


def _run_lines(run: PlannedRun) -> Iterator[str]:
    yield f"Output range: {run.output.described}"
    for read in run.inputs:
        warm_up = f", of these {read.warm_up} only as warm-up and look-ahead" if read.warm_up_partitions else ""
        yield f"Input range of {read.table}: {read.described}, {count_of(read.rows, 'row')}{warm_up}"
    replaces = run.replaces
    yield f"Replaces {count_of(replaces.rows, 'accepted row')} in {count_of(replaces.partitions, 'partition')}"
    if run.references_described:
        yield f"References {run.references_described}"
    dependents = "; ".join(f"{each.table} {each.described}" for each in run.dependents)
    yield f"Dependents: {dependents or 'none'}"
    if run.conflicts:
        yield f"Open runs over some of these partitions: {', '.join(run.conflicts)}"


def _left_out(plan: SetPlan | NothingPlanned) -> Iterator[str]:
    for each in plan.left_out:
        yield f"Left out: {each.some.table} {each.some.described}, {each.why}. To include it: {words_of(each.include)}"


def _stage_lines(stages: Iterable[StageDocument]) -> Iterator[str]:
    numbered = [f"{number}. {stage.sentence}" for number, stage in enumerate(stages, start=1)]
    if len(numbered) > MOST_STAGES:
        half = MOST_STAGES // 2
        numbered = [*numbered[:half], f"... {len(numbered) - 2 * half:,} more ...", *numbered[-half:]]
    yield from numbered
