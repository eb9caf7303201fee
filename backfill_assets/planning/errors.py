"""Errors of planning: what a request asks for, and what tables, days and references there are.

`partitions` declares the errors about days themselves, because this module imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import date
from difflib import get_close_matches

from backfill_assets.calendar.partitions import (
    DayRange,
    Days,
    OfPartitions,
    Partitions,
    are_apart,
    compress,
    days_in,
    partition_text,
)
from backfill_assets.core.about import Because, OfTable
from backfill_assets.core.errors import InvalidRange, MissingInput, Refused, UnknownName, sentence
from backfill_assets.core.next_steps import NAME, WHY, Advice, Command, Invocation, Option, do, step
from backfill_assets.planning.next_steps import how_to_fill, joined


def earlier_first_day(day: date, *, or_later: bool = True) -> str:
    """The next step when days before the first one are asked for or read."""
    return f"{'choose later days, or ' if or_later else ''}set BACKFILL_FIRST_DAY to {day}"


def _plans(
    table: str, groups: Iterable[Partitions], references: str | None = None, kind: str | None = None
) -> Sequence[Invocation]:
    """The plans of these partitions, one for each group."""
    days = [days_in(compress(some.grain, some)) for some in groups]
    return [
        do(Command.PLAN_TABLE, table, kind=kind, references=references, days=each, reason=WHY, by=NAME) for each in days
    ]


@sentence
class NoSuchName(UnknownName):
    """there is no {kind} {name!r}; the {kind}s are {known}."""

    kind: str
    name: str
    known: Sequence[str]

    @property
    def advice(self) -> Advice:
        match self.kind:
            case "table" | "source":
                return "name one of these; [status] shows what each holds"
            case "transform version":
                return (
                    'name one of these, or keep it runnable where the table is declared: earlier={{"{name}": FUNCTION}}'
                )
            case _:
                return "name one of these" if self.known else step("leave ", Option(self.kind), " out")


@sentence
class OutsideDays(OfTable, InvalidRange):
    """{table} can have partitions from {earliest} to {latest} (UTC); the range {days} is not within them."""

    earliest: date
    latest: date
    days: Days

    @property
    def advice(self) -> str:
        return "choose earlier days" if self.days.start >= self.earliest else earlier_first_day(self.days.start)


@sentence
class NoSnapshot(OfTable, InvalidRange):
    """{table} has a snapshot every {every} days since {since}, and no snapshot of {days}; the nearest: {days_near}."""

    days: DayRange
    every: int
    since: date
    nearest: Sequence[date]

    @property
    def days_near(self) -> str:
        return " and ".join(map(str, self.nearest))

    @property
    def advice(self) -> str | None:
        return "choose one of them, or a range with several: [first={first}]" if self.nearest else None

    @property
    def first(self) -> date:
        return self.nearest[0]


@sentence
class NeverPublished(OfTable, OfPartitions, MissingInput):
    """{table} has never been published for {partitions}{so}."""

    so: str = ""
    ever: tuple[date, date] | None = None

    @property
    def advice(self) -> str:
        if self.ever is None:
            return "choose published days: [status], or [history {table}]"
        return "choose one from {written}, written like the first; [history {table}] lists what was published"

    @property
    def written(self) -> str:
        return " to ".join(partition_text(self.partitions.grain, each) for each in self.ever or ())


@sentence
class IncompleteWindows(OfTable, MissingInput):
    """{table} needs input days that have never been built: {lacking}."""

    missing: Mapping[str, Partitions]
    held: Mapping[str, Partitions]
    first_day: date
    has_snapshots: bool = False
    first: Mapping[str, Partitions] = field(default_factory=dict)
    rejecting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def lacking(self) -> str:
        return "; ".join(f"{table} lacks {some}" for table, some in self.missing.items())

    @property
    def advice(self) -> Advice:
        table, missing = next(iter(self.missing.items()))
        held = self.held.get(table)
        if missing.days[0] >= self.first_day and held and self.has_snapshots and missing.days[-1] < held.days[0]:
            begins = held.days[0]
            return step(
                f"say where its state begins: reads_self(since=date({begins.year}, {begins.month}, {begins.day})) "
                f"in the declaration of {self.table}; {table} has {held.span}"
            )
        # What has to be there first can be further back: a plan of what lacks inputs itself would be refused as well.
        first, lacking = next(iter(self.first.items()), (table, missing))
        held = self.held.get(first)
        if lacking.days[0] < self.first_day:
            # Later days lead on only where they lack nothing themselves.
            only_before = lacking.days[-1] < self.first_day
            since = "before the present one" if only_before else "from then on"
            return step(
                f"{earlier_first_day(lacking.days[0], or_later=only_before)}, and then land the days {since} that are "
                "missing, or load them as empty"
            )
        behind = f"begin with {first}, which {table} rests on and which lacks {lacking}: "
        if held and are_apart(lacking, held) and first not in self.rejecting:
            # Perhaps another year was meant: to declare that nothing happened would make up a history.
            how = "land the missing files" if first.startswith("bronze.") else "build what is missing"
            return step(f"choose other days: {first} has {held.span}; or {how} first")
        filled = how_to_fill(first, lacking.grain, lacking.days, self.rejecting.get(first, ()))
        return filled if first in self.missing else step(behind, filled)


@sentence
class UnclearReferences(Because, Refused):
    """{why}.

    Next: with [references=corrected] give [reference=NAME=VERSION] once for each reference
    """


@sentence
class ReferencesNotUsed(Refused):
    """{found}."""

    asked: Sequence[str]
    tables: Sequence[str]
    known: Sequence[str]

    @property
    def found(self) -> str:
        tables = ", ".join(self.tables)
        if not self.known:
            return f"no reference is used by {tables}, so there is no version of one to choose"
        return f"{' and '.join(self.asked)} is not a reference of {tables}; used are {', '.join(self.known)}"

    @property
    def advice(self) -> str:
        return "name one of these: [reference={first}=VERSION]" if self.known else "leave [references=True] out"

    @property
    def first(self) -> str:
        return self.known[0]


@sentence
class SeveralVersions(OfTable, Refused):
    """the rows of {table} were computed with different versions of its {parts}, and a run has one of each:
    {found}."""

    groups: Sequence[tuple[Partitions, Mapping[str, str]]]
    is_repair: bool = False

    @property
    def parts(self) -> str:
        return "code, scope, references or inputs" if self.is_repair else "references"

    @property
    def found(self) -> str:
        return "; ".join(f"{some}, with {', '.join(map(' '.join, used.items()))}" for some, used in self.groups)

    @property
    def advice(self) -> Advice:
        references, kind = (None, "repair") if self.is_repair else ("as-recorded", None)
        each = _plans(self.table, [some for some, _ in self.groups], references, kind)
        return step("plan them one by one: ", joined(each))


@sentence
class NoPhases(OfTable, Because, Refused):
    """{table} cannot be changed in these phases: {why}."""

    #: True if more days would have phases.
    by_days: bool

    @property
    def advice(self) -> str:
        return "name more days, or leave [phases=True] out" if self.by_days else "leave [phases=True] out"


@sentence
class NoPilot(OfTable, Because, Refused):
    """{table} has no pilot of {scope}: {why}."""

    scope: str
    option: str
    unknown: str = ""
    columns: tuple[str, ...] = ()
    #: True if other days would have a pilot.
    by_days: bool = False

    @property
    def advice(self) -> Advice:
        if self.columns:
            return "name rows by one of these columns, such as {alike}=VALUE"
        if not self.by_days:
            return step("plan whole partitions: leave ", Option(self.option), " out")
        return step("name days that have accepted rows, or leave ", Option(self.option), " out")

    @property
    def alike(self) -> str:
        return [*get_close_matches(self.unknown, self.columns, n=1), self.columns[0]][0]
