"""Errors of restatements: what a set had to be, how far it is, and how much of a request can be planned."""

from __future__ import annotations

from backfill_assets.core import errors
from backfill_assets.core.about import OfRun, OfSet, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.impact import each_once
from backfill_assets.planning.partitions import Partitions, TablePartitions, count_of
from backfill_assets.planning.restatement import LeftOut
from backfill_assets.publication.errors import SetIs
from backfill_assets.restatements.left_out import why_left_out

_MOST_NAMED = 3


@sentence
class SetHasNothingToUndo(SetIs):
    """set {set_id} has nothing to undo: it is {state}."""


@sentence
class MemberSuperseded(OfRun, OfSet, OfTable, errors.IllegalTransition):
    """run {run_id} of set {set_id} is {state}."""

    state: RunState
    undone_with: str | None


@sentence
class OnlyUndoneWithSet(OfRun, OfSet, errors.IllegalTransition):
    """run {run_id} belongs to set {set_id}, and is only undone with it."""


@sentence
class SetWouldBeOrphaned(OfSet, errors.LeavesOrphans):
    """rolling back {of} would leave published partitions of set {set_id} without their input: {of_tables}."""

    of: str
    left: tuple[TablePartitions, ...]

    @property
    def of_tables(self) -> str:
        return each_once(self.left)


@sentence
class HalfPublished(OfSet, errors.HalfWay):
    """{cause.message} {published} of {count} runs of set {set_id} are published."""

    published: int
    count: int
    cause: errors.BackfillError


@sentence
class HalfRolledBack(OfRun, OfSet, errors.HalfWay):
    """{cause.message} {undone} of {count} published runs of set {set_id} are rolled back."""

    undone: int
    count: int
    cause: errors.BackfillError


@sentence
class OnlyDependentsRolledBack(errors.HalfWay):
    """{cause.message} So {of} was not rolled back; its dependents were: {dependents}."""

    of: str
    dependents: tuple[str, ...]
    cause: errors.BackfillError


@sentence
class NoChangeNamed(errors.Refused):
    """the request names no change."""


@sentence
class StaleNeedsPresent(errors.Refused):
    """what is stale is rebuilt with the present references: with others it would stay as it is listed."""


@sentence
class ReproducedOneByOne(OfSet, errors.Refused):
    """{set_id} is a set, and its runs are reproduced one by one."""

    published: tuple[str, ...]


@sentence
class OpenKeepsChanging(errors.Retryable):
    """what is open changed again and again while a proposal was made; nothing was planned."""


@sentence
class OnlyCodeChanged(errors.Refused):
    """only the code changed, under the same version: {stale}."""

    stale: tuple[TablePartitions, ...]


@sentence
class NotLoaded(OfTable, errors.MissingInput):
    """{table} has days that are not built from what has landed: {partitions}."""

    partitions: Partitions


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
