"""Which parts of a run are started by themselves, and which stage belongs to which?"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from backfill_assets.planning.stages import Agree, Compute, Measure, Notify, Prove, Stage, Swap


class Part(StrEnum):
    """The parts of a run that are started by themselves: each is an asset of its own in Dagster."""

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
