"""Next steps that build partitions that were never built, that are stale, or of a run that cannot go on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import Days, Grain, Partitions, compress, days_in
from backfill_assets.core.next_steps import (
    NAME,
    THEN,
    WHY,
    Advice,
    Command,
    Invocation,
    NextStep,
    do,
    step,
    to_cancel,
)

if TYPE_CHECKING:
    from backfill_assets.planning.manifest import Manifest

_MOST = 5
_MOST_RANGES = 12


def how_to_fill(table: str, grain: Grain, partitions: Sequence[date], rejecting: Sequence[str] = ()) -> NextStep:
    """The next step when these partitions of an input are missing; `rejecting` as for `land_or_declare_empty`."""
    if _is_source(table):
        return land_or_declare_empty(table, partitions, rejecting)
    return joined(plans(table, grain, partitions))


def restated(table: str, partitions: Partitions) -> NextStep:
    """The commands that replace accepted rows which fail a gate; nothing is undone by itself."""
    if _is_source(table):
        located = do(Command.LOCATE, table.partition(".")[2], first=partitions.days[0], last=partitions.days[-1])
        return step("find the files that brought these rows, and land corrected ones: ", located)
    # By its whole name, which the launchpad of Dagster has as an entry.
    planned = joined([replace(each, of=(table,)) for each in plans(table, partitions.grain, partitions)])
    return step("correct the transform or its inputs, then plan a restatement: ", planned)


def _is_source(table: str) -> bool:
    return table.startswith("bronze.")


def land_or_declare_empty(table: str, days: Iterable[date], rejecting: Sequence[str] = ()) -> NextStep:
    """The next step when nothing has landed for days of a source table.

    Args:
        rejecting: The landed files with rejected records that are, or may be, of these days.
    """
    asked = sorted(days)
    loads_of_nothing = joined(loads(table, asked, empty=True))
    if not rejecting:
        return step("land the missing files; if nothing happened on these days, declare it with ", loads_of_nothing)
    return step(
        read_rejected_anew(table, asked, rejecting),
        "; or land the missing files; only if nothing happened on these days, declare it with ",
        loads_of_nothing,
    )


def read_rejected_anew(table: str, days: Sequence[date], rejecting: Sequence[str]) -> NextStep:
    """The commands that show why records were rejected that are, or may be, of some days, and that read their files
    anew."""
    source, some = table.partition(".")[2], ",".join(rejecting[:_MOST])
    return step(
        "look why records that may be of these days were rejected: ",
        do(Command.LOCATE, source, first=days[0], last=days[-1]),
        "; correct the declaration, and read their files anew: ",
        do(Command.LAND, source, again_as_declared=True, imports=some, by=NAME),
    )


def plans(
    table: str, grain: Grain, partitions: Iterable[date], *, with_dependents: bool = False
) -> Sequence[Invocation]:
    """The plans of exactly these partitions of a derived table, or of them with what is computed from them."""
    name = table.partition(".")[2]
    return [
        do(
            Command.PLAN_WITH_DEPENDENTS if with_dependents else Command.PLAN_TABLE,
            name,
            reason=WHY,
            days=days,
            by=NAME,
        )
        for days in _at_once(grain, partitions)
    ]


def _at_once(grain: Grain, partitions: Iterable[date]) -> Sequence[Days]:
    """The days of these partitions, in as many parts as a command line of readable length can name."""
    ranges = compress(grain, partitions)
    return [days_in(ranges[first : first + _MOST_RANGES]) for first in range(0, len(ranges), _MOST_RANGES)]


def plan_again(manifest: Manifest, partitions: Collection[date] | None = None) -> NextStep:
    """The next step that builds partitions of a run anew, by the same kind of change.

    Args:
        partitions: Some of its partitions; all by default.
    """
    chosen = manifest.partitions if partitions is None else tuple(partitions)
    return joined(manifest.change.planned_again(manifest.table, manifest.grain, chosen))


def fix_and_plan_again(manifest: Manifest, *, needs_more: bool = False, read_by_gates: Sequence[str] = ()) -> NextStep:
    """For a run that a gate blocks, or that its code, its rows or its limit stopped: to run it again would stop it
    again, as its inputs are pinned.

    Args:
        needs_more: Whether its limit stopped it.
        read_by_gates: What the gates that block it read anew whenever they are measured, if all of them do.
    """
    fix, how = ("fix the cause", "plan again")
    if needs_more:
        fix, how = ("find out why it needs more", "plan again with a larger limit")
    subject = manifest.request_id
    read, give_up = step(do(Command.REPORT, manifest.run_id), THEN), to_cancel(subject)
    if read_by_gates:
        named = " or ".join(read_by_gates)
        corrected = f"if the cause is in {named}, correct it there, and measure the same rows again: "
        read = step(read, corrected, do(Command.RUN, subject), "; else ")
    if manifest.is_alone:
        return step(read, f"{fix} and {how}: ", plan_again(manifest), "; or give it up: ", give_up)
    return step(read, f"{fix} and ", _together_again(manifest, how))


def measured_again(manifest: Manifest) -> NextStep:
    """For a run that was not measured with the present gates, which its manifest does not have."""
    if manifest.is_alone:
        return step("plan it again, to measure it with them: ", plan_again(manifest))
    return step("to measure it with them, ", _together_again(manifest, "plan again"))


def _together_again(manifest: Manifest, how: str) -> NextStep:
    """For one of several runs: they are planned together.

    Nothing is proposed for the partitions of a set before it is cancelled; of phases, those that are published stay.
    """
    give_up = to_cancel(manifest.request_id)
    again = joined(plans(manifest.table, manifest.grain, manifest.partitions, with_dependents=True))
    proposed = ("; or, if it was proposed: ", do(Command.PROPOSE))
    return step("cancel what is not published of the set: ", give_up, f"; then {how}: ", again, *proposed)


def plan_anew(manifest: Manifest, partitions: Collection[date]) -> NextStep:
    """For a run whose inputs have changed since it was planned."""
    return step("plan it again, so that it reads them: ", plan_again(manifest, partitions))


def loads(table: str, days: Iterable[date], *, empty: bool = False) -> Sequence[Invocation]:
    """The commands that build exactly these days of a source table; days between them may never have landed.

    Args:
        empty: Declare that nothing happened on days without landed events.
    """
    name, why = table.partition(".")[2], WHY if empty else None
    return [do(Command.LOAD, name, days=some, empty=empty, reason=why, by=NAME) for some in _at_once(Grain.DAILY, days)]


def joined(asked: Sequence[Invocation]) -> NextStep:
    """Several things to ask for as one next step; many are shortened to the first of them."""
    more = len(asked) - _MOST
    shown: list[Advice] = [*asked[:_MOST]]
    if more > 0:
        shown.append(f"and {more:,} more in the same way")
    return step(*[part for each in shown for part in ("; ", each)][1:])


def plan_stale(
    table: str | None, days: Days | None = None, *, changed_code: bool = False, partial: bool = False
) -> Invocation:
    """The plan of everything stale, of one table and of some days if they are given."""
    return do(
        Command.PLAN_STALE,
        *([table] if table else []),
        days=days,
        changed_code=changed_code,
        partial=partial,
        reason=WHY,
        by=NAME,
    )
