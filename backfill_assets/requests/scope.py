"""Scope of a set: what of the partitions that a request asks for is built, and what is left out, with the reason.

A request names days, or everything stale. Whatever of it is not built is listed, each partition once, so that what is
planned and what is left out are together what was asked for. A person who names days gets all of them or a refusal.
Decided from values alone; `requests.plan` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.calendar.partitions import Days, Partitions, TablePartitions, days_of
from backfill_assets.core.errors import MissingInput, Refused
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.impact import (
    LeftOut,
    Rebuild,
    WhyLeftOut,
    asked_of,
    complete,
    is_within,
    lacking,
    left_as_added,
    never_built,
    reads_expired,
    unbuilt,
)
from backfill_assets.planning.manifest_parts import Cause, only_of_code
from backfill_assets.planning.next_steps import joined, loads
from backfill_assets.planning.restatement import SetRequest
from backfill_assets.requests.errors import OnlyPart
from backfill_assets.staleness.decide import Staleness, StaleRange

Accepted = Mapping[str, AbstractSet[date]]
"""Every accepted partition, by table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleOnes:
    """The stale partitions of a request, by table."""

    rebuild: Mapping[str, Sequence[date]] = field(default_factory=dict)
    #: Those that are built if their inputs are there or built before them.
    if_complete: Mapping[str, Sequence[date]] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


NONE_EXPIRED: Mapping[str, AbstractSet[date]] = {}
NOTHING_STALE = StaleOnes()


def stale_ones(graph: Graph, request: SetRequest, stale: Iterable[Staleness]) -> StaleOnes:
    """The stale partitions of the request, and where its days are named, those of them that were never built.

    Args:
        stale: What is stale of its tables and days.

    Raises:
        MissingInput: Landed files are not loaded yet.
        Refused: Only the code changed, under the same version.
    """
    rebuild: dict[str, list[date]] = {}
    if_complete: dict[str, list[date]] = {}
    left_out: list[LeftOut] = []
    only_code: list[LeftOut] = []
    for each in stale:
        if graph.table(each.table).is_beside and each.table != request.table:
            # The LIVE path keeps it up to date, so that no set waits for it.
            continue
        found, added = _without_fixed(each, graph.table(each.table))
        left_out += added
        if graph.table(found.table).is_source:
            if found.partitions:
                raise MissingInput.coded(
                    "not_built_from_landed",
                    "{table} has days that are not built from what has landed: {partitions}.",
                    then="{loaded}",
                    table=found.table,
                    partitions=Partitions(found.grain, found.partitions),
                    loaded=joined(loads(found.table, found.partitions)),
                )
            continue
        waiting = [*found.blocked, *(found.waiting if request.days else ())]
        of_code: list[date] = []
        left_out += _on_purpose(found, found.kept)
        excepted = {*found.blocked, *found.on_purpose}
        for stretch in found.ranges:
            if {reason.cause for reason in stretch.reasons} == {Cause.NEVER_BUILT}:
                waiting += stretch.partitions if request.days else ()
            elif only_of_code(stretch.reasons) and not request.changed_code:
                of_code += [partition for partition in stretch.partitions if partition not in found.on_purpose]
            else:
                rebuild.setdefault(found.table, []).extend(p for p in stretch.partitions if p not in excepted)
        if of_code:
            only_code.append(_left_out(found, of_code, WhyLeftOut.CODE_CHANGED))
            left_out.append(only_code[-1])
        if waiting:
            if_complete[found.table] = waiting
    if only_code and not any(rebuild.values()) and not if_complete and not request.because:
        raise Refused.coded(
            "only_code_changed",
            "only the code changed, under the same version: {stale}.",
            then="give the transform a new version; or, to prove that the rows are the same, add [changed_code=True]",
            stale=tuple(only_code),
        )
    return StaleOnes(rebuild=rebuild, if_complete=if_complete, left_out=tuple(left_out))


def _without_fixed(found: Staleness, node: TableNode) -> tuple[Staleness, Sequence[LeftOut]]:
    """What is stale of a table without the accepted partitions that its runs never change, and these."""
    new = tuple(each for each in found.ranges if {reason.cause for reason in each.reasons} == {Cause.NEVER_BUILT})
    fixed = node.change.fixed({partition for each in found.ranges if each not in new for partition in each.partitions})
    if not fixed:
        return found, ()
    left_out = _left_out(found, sorted(fixed), WhyLeftOut.ONLY_ADDS)
    return replace(found, ranges=new, blocked=(), kept=(), on_purpose=()), (left_out,)


