"""Stages of a run, and the parts that are started separately. Nothing is executed here."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from backfill_assets.ledger.states import RunState
from backfill_assets.planning.safeguards import every
from backfill_assets.planning.stages import Agree, Compute, Expire, Hold, Measure, Notify, Prove, Stage, Swap, stages_of
from backfill_assets.requests.authority import demand_of
from backfill_assets.workspace import Workspace


class Part(StrEnum):
    """The parts of a run that are started separately: each is a separate asset in Dagster."""

    STAGE = "stage"
    GATE = "gate"
    PUBLISH = "publish"


STAGED_AND_GATED = (Part.STAGE, Part.GATE)


def parts_left(state: RunState, *, is_automatic: bool) -> tuple[Part, ...]:
    """The parts still to be executed of a run that is unfinished or has passed its gates; one that a person has to
    approve ends with these."""
    parts = tuple(Part) if is_automatic else STAGED_AND_GATED
    return tuple(part for part in parts if part is Part.PUBLISH or state is not RunState.PASSED)


def part_of(stage: Stage) -> Part:
    """The part that a stage belongs to."""
    match stage:
        case Compute() | Expire():
            return Part.STAGE
        case Measure() | Prove():
            return Part.GATE
        case Agree() | Hold() | Swap() | Notify():
            return Part.PUBLISH
    assert_never(stage)


def stages(ws: Workspace, run_id: str) -> tuple[Stage, ...]:
    """The steps of a run: the list that `plan` prints and the loop executes.

    Of one of several runs, these are the stages of all that concern it.
    """
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        runs, phases = tx.requests.runs(run.request_id), tx.sets.of(run).manifest.phases
        asked = every(demand_of(ws, tx, each) for each in runs)
    whole, manifests = run.request_id, [each.manifest for each in runs]
    listed = stages_of(manifests, ws.graph, demand=asked, phases=phases)
    return tuple(each for each in listed if (each.of if isinstance(each, Agree) else each.run_id) in (run_id, whole))
