"""Restatement: a request that concerns several tables, the plan for it, and what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.calendar.partitions import DayRange, Days, MalformedDays, days_between
from backfill_assets.planning.impact import LeftOut, Rebuild, asked_of
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import NO_LIMITS_ASKED, THE_PRESENT, AskedLimits, AskedReferences, Plan
from backfill_assets.planning.sets import SetManifest
from backfill_assets.planning.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRequest:
    """The request for a restatement set."""

    reason: str
    by: str
    #: Days of tables that have changed or were found wrong; everything that depends on them is rebuilt.
    because: tuple[tuple[str, DayRange], ...] = ()
    stale: bool = False  #: True if everything stale is rebuilt, with everything that depends on it.
    #: True if `days` of `table` are rebuilt, stale or not, with everything that depends on them.
    with_dependents: bool = False
    table: str | None = None  #: With `stale`: only this table and what depends on it.
    #: With `stale`: only these days of the stale tables, including days that were never built. One range of them or
    #: several.
    days: Days | None = None
    name: str | None = None  #: The display name of the set; None to derive one.
    called: str | None = None  #: The cause in words, where it is too long to be spelled out; None to do so.
    mode: Mode = Mode.BACKFILL
    limits: AskedLimits = NO_LIMITS_ASKED
    changed_code: bool = False
    #: True if less than the named days is planned as well, where some of them cannot be or are left out.
    partial: bool = False
    references: AskedReferences = THE_PRESENT  #: With which versions of their references the runs are to be computed.
    max_cost: Decimal | None = None  #: The most that all runs together may be expected to cost; None for no limit.

    @property
    def cause(self) -> str:
        causes = [f"{table}:{days}" for table, days in self.because]
        if self.stale:
            causes.append(f"stale {self.table or 'tables'}" + (f" {self.days}" if self.days else ""))
        if self.with_dependents:
            causes.append(f"{self.table}:{self.days} with its dependents")
        return ", ".join(causes)


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToRebuild:
    """The answer to a request that asks for no run."""

    left_out: tuple[LeftOut, ...]  #: What is not built, each partition once.

    @property
    def asked_for(self) -> int:
        return asked_of(self.left_out)


@dataclass(frozen=True, kw_only=True)
class PlannedSet:
    """A set with everything a person needs to see before approving it."""

    manifest: SetManifest  #: What an approver approves of the set; each of its runs has a contract of its own.
    rebuilds: tuple[Rebuild, ...]  #: What has to be rebuilt, table by table, and what is only read.
    left_out: tuple[LeftOut, ...]  #: What is not built, each partition once.
    plans: tuple[Plan, ...]  #: One per table, in the order of the set.
    stages: tuple[Stage, ...]  #: What will be done, in order.

    @property
    def planned(self) -> int:
        """The number of partitions that it builds, of all tables."""
        return sum(len(rebuild.partitions) for rebuild in self.rebuilds)

    @property
    def asked_for(self) -> int:
        """The number of partitions that the request asked for."""
        return self.planned + asked_of(self.left_out)


def parse_because(text: str) -> tuple[str, DayRange]:
    """Parses a table with its days: `bronze.case_events:2006-03-15..2006-03-20`.

    A single day needs no `..`, and a month or a year is all its days: `bronze.case_events:2006-02`.

    Raises:
        InvalidRange: It is not of that form.
    """
    table, colon, days = text.partition(":")
    if not (table and colon and days):
        raise MalformedDays(
            why=f"{text!r} does not name the days of a table that have changed",
            example="TABLE:2006-03-15..2006-03-20",
        )
    return table, days_between(days)