def left_out_of(
    graph: Graph,
    request: SetRequest,
    stale: StaleOnes,
    changed: Mapping[str, AbstractSet[date]],
    rebuilds: Iterable[Rebuild],
    accepted: Accepted,
    besides: Iterable[Staleness] = (),
    expired: Mapping[str, AbstractSet[date]] = NONE_EXPIRED,
    whole: Iterable[Rebuild] = (),
) -> tuple[LeftOut, ...]:
    """The partitions that a plan leaves out, each once: requested ones that are not built, then others that are stale.

    Args:
        whole: What would be built if no snapshot had expired.
        besides: What is stale of all tables, where the request does not ask for what is stale.
        expired: The snapshots that have expired, by table: only who names them has them computed again.
    """
    built = {rebuild.table: set(rebuild.partitions) for rebuild in rebuilds}
    there = {name: some | built.get(name, set()) for name, some in accepted.items()}
    found = [*_not_there(graph, changed, accepted), *_without_their_inputs(graph, whole, built, there, expired)]
    found += stale.left_out
    for name, some in stale.if_complete.items():
        of_table = [partition for partition in some if partition not in built.get(name, ())]
        found += _waiting(graph, name, of_table, accepted, there, request.days)
    moves = {name: {*changed.get(name, ()), *built.get(name, ())} for name in {**changed, **built}}
    found += [
        _left_out(graph.table(each.table), each.partitions, WhyLeftOut.ONLY_ADDS)
        for each in left_as_added(graph, moves, accepted)
    ]
    if request.because or request.with_dependents:
        found += _without_version(graph, request, moves, accepted, there, expired)
    if request.stale and request.days is None:
        found += _not_named(graph, request.table, accepted, there, expired)
    found += _stale_besides(graph, besides)
    return _each_once(found, built)


def require_whole(rebuilds: Sequence[Rebuild], left_out: Sequence[LeftOut]) -> None:
    """Refuses a plan that is smaller than what a person asked for.

    Raises:
        Refused: Something that was asked for is left out.
    """
    if asked := tuple(each for each in left_out if each.is_asked):
        planned = sum(len(rebuild.partitions) for rebuild in rebuilds)
        raise OnlyPart(planned=planned, asked_for=planned + asked_of(asked), left_out=asked)


def _not_there(graph: Graph, changed: Mapping[str, AbstractSet[date]], accepted: Accepted) -> Iterator[LeftOut]:
    """Named days that have no accepted version, so that nothing was computed from them."""
    for name, days in changed.items():
        if missing := sorted(days - accepted[name]):
            yield _left_out(graph.table(name), missing, WhyLeftOut.NO_VERSION)


def _without_their_inputs(
    graph: Graph,
    whole: Iterable[Rebuild],
    built: Mapping[str, AbstractSet[date]],
    there: Accepted,
    expired: Mapping[str, AbstractSet[date]],
) -> Iterator[LeftOut]:
    """The partitions that would be built again if snapshots that they read had not expired."""
    for each in whole:
        node = graph.table(each.table)
        waiting = set(each.partitions) - built.get(each.table, set())
        if partitions := sorted(reads_expired(graph, node, waiting, built, expired)):
            missing = lacking(graph, node, partitions, there)
            yield _left_out(node, partitions, WhyLeftOut.INPUT_EXPIRED, missing=missing)


def _waiting(
    graph: Graph, name: str, partitions: Iterable[date], accepted: Accepted, there: Accepted, days: Days | None
) -> Iterator[LeftOut]:
    """Partitions whose windows are not complete. Of named days, a month is asked for where they are all of it."""
    node = graph.table(name)
    blocked, never = [], dict[bool, list[date]]()
    for partition in sorted(partitions):
        if partition in accepted[name]:
            blocked.append(partition)
        else:
            never.setdefault(days is None or is_within(node.grain, partition, days), []).append(partition)
    if blocked:
        yield _left_out(node, blocked, WhyLeftOut.BLOCKED)
    for is_asked, some in never.items():
        yield _incomplete(graph, node, some, there, is_asked=is_asked)


def _incomplete(
    graph: Graph, node: TableNode, partitions: Sequence[date], there: Accepted, *, is_asked: bool
) -> LeftOut:
    """Partitions that were never built and cannot be."""
    missing = lacking(graph, node, partitions, there)
    return _left_out(node, partitions, WhyLeftOut.INCOMPLETE, missing=missing, is_asked=is_asked)


