"""Scope of a set: what of the partitions that a request asks for is built, and what is left out, with the reason.

A request names days, or everything stale. Whatever of it is not built is listed, each partition once, so that what is
planned and what is left out are together what was asked for. A person who names days gets all of them or a refusal.
Decided from values alone; `restatements.plan` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.errors import MissingInput, Refused
from backfill_assets.next_steps import NAME, WHY, Act, Invocation, NextStep, Option, do, step
from backfill_assets.planning.filling import how_to_fill, joined, loads, plans
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import Rebuild, complete, is_within, lacking, lacks, never_built, unbuilt
from backfill_assets.planning.partitions import DayRange, Grain, compress, count_of, days_of, describe
from backfill_assets.planning.restatement import LeftOut, SetRequest, asked_of
from backfill_assets.staleness.document import as_recorded
from backfill_assets.staleness.ranges import Cause, Staleness, StaleRange

_BLOCKED = "an input has no accepted version any more"
_NEW_VERSION = step(
    "give the transform a new version; or, to prove that the rows are the same, add ", Option("changed_code")
)
_MOST_NAMED = 3

Accepted = Mapping[str, AbstractSet[date]]
"""Every accepted partition, by table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleOnes:
    """The stale partitions of a request, by table.

    Attributes:
        rebuild: Those that are built again.
        if_complete: Those that are built if their inputs are there or built before them.
        left_out: Those that are left to a person.
    """

    rebuild: Mapping[str, Sequence[date]] = field(default_factory=dict)
    if_complete: Mapping[str, Sequence[date]] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


NOTHING_STALE = StaleOnes()


def stale_ones(graph: Graph, request: SetRequest, stale: Iterable[Staleness]) -> StaleOnes:
    """What of the request is stale, and where its days are named, what of them was never built.

    Args:
        graph: The tables and their windows.
        request: What is asked for.
        stale: What is stale of its tables and days.

    Raises:
        MissingInput: Landed files are not loaded yet.
        Refused: Only the code changed, under the same version.
    """
    rebuild: dict[str, list[date]] = {}
    if_complete: dict[str, list[date]] = {}
    left_out: list[LeftOut] = []
    only_code: list[str] = []
    for found in stale:
        if graph.table(found.table).is_source:
            _require_loaded(found)
            continue
        waiting = [*found.blocked, *(found.waiting if request.days else ())]
        of_code: list[date] = []
        left_out += _on_purpose(found, found.kept)
        excepted = {*found.blocked, *found.on_purpose}
        for stretch in found.ranges:
            causes = {reason.cause for reason in stretch.reasons}
            if causes == {Cause.NEVER_BUILT}:
                waiting += stretch.partitions if request.days else ()
            elif causes == {Cause.CODE_CHANGED} and not request.changed_code:
                of_code += [partition for partition in stretch.partitions if partition not in found.on_purpose]
            else:
                rebuild.setdefault(found.table, []).extend(p for p in stretch.partitions if p not in excepted)
        if of_code:
            only_code.append(f"{found.table} {describe(found.grain, of_code)}")
            why = "only the code changed, and the version is the same"
            left_out.append(_left_out(found.table, found.grain, of_code, why, _NEW_VERSION))
        if waiting:
            if_complete[found.table] = waiting
    if only_code and not any(rebuild.values()) and not if_complete and not request.because:
        raise Refused(
            f"only the code changed, under the same version: {'; '.join(only_code)}.",
            next_step=_NEW_VERSION,
        )
    return StaleOnes(rebuild=rebuild, if_complete=if_complete, left_out=tuple(left_out))


