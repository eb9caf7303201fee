"""Stages of a run or a set, and the parts that are started separately. Nothing is executed here."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from backfill_assets.ledger.members import members_of
from backfill_assets.planning.policy import every
from backfill_assets.planning.sets import is_set
from backfill_assets.planning.stages import Agree, Compute, Measure, Notify, Prove, Stage, Swap, stages_of
from backfill_assets.publication.authority import demand_of
from backfill_assets.workspace import Workspace


class Part(StrEnum):
    """The parts of a run that are started separately: each is a separate asset in Dagster."""

    STAGE = "stage"
    GATE = "gate"
    PUBLISH = "publish"


def part_of(stage: Stage) -> Part:
    """The part that a stage belongs to."""
    match stage:
        case Compute():
            return Part.STAGE
        case Measure() | Prove():
            return Part.GATE
        case Agree() | Swap() | Notify():
            return Part.PUBLISH
    assert_never(stage)


def stages(ws: Workspace, name: str) -> tuple[Stage, ...]:
    """What a run or a set does, step by step: the list that `plan` prints and the loop executes.

    Raises:
        UnknownName: There is no such run or set.
    """
    with ws.ledger.read() as tx:
        if not is_set(name):
            run = tx.runs.get(name)
            return stages_of([run.manifest], ws.graph, demand=demand_of(ws, tx, run))
        members = members_of(tx.runs, tx.sets.get(name))
        asked = every(demand_of(ws, tx, member) for member in members)
    return stages_of([member.manifest for member in members], ws.graph, of=name, demand=asked)
