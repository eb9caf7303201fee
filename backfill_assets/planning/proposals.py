"""Proposals: which changed days of sources are restated by which plan, so that no partition is in two open ones.

Pure. A draft stays as long as nothing new touches its partitions; otherwise a new one takes over its days. Any other
open plan keeps its partitions: changed days that reach them wait until it is published or cancelled. Days between which
keys have moved are one decision: they wait, follow or are proposed together. Apart from `restatement`: a status lists
proposals, and loads no planner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from types import MappingProxyType

from backfill_assets.core.grouped import grouped
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import impact

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
