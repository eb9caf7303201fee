"""Errors of restatements: what a set had to be, how far it is, and how much of a request can be planned."""

from __future__ import annotations

from backfill_assets.calendar.partitions import TablePartitions, count_of
from backfill_assets.core import errors
from backfill_assets.core.about import OfRun, OfSet, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.core.next_steps import Advice, Command, NextStep, Option, do, step
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.impact import each_once
from backfill_assets.planning.next_steps import joined
from backfill_assets.planning.restatement import LeftOut
from backfill_assets.restatements.left_out import how_to_include, why_left_out

_MOST_NAMED = 3


@sentence
class MemberSuperseded(OfRun, OfSet, OfTable, errors.IllegalTransition):
    """run {run_id} of set {set_id} is {state}."""

    state: RunState
    undone_with: str | None

    @property
    def advice(self) -> str:
        if self.undone_with is not None:
            return "undo the later publication first: [rollback {undone_with} by=NAME reason=WHY]"
        return "[history {table}]; roll back the later publication first"


@sentence
class SetWouldBeOrphaned(OfSet, errors.LeavesOrphans):
    """rolling back {of} would leave published partitions of set {set_id} without their input: {of_tables}.

    Next: a set is rolled back in one act, so roll it back first: [rollback {set_id} by=NAME reason=WHY]
    """

    of: str
    left: tuple[TablePartitions, ...]

    @property
    def of_tables(self) -> str:
        return each_once(self.left)


@sentence
class HalfPublished(OfSet, errors.HalfWay):
    """{cause.message} {published} of {count} runs of set {set_id} are published.

    Next: [recover], which completes the set or reverses it{or_first}
    """

    published: int
    count: int
    cause: errors.BackfillError

    @property
    def or_first(self) -> NextStep | None:
        return step("; or first ", self.cause.next_step) if self.cause.next_step else None


@sentence
class ReproducedOneByOne(OfSet, errors.Refused):
    """{set_id} is a set, and its runs are reproduced one by one."""

    published: tuple[str, ...]

    @property
    def advice(self) -> Advice:
        if not self.published:
            return "[status {set_id}]"
        return joined([do(Command.REPRODUCE, run_id) for run_id in self.published])


@sentence
class OnlyPart(errors.Refused):
    """{planned:,} of {asked} asked for can be planned. Left out: {named}."""

    planned: int
    asked_for: int
    left_out: tuple[LeftOut, ...]

    @property
    def asked(self) -> str:
        return count_of(self.asked_for, "partition")

    @property
    def named(self) -> str:
        more = len(self.left_out) - _MOST_NAMED
        named = [f"{each}: {why_left_out(each)}" for each in self.left_out[:_MOST_NAMED]]
        return "; ".join([*named, *([f"and {more:,} more"] if more > 0 else [])])

    @property
    def advice(self) -> Advice | None:
        if not self.left_out:
            return None
        included = how_to_include(self.left_out[0])
        less = step("; or, to plan less than was asked for, add ", Option("partial"))
        return step(included, less) if self.planned else included
