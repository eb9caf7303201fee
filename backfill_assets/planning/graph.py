"""Graph: how tables depend on each other, day by day.

This is the one place that turns the window of an input into partitions. Dagster's partition mappings, the planner and
the reader of inputs all use it, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING

from backfill_assets.calendar.local_days import LAST_PLANNED
from backfill_assets.calendar.partitions import (
    ONE_DAY,
    DayRange,
    Days,
    Grain,
    Ranges,
    SnapshotInterval,
    Spans,
    compress,
    days_of,
    merged,
    next_partition,
    partition_of,
    partitions_of_spans,
    partitions_over,
    spans_of,
)
from backfill_assets.calendar.windows import SAME_DAYS, AnyWindow, SinceFirstDay
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.planning.errors import NoSnapshot, NoSuchName, OutsideDays
from backfill_assets.planning.kinds.any_change import AnyChange
from backfill_assets.planning.kinds.replace import REPLACE

if TYPE_CHECKING:
    from backfill_assets.planning.manifest_parts import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInput:
    """One input of a derived table: the argument's name, the table it is bound to, and the window."""

    argument: str
    table: str
    window: AnyWindow = SAME_DAYS
    #: The version of its contract that a source is read in, as `landing.contracts` names it; empty for the first one,
    #: and for derived tables.
    contract: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNode:
    """A table as the planner sees it. A table without inputs is a source table."""

    name: str
    grain: Grain
    inputs: tuple[TableInput, ...] = ()
    change: AnyChange = REPLACE  #: The change that its runs make.
    #: For how many days after the present one it can have partitions: those of events that are ahead of the clock or
    #: planned, and of the dates that begin before the day of UTC.
    beyond: timedelta = timedelta(0)
    #: True if it stands beside the version of a table that readers are shown. Nothing follows from it to other runs:
    #: sets, proposals and follow-ups leave it out, and the LIVE path keeps it up to date.
    is_beside: bool = False
    #: The stretches of days that have a snapshot; None where every day, or month, has a partition.
    stretches: SnapshotInterval | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stretches", None if self._state is None else self._state.stretches)

    @property
    def is_source(self) -> bool:
        return not self.inputs

    @property
    def since(self) -> date | None:
        """The day on which its state begins; None where it declares none, or keeps no state."""
        return None if self._state is None else self._state.since

    @property
    def _state(self) -> SinceFirstDay | None:
        return next((edge.window for edge in self.inputs if isinstance(edge.window, SinceFirstDay)), None)

    def carried(self, table: str) -> tuple[TableInput, ...]:
        """The inputs by which a change of one day of a table reaches every later snapshot; none without a state."""
        return tuple(edge for edge in self.inputs if edge.table == table and edge.window.is_unbounded)

    def first_read(self, snapshot: date | None, begins: date) -> date:
        """The first day of its inputs that a call reads which continues a snapshot; every day without a state.

        Args:
            snapshot: The snapshot; None for a call that begins anew.
            begins: The first day that the table can have.
        """
        if self._state is None:
            return date.min
        return begins if snapshot is None else days_of(self.grain, snapshot).end

    def covered(self, span: DayRange, begun: date, begins: date) -> DayRange:
        """The days on which its partitions within a span can rest: a state begins in the middle of a month as well,
        which is whole from then on.

        Args:
            begun: Its first partition.
            begins: The first day that the table can have.
        """
        return span if self._state is None or span.start > begins else DayRange(min(begun, span.start), span.end)

    @property
    def is_divisible(self) -> bool:
        """True if its partitions can be computed in several runs or calls, each without the others."""
        return self._state is None and self.change.is_divisible

    def chunks(self, partitions: Sequence[date], rows: Mapping[date, int], limits: Limits) -> tuple[int, ...]:
        """How many partitions each call of the transform computes; a snapshot is computed from the one before it."""
        return self.change.chunks(partitions, rows, limits) if self._state is None else (1,) * len(partitions)

    def snapshots(self, accepted: Callable[[], Iterable[date]], begins: date) -> tuple[date, ...]:
        """The accepted snapshots that a run can begin with: without those that rest on days before its state begins.

        Args:
            accepted: Reads its accepted partitions.
        """
        if self._state is None:
            return ()
        return tuple(p for p in self.among(accepted()) if days_of(self.grain, p).end > begins)

    def counted(self, spans: Spans, begins: date) -> Spans:
        """The spans of days of its inputs without what was before its state begins, also in the middle of a month."""
        if self._state is None:
            return spans
        first = begins.toordinal()
        return [(max(start, first), end) for start, end in spans if end > first]

    def among(self, partitions: Iterable[date]) -> tuple[date, ...]:
        """Those of some partitions that the table can have."""
        return tuple(partitions) if self.stretches is None else self.stretches.ends(partitions)

    def partitions_over(self, days: DayRange) -> tuple[date, ...]:
        """Every partition of the table that shares at least one day with the range, in order."""
        return self.among(partitions_over(self.grain, days))

    def next_partition(self, partition: date) -> date:
        """The partition of the table that follows this one."""
        if self.stretches is None:
            return next_partition(self.grain, partition)
        return partition + timedelta(days=self.stretches.days)

    def in_a_row(self, partitions: Iterable[date]) -> tuple[tuple[date, ...], ...]:
        """Some partitions in rows of consecutive ones, in order."""
        if self.stretches is None:
            return tuple(partitions_over(self.grain, days) for days in compress(self.grain, partitions))
        rows: list[list[date]] = []
        for partition in sorted(set(partitions)):
            if rows and self.next_partition(rows[-1][-1]) == partition:
                rows[-1].append(partition)
            else:
                rows.append([partition])
        return tuple(map(tuple, rows))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Every table of a domain, by name, inputs before dependents, and the days that tables can have."""

    tables: Mapping[str, TableNode]  #: In topological order.
    first_day: date  #: The first day any table has a partition for.

    def table(self, name: str) -> TableNode:
        """The table of that name.

        Raises:
            UnknownName: There is no such table.
        """
        if name not in self.tables:
            raise NoSuchName(kind="table", name=name, known=tuple(self.tables))
        return self.tables[name]

    @property
    def stateful(self) -> frozenset[str]:
        """The tables whose partitions are snapshots of a state, which can expire."""
        return frozenset(name for name, node in self.tables.items() if node._state is not None)

    def begins(self, node: TableNode) -> date:
        """The first day that a table can have: a state may begin later than other tables."""
        return max(self.first_day, node.since or self.first_day)

    def dependents(self, name: str) -> tuple[TableNode, ...]:
        """The tables that read this one and follow it, in topological order."""
        followers = (node for node in self.tables.values() if not node.is_beside)
        return tuple(node for node in followers if any(edge.table == name for edge in node.inputs))

    def days(self, as_of: date, name: str) -> DayRange:
        """The days that a table can have on a given day: from the first day to that day, or as far as its events are
        ahead of it."""
        last = as_of + min(self.beyond(name), LAST_PLANNED - as_of)
        return DayRange(self.first_day, max(self.first_day, last + ONE_DAY))

    def beyond(self, name: str) -> timedelta:
        """The time by which the events of a table, or of one that it reads, are ahead of the present day."""
        node = self.table(name)
        return max([node.beyond, *(self.beyond(edge.table) for edge in node.inputs)])

    def partitions_in(self, name: str, days: Days, *, as_of: date) -> tuple[date, ...]:
        """The partitions of a table that a range of days, or each of several, names.

        Args:
            as_of: Today; tables have partitions past it only where events are ahead of it.

        Raises:
            InvalidRange: The range leaves the days the table can have, or names none, or no day with a snapshot.
        """
        if isinstance(days, Ranges):
            # A month can share days with two ranges.
            return tuple(sorted({p for each in days.ranges for p in self.partitions_in(name, each, as_of=as_of)}))
        node = self.table(name)
        known = self.days(as_of, name)
        asked = DayRange(partition_of(node.grain, days.start), days.end)
        earliest = partition_of(node.grain, self.begins(node))
        # A month that has begun counts as a whole, like the first one.
        latest = days_of(node.grain, partition_of(node.grain, known.last)).end
        if not len(days) or asked.start < earliest or asked.end > latest:
            raise OutsideDays(table=name, earliest=earliest, latest=known.last, days=days)
        named = node.partitions_over(days)
        if not named and node.stretches is not None:
            length = timedelta(days=node.stretches.days)
            nearest = node.partitions_over(DayRange(days.start - length, days.start + length))
            raise NoSnapshot(table=name, days=days, every=length.days, since=node.stretches.since, nearest=nearest)
        return named

    def needed(self, edge: TableInput, node: TableNode, partitions: Iterable[date]) -> tuple[date, ...]:
        """The partitions of an input that a table's partitions read, the warm-up included.

        They are not clipped to the days a table can have: what lies outside is reported as missing by the planner.
        """
        around = merged(edge.window.needed_by(start, end) for start, end in spans_of(node.grain, partitions))
        around = node.counted(around, self.begins(node))
        source = self.table(edge.table)
        return source.among(partitions_of_spans(source.grain, around))

    def reached(self, edge: TableInput, node: TableNode, partitions: Iterable[date]) -> tuple[date, ...]:
        """The partitions of a table whose window touches these partitions of its input."""
        source = self.table(edge.table)
        spans = node.counted(spans_of(source.grain, partitions), self.begins(node))
        touched = merged(edge.window.touched_by(start, end) for start, end in spans)
        return node.among(partitions_of_spans(node.grain, touched))


def topological(nodes: Iterable[TableNode]) -> Mapping[str, TableNode]:
    """Tables by name, inputs before dependents; among equals in the order given.

    Raises:
        InvalidDeclaration: Two tables have the same name, or depend on each other.
    """
    waiting: dict[str, TableNode] = {}
    for node in nodes:
        if node.name in waiting:
            raise InvalidDeclaration(f"two tables are named {node.name}.")
        waiting[node.name] = node
    ordered: dict[str, TableNode] = {}
    while waiting:
        ready = [n for n in waiting.values() if all(edge.table in ordered for edge in n.inputs)]
        if not ready:
            raise InvalidDeclaration(f"these tables depend on each other in a cycle: {', '.join(waiting)}.")
        for node in ready:
            ordered[node.name] = waiting.pop(node.name)
    return ordered