def left_out_of(
    graph: Graph,
    request: SetRequest,
    stale: StaleOnes,
    changed: Mapping[str, AbstractSet[date]],
    rebuilds: Iterable[Rebuild],
    accepted: Accepted,
    besides: Iterable[Staleness] = (),
) -> tuple[LeftOut, ...]:
    """What a plan leaves out, each partition once: what was asked for and is not built, then what is stale besides.

    Args:
        graph: The tables and their windows.
        request: What is asked for.
        stale: What of it is stale.
        changed: The named days, as partitions of their tables.
        rebuilds: What is built.
        accepted: What is accepted now.
        besides: What is stale of all tables, where the request does not ask for what is stale.
    """
    built = {rebuild.table: set(rebuild.partitions) for rebuild in rebuilds}
    there = {name: some | built.get(name, set()) for name, some in accepted.items()}
    found = [*_not_there(graph, changed, accepted), *stale.left_out]
    for name, some in stale.if_complete.items():
        of_table = [partition for partition in some if partition not in built.get(name, ())]
        found += _waiting(graph, name, of_table, accepted, there, request.days)
    if request.because:
        found += _without_version(graph, request, changed, accepted)
    if request.stale and request.days is None:
        found += _not_named(graph, request.table, accepted, there)
    found += _stale_besides(graph, besides)
    return _each_once(found, built)


def require_whole(rebuilds: Sequence[Rebuild], left_out: Sequence[LeftOut]) -> None:
    """Refuses a plan that is smaller than what a person asked for.

    Raises:
        Refused: Something that was asked for is left out.
    """
    asked = [each for each in left_out if each.is_asked]
    if not asked:
        return
    planned = sum(len(rebuild.partitions) for rebuild in rebuilds)
    asked_for = planned + asked_of(asked)
    named = "; ".join(f"{e.table} {describe(e.grain, e.partitions)}: {e.why}" for e in asked[:_MOST_NAMED])
    more = f"; and {len(asked) - _MOST_NAMED:,} more" if len(asked) > _MOST_NAMED else ""
    raise Refused(
        f"{planned:,} of {count_of(asked_for, 'partition')} asked for can be planned. Left out: {named}{more}.",
        next_step=step(asked[0].include, "; or, to plan less than was asked for, add ", Option("partial")),
        planned=planned,
        asked_for=asked_for,
    )


def _not_there(graph: Graph, changed: Mapping[str, AbstractSet[date]], accepted: Accepted) -> Iterator[LeftOut]:
    """Named days that have no accepted version, so that nothing was computed from them."""
    for name, days in changed.items():
        grain = graph.table(name).grain
        if missing := sorted(days - accepted[name]):
            why = "named as changed, and has no accepted version"
            yield _left_out(name, grain, missing, why, how_to_fill(name, grain, missing))


