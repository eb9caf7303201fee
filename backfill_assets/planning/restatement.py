"""Restatement: a request that concerns several tables, the plan for it, and which changed days are proposed together.

Proposals are such that no partition is in two open ones. A draft stays as long as nothing new touches its partitions;
otherwise a new one takes over its days. Any other open plan keeps its partitions: changed days that reach them wait
until it is published or cancelled. Days between which keys have moved are one decision: they wait, follow or are
proposed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum
from itertools import combinations
from types import MappingProxyType

from backfill_assets.calendar.partitions import DayRange, Days, MalformedDays, TablePartitions, days_between
from backfill_assets.core.grouped import grouped
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import Rebuild, impact
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


class WhyLeftOut(StrEnum):
    """Why a plan does not build partitions."""

    NO_VERSION = "NO_VERSION"
    CODE_CHANGED = "CODE_CHANGED"
    CHOSEN_REFERENCES = "CHOSEN_REFERENCES"
    DIFFERENCE_ACCEPTED = "DIFFERENCE_ACCEPTED"
    BLOCKED = "BLOCKED"
    INPUT_EXPIRED = "INPUT_EXPIRED"
    ONLY_ADDS = "ONLY_ADDS"
    INCOMPLETE = "INCOMPLETE"
    DEPENDS = "DEPENDS"
    DAYS_NOT_NAMED = "DAYS_NOT_NAMED"
    STALE = "STALE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut(TablePartitions):
    """Partitions of a table that a plan does not build."""

    why: WhyLeftOut  #: Why they are left out.
    #: With INCOMPLETE and INPUT_EXPIRED: the input partitions that they read and that do not exist, by input.
    missing: tuple[TablePartitions, ...] = ()
    #: True if the request asked for them; otherwise they are stale, or were never built, besides.
    is_asked: bool = True
    of_code: bool = False  #: With STALE: whether only the code changed for some of them, under the same version.
    #: With `missing`: by source, the landed files with rejected records that are, or may be, of these days.
    rejecting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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


def asked_of(left_out: Iterable[LeftOut]) -> int:
    """The number of left out partitions that were asked for."""
    return sum(len(each.partitions) for each in left_out if each.is_asked)


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


SourceDay = tuple[str, date]
"""A source table and one of its days."""

Area = Mapping[str, AbstractSet[date]]
"""Partitions by table."""

NOWHERE: Area = MappingProxyType({})

Closure = Callable[[AbstractSet[SourceDay]], Area]
"""The accepted partitions that have to be rebuilt when these days have changed, through all tables; that of two sets of
days together is both of theirs together."""


def closure_of(
    graph: Graph,
    outdated: Mapping[SourceDay, Area],
    accepted: Area,
    expired: Area = NOWHERE,
) -> Closure:
    """The partitions to rebuild because of changed days: those that read them before they changed, and their
    dependents.

    What was published since, and has read what is accepted of them now, is not built again; of a table that keeps
    state, all snapshots from the day on are.

    Args:
        outdated: By changed day, the partitions that read it directly before it changed.
        accepted: The accepted partitions of derived tables.
        expired: Snapshots that are not there any more.
    """

    def closure(days: AbstractSet[SourceDay]) -> Area:
        rebuild: dict[str, set[date]] = {}
        for source, day in days:
            for table, partitions in outdated.get((source, day), NOWHERE).items():
                node = graph.table(table)
                later = {p for edge in node.carried(source) for p in graph.reached(edge, node, [day])} & accepted[table]
                rebuild.setdefault(table, set()).update(partitions, later)
        found = impact(graph, {}, accepted, rebuild=rebuild, expired=expired)
        return {each.table: frozenset(each.partitions) for each in found}

    return closure


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDraft:
    """A proposal that was neither approved nor begun, so that a newer one may replace it."""

    set_id: str
    days: frozenset[SourceDay]  #: The changed days that it restates.
    area: Area
    is_current: bool  #: True if it still reads and replaces what is accepted now.


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedProposal:
    """The reason why partitions stay as they are: an open plan, or an obstacle to any plan.

    Args:
        name: The run or the set; for an obstacle, what it is.
        area: Its partitions.
    """

    name: str
    area: Area


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about every changed day: each is in exactly one of these."""

    #: Restated by new drafts, one each: days are in one as far as tables connect them, whether through what they
    #: rebuild or because keys moved between them.
    proposed: tuple[frozenset[SourceDay], ...]
    stays: Mapping[str, frozenset[SourceDay]]  #: Restated by a draft that is open already, by set.
    automatic: frozenset[SourceDay]  #: Restated by policy, as a follow-up.
    #: Not proposed, because it reaches partitions that others keep, or is one decision with days that do; with the
    #: names of what keeps them.
    waits: Mapping[SourceDay, tuple[str, ...]]
    together: frozenset[SourceDay] = frozenset()  #: Those of the waiting days that reach no such partition themselves.
    #: Drafts that are cancelled, because the new one has their days or nothing is left of them.
    replaced: tuple[str, ...]


