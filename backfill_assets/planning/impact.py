"""Impact: which partitions have to be rebuilt when others change, in which order, and what is only read for it.

The closure over the graph: through every window, back and ahead, across daily and monthly tables. A partition that was
never built is not made stale by a change; it takes part only where a caller names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import partial

from backfill_assets.calendar.partitions import DayRange, Days, Grain, TablePartitions, days_of, describe, partition_of
from backfill_assets.core.grouped import grouped
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.state import ClaimReader

Accepted = Callable[[str, Sequence[date]], AbstractSet[date]] | Mapping[str, AbstractSet[date]]
"""Which of some partitions of a table are accepted: a question to the ledger, or all that are, by table."""

NOTHING: Mapping[str, Iterable[date]] = {}
KEEP_NOTHING: Mapping[str, AbstractSet[date]] = {}


def by_table(some: Iterable[TablePartitions]) -> tuple[TablePartitions, ...]:
    """Partitions that may be named more than once, each once and once for each table."""
    found: dict[tuple[str, Grain], set[date]] = {}
    for each in some:
        found.setdefault((each.table, each.grain), set()).update(each.partitions)
    return tuple(
        TablePartitions(table=table, grain=grain, partitions=tuple(sorted(days)))
        for (table, grain), days in found.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild(TablePartitions):
    """The partitions of one table that have to be built again."""

    #: The changing inputs by table: changed partitions, or those of an earlier rebuild. Empty for partitions that only
    #: the caller named.
    because: tuple[TablePartitions, ...] = ()
    #: What they read and this impact does not build, by table: warm-up, look-ahead, and changed partitions.
    only_read: tuple[TablePartitions, ...] = ()
    new: tuple[date, ...] = ()  #: Those of the partitions that have no accepted version yet.


def impact(
    graph: Graph,
    changed: Mapping[str, Iterable[date]],
    accepted: Accepted,
    *,
    rebuild: Mapping[str, Iterable[date]] = NOTHING,
    if_complete: Mapping[str, Iterable[date]] = NOTHING,
    keep: Mapping[str, AbstractSet[date]] = KEEP_NOTHING,
    expired: Mapping[str, AbstractSet[date]] = KEEP_NOTHING,
) -> tuple[Rebuild, ...]:
    """The partitions that a change makes stale everywhere downstream, and all of a table that is built as a whole.

    Args:
        accepted: What has an accepted version. Only that can become stale.
        rebuild: Partitions to rebuild in any case, such as the stale ones, with everything that depends on them. Not
            accepted ones of a table that only adds.
        if_complete: Partitions that are built as well where their windows are complete, counting what this impact
            builds before them.
        keep: Partitions that are not rebuilt although they depend on a change, unless `rebuild` names them.
        expired: Snapshots that are not there any more: what reads one is not rebuilt, unless this impact builds it
            before.

    Returns:
        One rebuild per table that has any, inputs before dependents.
    """
    for name in (*changed, *rebuild, *if_complete):
        graph.table(name)
    moves: dict[str, set[date]] = {name: set(partitions) for name, partitions in changed.items()}
    built: dict[str, set[date]] = {}
    rebuilds: list[Rebuild] = []
    for node in graph.tables.values():
        reached, because = _reached(graph, node, moves)
        named = set(rebuild.get(node.name, ()))
        again = set() if node.is_beside else _changeable(node, accepted, reached)
        chosen = (again - keep.get(node.name, frozenset())) | named
        more = set(if_complete.get(node.name, ())) - chosen
        chosen |= complete(graph, node, more, lambda of, some: _accepted(accepted, of, some) | built.get(of, set()))
        chosen = node.change.completed(chosen, partial(_rest_of, graph, node, accepted, keep))
        chosen -= reads_expired(graph, node, chosen, built, expired)
        if not chosen:
            continue
        built[node.name] = chosen
        moves.setdefault(node.name, set()).update(chosen)
        rebuilds.append(_rebuild(graph, node, chosen, because, built, accepted))
    return tuple(rebuilds)


def _changeable(node: TableNode, accepted: Accepted, partitions: Iterable[date]) -> set[date]:
    """Those of some partitions that are accepted and that runs of the table can change."""
    found = _accepted(accepted, node.name, partitions)
    return found - node.change.fixed(found)


def _rest_of(
    graph: Graph, node: TableNode, accepted: Accepted, keep: Mapping[str, AbstractSet[date]]
) -> AbstractSet[date]:
    """The accepted partitions of a table that can be built again and need not stay. Of the inputs that `accepted` says
    nothing of, such as sources, all is there. None where `accepted` cannot list them."""
    if not isinstance(accepted, Mapping):
        return frozenset()
    held, own = accepted, accepted.get(node.name, frozenset())
    found = complete(graph, node, own, lambda of, some: held.get(of, frozenset(some)))
    return found - keep.get(node.name, frozenset())


def reads_expired(
    graph: Graph,
    node: TableNode,
    partitions: AbstractSet[date],
    built: Mapping[str, AbstractSet[date]],
    expired: Mapping[str, AbstractSet[date]],
) -> set[date]:
    """Those of the partitions that read a snapshot which has expired and is not built again before them."""
    found: set[date] = set()
    for edge in node.inputs:
        if gone := expired.get(edge.table, frozenset()) - built.get(edge.table, frozenset()):
            found |= partitions & set(graph.reached(edge, node, gone & set(graph.needed(edge, node, partitions))))
    return found


def left_as_added(
    graph: Graph, changed: Mapping[str, Iterable[date]], accepted: Accepted
) -> tuple[TablePartitions, ...]:
    """The accepted partitions of tables that only add, which depend on a change and are not built again for it."""
    moves = {name: set(partitions) for name, partitions in changed.items()}
    found = {
        node.name: node.change.fixed(_accepted(accepted, node.name, _reached(graph, node, moves)[0]))
        for node in graph.tables.values()
    }
    return _by_table(graph, found)


def never_built(graph: Graph, changed: Mapping[str, Iterable[date]], accepted: Accepted) -> tuple[TablePartitions, ...]:
    """Partitions that depend on a change, can be built and never were: they have no version that could become stale."""
    moves: dict[str, set[date]] = {name: set(partitions) for name, partitions in changed.items()}
    everything: dict[str, set[date]] = {}
    for node in graph.tables.values():
        reached, _ = _reached(graph, node, moves)
        if reached and not node.is_beside:
            everything[node.name] = reached
            moves.setdefault(node.name, set()).update(reached)
    found = impact(graph, changed, accepted, if_complete=everything)
    return tuple(TablePartitions(table=each.table, grain=each.grain, partitions=each.new) for each in found if each.new)


def unbuilt(graph: Graph, accepted: Mapping[str, AbstractSet[date]]) -> Mapping[str, tuple[date, ...]]:
    """Partitions of derived tables that were never built, although days of their inputs, or of these, are there.

    Per table, from its first accepted partition on if it has one, and from the first day that it can have: the whole
    partitions from the first to the last day that the table or an input of it holds, directly or not, without its
    accepted ones.
    """
    spans: dict[str, DayRange] = {}
    found: dict[str, tuple[date, ...]] = {}
    for node in graph.tables.values():
        own = accepted.get(node.name, frozenset())
        held = [spans[edge.table] for edge in node.inputs if edge.table in spans]
        if own:
            held.append(DayRange(min(own), days_of(node.grain, max(own)).end))
        if not held:
            continue
        span = spans[node.name] = DayRange(min(each.start for each in held), max(each.end for each in held))
        begins = graph.begins(node)
        begun = max(min(own) if own else partition_of(node.grain, span.start), partition_of(node.grain, begins))
        days = node.covered(span, begun, begins)
        inside = (p for p in node.partitions_over(span) if p >= begun and is_within(node.grain, p, days))
        if lacking := tuple(p for p in inside if p not in own and not node.is_source):
            found[node.name] = lacking
    return found


def is_within(grain: Grain, partition: date, days: Days) -> bool:
    """True if every day of a partition is one of these."""
    return any(each.start <= partition and days_of(grain, partition).end <= each.end for each in days.ranges)


def dependents_of(graph: Graph, table: str, partitions: Sequence[date]) -> tuple[TablePartitions, ...]:
    """Every partition downstream whose rows could change when these change, table by table in order."""
    if not partitions:
        return ()
    moved: dict[str, set[date]] = {table: set(partitions)}
    for node in graph.tables.values():
        moved.setdefault(node.name, set()).update(_reached(graph, node, moved)[0])
    del moved[table]
    return _by_table(graph, moved)


def _reached(
    graph: Graph, node: TableNode, moves: Mapping[str, AbstractSet[date]]
) -> tuple[set[date], Mapping[str, AbstractSet[date]]]:
    """The partitions of a table that depend on something that changes, and the tables through which they do."""
    reached: set[date] = set()
    through: dict[str, AbstractSet[date]] = {}
    for edge in node.inputs:
        if moves.get(edge.table):
            reached.update(graph.reached(edge, node, moves[edge.table]))
            through[edge.table] = moves[edge.table]
    return reached, through


def _rebuild(
    graph: Graph,
    node: TableNode,
    chosen: AbstractSet[date],
    through: Mapping[str, AbstractSet[date]],
    built: Mapping[str, AbstractSet[date]],
    accepted: Accepted,
) -> Rebuild:
    read: dict[str, set[date]] = {}
    for edge in node.inputs:
        read.setdefault(edge.table, set()).update(graph.needed(edge, node, chosen))
    because = {table: moved & read[table] for table, moved in through.items()}
    only_read = {table: needed - built.get(table, set()) for table, needed in read.items()}
    return Rebuild(
        table=node.name,
        grain=node.grain,
        partitions=tuple(sorted(chosen)),
        because=_by_table(graph, because),
        only_read=_by_table(graph, only_read),
        new=tuple(sorted(chosen - _accepted(accepted, node.name, chosen))),
    )


def _by_table(graph: Graph, partitions: Mapping[str, AbstractSet[date]]) -> tuple[TablePartitions, ...]:
    return tuple(
        TablePartitions(table=table, grain=graph.table(table).grain, partitions=tuple(sorted(some)))
        for table, some in partitions.items()
        if some
    )


def complete(graph: Graph, node: TableNode, partitions: Iterable[date], there: Accepted) -> set[date]:
    """Those of the partitions whose windows are complete: every input partition that they read exists."""
    chosen = set(partitions)
    for edge in node.inputs:
        needed = graph.needed(edge, node, chosen)
        lacking = set(needed) - _accepted(there, edge.table, needed)
        chosen.difference_update(graph.reached(edge, node, lacking))
    return chosen


def lacking(graph: Graph, node: TableNode, partitions: Iterable[date], there: Accepted) -> tuple[TablePartitions, ...]:
    """The input partitions that these partitions read and that do not exist, by input."""
    chosen, missing = tuple(partitions), dict[str, set[date]]()
    for edge in node.inputs:
        needed = graph.needed(edge, node, chosen)
        missing.setdefault(edge.table, set()).update(set(needed) - _accepted(there, edge.table, needed))
    return _by_table(graph, missing)


def first_missing(graph: Graph, missing: Mapping[str, Iterable[date]], there: Accepted) -> tuple[TablePartitions, ...]:
    """The missing partitions that can be built first, inputs before dependents.

    Days of sources, and partitions of derived tables whose own inputs exist; what rests on them can only be built after
    them.
    """
    waiting = {name: set(partitions) for name, partitions in missing.items()}
    first: dict[str, set[date]] = {}
    for node in list(graph.tables.values())[::-1]:
        partitions = waiting.get(node.name, set())
        first[node.name] = partitions if node.is_source else complete(graph, node, partitions, there)
        for each in lacking(graph, node, partitions - first[node.name], there):
            waiting.setdefault(each.table, set()).update(each.partitions)
    return _by_table(graph, first)[::-1]


def complete_partitions(
    node: TableNode, graph: Graph, partitions: Iterable[date], state: ClaimReader
) -> tuple[tuple[date, ...], tuple[date, ...]]:
    """Partitions whose windows are complete, and those whose are not: what can follow a publication and what waits."""
    chosen = set(partitions)
    ready = complete(graph, node, chosen, lambda table, needed: state.claims(table, needed).keys())
    return tuple(sorted(ready)), tuple(sorted(chosen - ready))


def _accepted(accepted: Accepted, table: str, partitions: Iterable[date]) -> set[date]:
    if isinstance(accepted, Mapping):
        return set(partitions) & accepted.get(table, frozenset())
    chosen = sorted(partitions)
    return set(accepted(table, chosen)) & set(chosen) if chosen else set()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPartitions(TablePartitions):
    """The partitions that one publication still asks of one dependent."""

    partitions: tuple[date, ...]  #: What can be computed now and for which no run is planned yet.
    publication_id: str  #: The publication.
    source: str  #: The table that it changed.
    waiting: tuple[date, ...] = ()  #: What cannot, because input partitions that it needs have no accepted version.
    frozen: tuple[date, ...] = ()  #: What could, and waits until the freeze of it ends.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp(TablePartitions):
    """One run that is asked for; its partitions are consecutive, because a Dagster run names a range."""

    publications: tuple[str, ...]  #: Those that ask for some of its partitions, in the order of the outbox.
    sources: tuple[str, ...]  #: The tables that they changed, each once.

    @property
    def days(self) -> DayRange:
        return DayRange(self.partitions[0], days_of(self.grain, self.partitions[-1]).end)

    @property
    def reason(self) -> str:
        """Why the run exists, in words."""
        named = ", ".join(self.publications[:3])
        more = f" and {len(self.publications) - 3} more" if len(self.publications) > 3 else ""
        return f"follows {named}{more} of {', '.join(self.sources)}: {describe(self.grain, self.partitions)}"


def follow_ups(wanted: Iterable[RequestedPartitions], graph: Graph) -> Iterator[FollowUp]:
    """The fewest runs that do everything that is asked for, table by table."""
    by_table = grouped((each.table, each) for each in wanted)
    for table, asking in by_table.items():
        for partitions in graph.table(table).in_a_row(p for each in asking for p in each.partitions):
            here = [each for each in asking if not set(partitions).isdisjoint(each.partitions)]
            yield FollowUp(
                publications=tuple(each.publication_id for each in here),
                sources=tuple(dict.fromkeys(each.source for each in here)),
                table=table,
                grain=asking[0].grain,
                partitions=partitions,
            )


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


def asked_of(left_out: Iterable[LeftOut]) -> int:
    """The number of left out partitions that were asked for."""
    return sum(len(each.partitions) for each in left_out if each.is_asked)
