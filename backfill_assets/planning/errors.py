"""Errors of planning: what a request asks for, and what tables, days and references there are.

`partitions` declares the errors about days themselves, because this module imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import date

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import InvalidRange, MissingInput, Refused, UnknownName, sentence
from backfill_assets.planning.partitions import DayRange, Days, OfPartitions, Partitions, count_of


@sentence
class NoSuchName(UnknownName):
    """there is no {kind} {name!r}; the {kind}s are {known}."""

    kind: str
    name: str
    known: Sequence[str]


@sentence
class OutsideDays(OfTable, InvalidRange):
    """{table} can have partitions from {earliest} to {latest} (UTC); the range {days} is not within them."""

    earliest: date
    latest: date
    days: Days


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


@sentence
class NeverPublished(OfTable, OfPartitions, MissingInput):
    """{table} has never been published for {partitions}{so}."""

    so: str = ""
    ever: tuple[date, date] | None = None


@sentence
class AlreadyAccepted(OfTable, OfPartitions, Refused):
    """{table} only adds partitions, and these have an accepted version: {partitions}."""

    others: Partitions


@sentence
class IncompleteWindows(OfTable, MissingInput):
    """{table} needs input days that have never been built: {lacking}."""

    missing: Mapping[str, Partitions]
    held: Mapping[str, Partitions]
    first_day: date
    keeps_state: bool = False
    first: Mapping[str, Partitions] = field(default_factory=dict)
    rejecting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def lacking(self) -> str:
        return "; ".join(f"{table} lacks {some}" for table, some in self.missing.items())


@sentence
class InputsExpired(OfRun, OfTable, OfPartitions, MissingInput):
    """{table} reads {partitions} of {input}, which expired by run {run_id}: {input} does not keep these snapshots."""

    input: str


@sentence
class KeepsEverySnapshot(OfTable, Refused):
    """{table} does not declare which snapshots it keeps, so that none expires."""

    keeps_state: bool


@sentence
class NothingExpires(OfTable, Refused):
    """no snapshot of {table} expires: it keeps those of {kept} before the newest one and the last one of each {then},
    and has no others."""

    days: int
    then: str

    @property
    def kept(self) -> str:
        return count_of(self.days, "day")


@sentence
class CostUnknown(OfTable, Refused):
    """no run of {table} whose processor time was measured has ended its gates, so whether it costs at most {most} is
    not known."""

    most: str


@sentence
class TooCostly(Refused):
    """it is expected to cost {cost}, from the latest runs, and {most} at most is allowed."""

    cost: str
    most: str


@sentence
class UnclearReferences(Because, Refused):
    """{why}."""


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


@sentence
class NeverComputed(OfTable, OfPartitions, MissingInput):
    """{table} has never been published for {partitions}, so no references are recorded."""


@sentence
class VersionsNotRecorded(OfTable, OfPartitions, MissingInput):
    """{table} has rows of {partitions} for which no version of {references} is recorded."""

    references: Sequence[str]


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


@sentence
class NoPhases(OfTable, Because, Refused):
    """{table} cannot be changed in these phases: {why}."""

    #: Whether more days would have phases.
    by_days: bool


@sentence
class NoPilot(OfTable, Because, Refused):
    """{table} has no pilot of {scope}: {why}."""

    scope: str
    option: str
    unknown: str = ""
    columns: tuple[str, ...] = ()
    #: Whether other days would have a pilot.
    by_days: bool = False
