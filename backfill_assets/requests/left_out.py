"""Why a plan leaves partitions out, and what builds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import assert_never

from backfill_assets.calendar.partitions import DayRange, Grain, TablePartitions, compress, describe
from backfill_assets.core.next_steps import NAME, WHY, Command, Invocation, NextStep, Option, do, step
from backfill_assets.planning.impact import LeftOut, WhyLeftOut
from backfill_assets.planning.next_steps import how_to_fill, joined, plan_stale, plans

_WHY: Mapping[WhyLeftOut, str] = {
    WhyLeftOut.NO_VERSION: "named as changed, and has no accepted version",
    WhyLeftOut.CODE_CHANGED: "only the code changed, and the version is the same",
    WhyLeftOut.CHOSEN_REFERENCES: "its references were chosen on purpose",
    WhyLeftOut.DIFFERENCE_ACCEPTED: "its owner accepted the difference",
    WhyLeftOut.BLOCKED: "an input no longer has an accepted version",
    WhyLeftOut.INPUT_EXPIRED: "an input has expired",
    WhyLeftOut.ONLY_ADDS: "the table only adds partitions, and these have an accepted version",
    WhyLeftOut.INCOMPLETE: "never built",
    WhyLeftOut.DEPENDS: "depends on these days, and was never built",
    WhyLeftOut.DAYS_NOT_NAMED: "never built, and the days were not named",
    WhyLeftOut.STALE: "stale, and not asked for",
}


def lacks(missing: Iterable[TablePartitions]) -> str:
    """The words for input partitions that do not exist."""
    return "; ".join(f"{each.table} lacks {describe(each.grain, each.partitions)}" for each in missing)


def why_left_out(left: LeftOut) -> str:
    """Why partitions are left out of a plan, with the input that is missing, for the refusal and for the screens."""
    why = _WHY[left.why]
    return f"{why}: {lacks(left.missing)}" if left.missing else why


NEW_VERSION = step(
    "give the transform a new version; or, to prove that the rows are the same, add ", Option("changed_code")
)


def how_to_include(left: LeftOut) -> NextStep:
    """The command that builds partitions that a plan leaves out."""
    table, grain, partitions = left.table, left.grain, left.partitions
    match left.why:
        case WhyLeftOut.NO_VERSION:
            return how_to_fill(table, grain, partitions, left.rejecting.get(table, ()))
        case WhyLeftOut.CODE_CHANGED:
            return NEW_VERSION
        case WhyLeftOut.CHOSEN_REFERENCES:
            present = joined(plans(table, grain, partitions))
            again = joined(as_recorded(table, grain, partitions))
            return step("with the present references: ", present, "; with the same again: ", again)
        case WhyLeftOut.DIFFERENCE_ACCEPTED:
            return joined(plans(table, grain, partitions))
        case WhyLeftOut.BLOCKED:
            return step("build the input first, or roll back what depends on it: ", do(Command.STALE, table))
        case WhyLeftOut.ONLY_ADDS:
            return added_again(table)
        case WhyLeftOut.INCOMPLETE | WhyLeftOut.INPUT_EXPIRED:
            each = [
                how_to_fill(some.table, some.grain, some.partitions, left.rejecting.get(some.table, ()))
                for some in left.missing
            ]
            return step(*[part for how in each for part in ("; ", how)][1:])
        case WhyLeftOut.DEPENDS:
            return joined(plans(table, grain, partitions))
        case WhyLeftOut.DAYS_NOT_NAMED:
            days = compress(grain, partitions)
            return step(plan_stale(table, DayRange(days[0].start, days[-1].end)))
        case WhyLeftOut.STALE:
            return step(plan_stale(table, changed_code=left.of_code), "; why: ", do(Command.STALE, table))
        case _:
            assert_never(left.why)


def added_again(table: str) -> NextStep:
    """The command that corrects partitions of a table that only adds."""
    return step("roll back the publication that added them, then plan them again: ", do(Command.HISTORY, table))


def as_recorded(table: str, grain: Grain, partitions: Iterable[date]) -> Sequence[Invocation]:
    """The plans of these partitions with the references that they were computed with."""
    return [
        do(Command.PLAN_TABLE, table, references="as-recorded", first=days.start, last=days.last, reason=WHY, by=NAME)
        for days in compress(grain, partitions)
    ]