def _without_version(
    graph: Graph,
    request: SetRequest,
    moves: Mapping[str, AbstractSet[date]],
    accepted: Accepted,
    there: Accepted,
    expired: Mapping[str, AbstractSet[date]],
) -> Iterator[LeftOut]:
    """The partitions that depend on the named days, can be built, and never were. Of a table with other versions,
    they were asked for."""
    named: list[Days] = [days for _, days in request.because]
    if request.with_dependents and request.days is not None:
        named.append(request.days)
    for some in never_built(graph, moves, there):
        node, gone = graph.table(some.table), expired.get(some.table, frozenset())
        partitions = [p for p in some.partitions if p not in gone]
        inside = [p for p in partitions if any(day in days for days in named for day in days_of(some.grain, p))]
        asked = inside if accepted[some.table] else []
        if asked:
            yield _left_out(node, asked, WhyLeftOut.DEPENDS)
        if besides := [p for p in partitions if p not in asked]:
            yield _left_out(node, besides, WhyLeftOut.DEPENDS, is_asked=False)


def _not_named(
    graph: Graph,
    table: str | None,
    accepted: Accepted,
    there: Accepted,
    expired: Mapping[str, AbstractSet[date]],
) -> Iterator[LeftOut]:
    """The partitions that were never built, where everything stale was asked for and no days."""
    for name, missing in unbuilt(graph, accepted).items():
        partitions = [p for p in missing if p not in expired.get(name, ())]
        if name != table and (table is not None or not accepted[name]):
            continue
        node = graph.table(name)
        if node.is_beside and name != table:
            continue
        possible = complete(graph, node, partitions, there)
        if possible:
            yield _left_out(node, sorted(possible), WhyLeftOut.DAYS_NOT_NAMED, is_asked=False)
        if waiting := [partition for partition in partitions if partition not in possible]:
            yield _incomplete(graph, node, waiting, there, is_asked=False)


def _stale_besides(graph: Graph, stale: Iterable[Staleness]) -> Iterator[LeftOut]:
    """Everything stale that the request does not name: a set that rebuilds only a part reports the rest."""
    for found in stale:
        if graph.table(found.table).is_source or graph.table(found.table).is_beside:
            continue
        causes = [({reason.cause for reason in stretch.reasons}, stretch.partitions) for stretch in found.ranges]
        others = [(why, some) for why, some in causes if why != {Cause.NEVER_BUILT}]
        for each in _on_purpose(found):
            yield replace(each, is_asked=False)
        partitions = [partition for _, some in others for partition in some if partition not in found.on_purpose]
        if partitions:
            of_code = any(why == {Cause.CODE_CHANGED} for why, _ in others)
            yield _left_out(found, partitions, WhyLeftOut.STALE, is_asked=False, of_code=of_code)


def _on_purpose(found: Staleness, also: Iterable[StaleRange] = ()) -> Iterator[LeftOut]:
    """The partitions left as they are on purpose: computed with references that a person chose, which only a person
    changes; or left so by their owner.

    Stale partitions were asked for; those that differ in nothing but such a reference, or in what an owner accepted,
    are not stale.
    """
    kept: dict[WhyLeftOut, list[date]] = {WhyLeftOut.CHOSEN_REFERENCES: [], WhyLeftOut.DIFFERENCE_ACCEPTED: []}
    for stretch in also:
        accepted = any(reason.cause is Cause.DIFFERENCE_ACCEPTED for reason in stretch.reasons)
        why = WhyLeftOut.DIFFERENCE_ACCEPTED if accepted else WhyLeftOut.CHOSEN_REFERENCES
        kept[why] += stretch.partitions
    if found.on_purpose:
        yield _left_out(found, sorted(found.on_purpose), WhyLeftOut.CHOSEN_REFERENCES)
    for why, partitions in kept.items():
        if partitions:
            yield _left_out(found, sorted(partitions), why, is_asked=False)


def _left_out(
    of: TableNode | Staleness,
    partitions: Sequence[date],
    why: WhyLeftOut,
    *,
    is_asked: bool = True,
    missing: tuple[TablePartitions, ...] = (),
    of_code: bool = False,
) -> LeftOut:
    table = of.name if isinstance(of, TableNode) else of.table
    return LeftOut(
        table=table,
        grain=of.grain,
        partitions=tuple(partitions),
        why=why,
        missing=missing,
        is_asked=is_asked,
        of_code=of_code,
    )


def _each_once(found: Iterable[LeftOut], built: Mapping[str, AbstractSet[date]]) -> tuple[LeftOut, ...]:
    """Without what is built after all, because it depends on something that is, and without what is listed before."""
    known = {name: set(partitions) for name, partitions in built.items()}
    once: list[LeftOut] = []
    for each in found:
        its = known.setdefault(each.table, set())
        if partitions := tuple(partition for partition in each.partitions if partition not in its):
            its.update(partitions)
            once.append(replace(each, partitions=partitions))
    return tuple(once)
