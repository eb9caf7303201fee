"""What to do about errors of planning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from backfill_assets.core.errors import BackfillError
from backfill_assets.planning import errors
from backfill_assets.planning.partitions import (
    MalformedDays,
    Partitions,
    ReversedRange,
    are_apart,
    compress,
    partition_text,
)
from backfill_assets.report.advice.filling import how_to_fill, joined, plans
from backfill_assets.report.advice.left_out import added_again
from backfill_assets.report.requests import NAME, WHY, Act, Advice, Invocation, Option, do, step

EARLIER_FIRST_DAY = "choose later days, or set BACKFILL_FIRST_DAY to an earlier first day"
"""The next step when days before the first one are asked for or read."""

_ONE_VERSION = Option("reference", "NAME=VERSION")


def of_planning(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    match error:
        case ReversedRange(first=first, last=last):
            return step("give the earlier day first: ", Option("first", f"{last}"), " ", Option("last", f"{first}"))
        case MalformedDays(example=example, option=option):
            return step("write it like ", Option(option, example) if option else example)
        case errors.NoSuchName(kind="table" | "source"):
            return step("name one of these; ", do(Act.STATUS), " shows what each holds")
        case errors.NoSuchName(kind="transform version", name=version):
            kept = f'earlier={{"{version}": FUNCTION}}'
            return f"name one of these, or keep it runnable where the table is declared: {kept}"
        case errors.NoSuchName():
            return "name one of these" if error.known else step("leave ", Option(error.kind), " out")
        case errors.OutsideDays():
            return "choose earlier days" if error.days.start >= error.earliest else EARLIER_FIRST_DAY
        case errors.NoSnapshot(nearest=[day, *_]):
            return step("choose one of them, or a range with several: ", Option("first", f"{day}"))
        case errors.NeverPublished(table=table, ever=(first, last)):
            first_and_last = (partition_text(error.partitions.grain, each) for each in (first, last))
            return step(
                f"choose one from {' to '.join(first_and_last)}, written like the first; ",
                do(Act.HISTORY, table),
                " lists what was published",
            )
        case errors.NeverPublished(table=table):
            return step("choose published days: ", do(Act.STATUS), ", or ", do(Act.HISTORY, table))
        case errors.AlreadyAccepted(others=others):
            new = ("plan those without one: ", joined(_plans(error.table, [others])), "; or, to correct them, ")
            return step(*(new if others.days else ()), added_again(error.table))
        case errors.IncompleteWindows():
            return _of_windows(error)
        case errors.InputsExpired():
            again = joined(plans(error.input, error.partitions.grain, error.partitions))
            return step("plan other days, or compute these snapshots again first: ", again)
        case errors.KeepsEverySnapshot(keeps_state=False):
            return "name a table that keeps state: only its partitions are snapshots"
        case errors.KeepsEverySnapshot():
            return f"declare it in {error.table}: reads_self(keep=Kept(days=90, then='month'))"
        case errors.NothingExpires():
            return "nothing has to be done"
        case errors.CostUnknown():
            return step("leave ", Option("max-cost"), " out for its first run")
        case errors.TooCostly():
            return step("plan fewer days, or allow more with ", Option("max-cost"))
        case errors.UnclearReferences():
            return step("with ", Option("references", "corrected"), " give ", _ONE_VERSION, " once for each reference")
        case errors.ReferencesNotUsed(known=[first, *_]):
            return step("name one of these: ", Option("reference", f"{first}=VERSION"))
        case errors.ReferencesNotUsed():
            return step("leave ", Option("references"), " out")
        case errors.NoPilot(columns=[first, *_]):
            near = get_close_matches(error.unknown, error.columns, n=1) or [first]
            return f"name rows by one of these columns, such as {near[0]}=VALUE"
        case errors.NoPilot():
            return "plan whole partitions, or name rows by other columns"
        case errors.NoPhases():
            return "plan it without phases, or other days or phases"
        case errors.NeverComputed() | errors.VersionsNotRecorded():
            return step("plan these with the present references: ", joined(_plans(error.table, [error.partitions])))
        case errors.SeveralVersions():
            each = _plans(error.table, [some for some, _ in error.groups], "as-recorded")
            return step("plan them one by one: ", joined(each))
        case _:
            return None


def _of_windows(error: errors.IncompleteWindows) -> Advice:
    table, missing = next(iter(error.missing.items()))
    held = error.held.get(table)
    if missing.days[0] >= error.first_day and held and error.keeps_state and missing.days[-1] < held.days[0]:
        begins = held.days[0]
        return (
            f"say where its state begins: reads_self(since=date({begins.year}, {begins.month}, {begins.day})) "
            f"in the declaration of {error.table}; {table} has {held.span}"
        )
    # What has to be there first can be further back: a plan of what lacks inputs itself would be refused as well.
    first, lacking = next(iter(error.first.items()), (table, missing))
    held = error.held.get(first)
    if lacking.days[0] < error.first_day:
        return f"{EARLIER_FIRST_DAY}, and then land the days before the present one, or load them as empty"
    behind = "" if first in error.missing else f"begin with {first}, which {table} rests on and which lacks {lacking}: "
    if held and are_apart(lacking, held):
        # Perhaps another year was meant: to declare that nothing happened would make up a history.
        how = "land the missing files" if first.startswith("bronze.") else "build what is missing"
        return f"choose other days: {first} has {held.span}; or {how} first"
    return step(*([behind] if behind else []), how_to_fill(first, lacking.grain, lacking.days))


def _plans(table: str, groups: Iterable[Partitions], references: str | None = None) -> Sequence[Invocation]:
    """The plans of these partitions, one for each range of days that follow each other within a group."""
    days = sorted(days for some in groups for days in compress(some.grain, some))
    return [
        do(Act.PLAN, table, references=references, first=each.start, last=each.last, reason=WHY, by=NAME)
        for each in days
    ]