def decide(
    changed: AbstractSet[SourceDay],
    *,
    drafts: Sequence[OpenDraft] = (),
    kept: Sequence[UnchangedProposal] = (),
    may_follow: AbstractSet[SourceDay] = frozenset(),
    linked: Sequence[AbstractSet[SourceDay]] = (),
    for_a_person: Area = NOWHERE,
    closure: Closure,
) -> Decision:
    """Decides what becomes of changed days.

    Args:
        kept: Everything else that is open, and obstacles.
        may_follow: Days whose restatement policy allows without a person. Where it meets other days that a person has
            to approve, a person approves both.
        linked: Groups of days that are one decision; no day is in two.
        for_a_person: Partitions that would change for other reasons too: what reaches them does not follow.
        closure: What has to be rebuilt because of days.
    """
    reaching = _waiting(changed, kept, closure)
    waits = {**reaching, **dict(_with_others(reaching, changed, linked))}
    free = changed - waits.keys()
    others = together([for_a_person, closure(waits.keys()) if waits else {}])
    # Two drafts over the same partitions or decision are never planned; found all the same, both are replaced by one.
    twice = {each.set_id for pair in combinations(drafts, 2) if _are_one(*pair, linked) for each in pair}
    staying = [each for each in drafts if each.is_current and each.days <= free and each.set_id not in twice]
    automatic = (free & may_follow).difference(*(each.days for each in staying))
    pool = free.difference(automatic, *(each.days for each in staying))
    grows = True
    while grows:
        area = closure(pool) if pool else {}
        tied = _tied(pool, linked)
        met = [each for each in staying if _meet(each.area, area) or not tied.isdisjoint(each.days)]
        staying = [each for each in staying if each not in met]
        around = together([area, others, *(each.area for each in (*met, *staying))])
        caught = _touching(automatic, around, closure)
        caught |= automatic & _tied(changed - (automatic - caught), linked)
        automatic -= caught
        pool = pool.union(caught, *(each.days for each in met))
        grows = bool(met or caught)
    names = {each.set_id for each in staying}
    return Decision(
        proposed=tuple(_apart(pool, linked, closure)),
        stays={each.set_id: each.days for each in staying},
        automatic=frozenset(automatic),
        waits=dict(sorted(waits.items())),
        together=frozenset(waits.keys() - reaching.keys()),
        replaced=tuple(each.set_id for each in drafts if each.set_id not in names),
    )


def _apart(
    days: AbstractSet[SourceDay], linked: Sequence[AbstractSet[SourceDay]], closure: Closure
) -> Iterator[frozenset[SourceDay]]:
    """The days by what tables connect: sources of which a table reads both, directly or not, and moved keys."""
    of_source = grouped((source, (source, day)) for source, day in sorted(days))
    ties = [{source, *closure(frozenset(some))} for source, some in of_source.items()]
    ties += [{source for source, _ in group & days} for group in linked if group & days]
    components: list[set[str]] = []
    for tie in ties:
        met = [each for each in components if not each.isdisjoint(tie)]
        components = [*(each for each in components if each not in met), tie.union(*met)]
    for tables in sorted(components, key=min):
        if some := frozenset(day for day in days if day[0] in tables):
            yield some


def _waiting(
    changed: AbstractSet[SourceDay], kept: Sequence[UnchangedProposal], closure: Closure
) -> Mapping[SourceDay, tuple[str, ...]]:
    found = grouped((day, each.name) for each in kept for day in _touching(changed, each.area, closure))
    return {day: tuple(names) for day, names in found.items()}


def _with_others(
    reaching: Mapping[SourceDay, tuple[str, ...]],
    changed: AbstractSet[SourceDay],
    linked: Sequence[AbstractSet[SourceDay]],
) -> Iterator[tuple[SourceDay, tuple[str, ...]]]:
    """The other days of groups of which some days wait: they wait for the same."""
    for group in linked:
        names = tuple(dict.fromkeys(name for day in sorted(group & reaching.keys()) for name in reaching[day]))
        if names:
            yield from ((day, names) for day in group & changed - reaching.keys())


def _tied(days: AbstractSet[SourceDay], linked: Sequence[AbstractSet[SourceDay]]) -> AbstractSet[SourceDay]:
    """Every day that is one decision with some of the days."""
    return frozenset().union(*(group for group in linked if not group.isdisjoint(days)))


def _are_one(draft: OpenDraft, other: OpenDraft, linked: Sequence[AbstractSet[SourceDay]]) -> bool:
    return _meet(draft.area, other.area) or not _tied(draft.days, linked).isdisjoint(other.days)


def _touching(days: AbstractSet[SourceDay], area: Area, closure: Closure) -> set[SourceDay]:
    """Those of the days that reach into an area. Halved as long as both do, because most days do not."""
    if not days or not _meet(closure(days), area):
        return set()
    if len(days) == 1:
        return set(days)
    ordered = sorted(days)
    half = len(ordered) // 2
    return _touching(set(ordered[:half]), area, closure) | _touching(set(ordered[half:]), area, closure)


def _meet(one: Area, other: Area) -> bool:
    return any(not one[table].isdisjoint(other[table]) for table in one.keys() & other.keys())


def together(areas: Iterable[Area]) -> Area:
    """All partitions of several areas."""
    found: dict[str, set[date]] = {}
    for area in areas:
        for table, partitions in area.items():
            found.setdefault(table, set()).update(partitions)
    return found