def _waiting(
    graph: Graph, name: str, partitions: Iterable[date], accepted: Accepted, there: Accepted, days: DayRange | None
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
        how = step("build the input first, or roll back what depends on it: ", do(Act.STALE, name))
        yield _left_out(name, node.grain, blocked, _BLOCKED, how)
    for is_asked, some in never.items():
        yield replace(_incomplete(graph, name, some, there), is_asked=is_asked)


def _incomplete(graph: Graph, name: str, partitions: Sequence[date], there: Accepted) -> LeftOut:
    """Partitions that were never built and cannot be."""
    node = graph.table(name)
    missing = lacking(graph, node, partitions, there)
    how = joined_steps(how_to_fill(each.table, each.grain, each.partitions) for each in missing)
    return _left_out(name, node.grain, partitions, f"never built: {lacks(missing)}", how)


def joined_steps(steps: Iterable[NextStep]) -> NextStep:
    """Several next steps as one."""
    parts = [part for each in steps for part in ("; ", each)]
    return step(*parts[1:])


def _without_version(
    graph: Graph, request: SetRequest, changed: Mapping[str, AbstractSet[date]], accepted: Accepted
) -> Iterator[LeftOut]:
    """What depends on the named days, can be built, and never was. Of a table with other versions, it was asked for."""
    named = [days for _, days in request.because]
    for some in never_built(graph, changed, accepted):
        why = "depends on these days, and was never built"
        how = joined(plans(some.table, some.grain, some.partitions))
        inside = [p for p in some.partitions if any(day in days for days in named for day in days_of(some.grain, p))]
        asked = inside if accepted[some.table] else []
        if asked:
            yield _left_out(some.table, some.grain, asked, why, joined(plans(some.table, some.grain, asked)))
        if besides := [p for p in some.partitions if p not in asked]:
            yield replace(_left_out(some.table, some.grain, besides, why, how), is_asked=False)


def _not_named(graph: Graph, table: str | None, accepted: Accepted, there: Accepted) -> Iterator[LeftOut]:
    """What was never built, where everything stale was asked for and no days."""
    for name, partitions in unbuilt(graph, accepted).items():
        if name != table and (table is not None or not accepted[name]):
            continue
        node = graph.table(name)
        possible = complete(graph, node, partitions, there)
        if possible:
            days = compress(node.grain, possible)
            how = step(_plan_stale(name, DayRange(days[0].start, days[-1].end)))
            why = "never built, and the days were not named"
            yield replace(_left_out(name, node.grain, sorted(possible), why, how), is_asked=False)
        if waiting := [partition for partition in partitions if partition not in possible]:
            yield replace(_incomplete(graph, name, waiting, there), is_asked=False)


def _stale_besides(graph: Graph, stale: Iterable[Staleness]) -> Iterator[LeftOut]:
    """Everything stale that the request does not name: a set that rebuilds only a part reports the rest."""
    for found in stale:
        if graph.table(found.table).is_source:
            continue
        causes = [({reason.cause for reason in stretch.reasons}, stretch.partitions) for stretch in found.ranges]
        others = [(why, some) for why, some in causes if why != {Cause.NEVER_BUILT}]
        for each in _on_purpose(found):
            yield replace(each, is_asked=False)
        partitions = [partition for _, some in others for partition in some if partition not in found.on_purpose]
        if partitions:
            of_code = any(why == {Cause.CODE_CHANGED} for why, _ in others)
            how = step(_plan_stale(found.table, changed_code=of_code), "; why: ", do(Act.STALE, found.table))
            why = "stale for other reasons"
            yield replace(_left_out(found.table, found.grain, partitions, why, how), is_asked=False)


def _on_purpose(found: Staleness, also: Iterable[StaleRange] = ()) -> Iterator[LeftOut]:
    """What was computed with references that a person chose, and only a person chooses others for.

    Stale partitions were asked for; those that differ in nothing but such a reference are not stale.
    """
    why = "its references were chosen on purpose"
    kept = sorted(partition for stretch in also for partition in stretch.partitions)
    for partitions, is_asked in ((sorted(found.on_purpose), True), (kept, False)):
        if partitions:
            present = joined(plans(found.table, found.grain, partitions))
            again = joined(as_recorded(found.table, found.grain, partitions))
            how = step("with the present references: ", present, "; with the same again: ", again)
            yield replace(_left_out(found.table, found.grain, partitions, why, how), is_asked=is_asked)


def _plan_stale(table: str, days: DayRange | None = None, *, changed_code: bool = False) -> Invocation:
    first, last = (days.start, days.last) if days else (None, None)
    return do(Act.PLAN, table, stale=True, first=first, last=last, changed_code=changed_code, reason=WHY, by=NAME)


def _left_out(table: str, grain: Grain, partitions: Sequence[date], why: str, include: NextStep) -> LeftOut:
    return LeftOut(table=table, grain=grain, partitions=tuple(partitions), why=why, include=include)


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


def _require_loaded(found: Staleness) -> None:
    waiting = found.partitions
    if waiting:
        raise MissingInput(
            f"{found.table} has days that are not built from what has landed: {describe(found.grain, waiting)}.",
            next_step=joined(loads(found.table, waiting)),
            table=found.table,
        )
