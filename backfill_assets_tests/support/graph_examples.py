"""Random graphs of tables, and what their windows mean, read day by day.

Daily and monthly tables, a window per input, back and ahead, diamonds, two inputs that are one table. Slow and obvious
on purpose: what planning does with ranges is held against this.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, timedelta
from functools import cache

from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain, days_of, next_partition, partition_of
from backfill_assets.calendar.windows import AnyWindow, Months, Window
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological

SPAN = DayRange.inclusive(date(2024, 1, 1), date(2024, 5, 31))
"""The days that tables have here."""

WINDOWS = {
    Grain.DAILY: st.builds(Window, days_back=st.integers(0, 35), days_ahead=st.integers(0, 8)),
    Grain.MONTHLY: st.just(Window()) | st.builds(Months, back=st.integers(0, 2), ahead=st.integers(0, 1)),
}
"""Windows that tables of a grain can declare."""

DAYS = st.dates(SPAN.start, SPAN.last)


@st.composite
def graphs(draw: st.DrawFn, *, most_tables: int = 6) -> Graph:
    """A graph with one or two source tables."""
    sources = [TableNode(name=f"bronze.s{number}", grain=Grain.DAILY) for number in range(draw(st.integers(1, 2)))]
    nodes = list(sources)
    for number in range(draw(st.integers(1, most_tables - len(sources)))):
        grain = draw(st.sampled_from([Grain.DAILY, Grain.DAILY, Grain.MONTHLY]))
        above = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
        edges = [
            TableInput(
                argument=f"input_{place}",
                table=upper.name,
                window=draw(WINDOWS[grain]),
            )
            for place, upper in enumerate(above)
        ]
        nodes.append(TableNode(name=f"silver.t{number}", grain=grain, inputs=tuple(edges)))
    return Graph(tables=topological(nodes), first_day=SPAN.start)


def every_partition(grain: Grain) -> list[date]:
    """The partitions of the span."""
    return sorted({partition_of(grain, day) for day in SPAN})


@cache
def read_by(source: Grain, window: AnyWindow, grain: Grain, partition: date) -> frozenset[date]:
    """The input partitions of one output partition, offset by offset."""
    if isinstance(window, Months):
        months = [_month(partition, offset) for offset in range(-window.back, window.ahead + 1)]
        return frozenset(partition_of(source, day) for month in months for day in days_of(Grain.MONTHLY, month))
    assert isinstance(window, Window)
    return frozenset(
        partition_of(source, day + timedelta(days=offset))
        for day in days_of(grain, partition)
        for offset in range(-window.days_back, window.days_ahead + 1)
    )


def _month(partition: date, offset: int) -> date:
    """The month so many months after one, step by step."""
    month = partition
    for _ in range(abs(offset)):
        month = next_partition(Grain.MONTHLY, month) if offset > 0 else (month - timedelta(days=1)).replace(day=1)
    return month


def inputs_of(graph: Graph, edge: TableInput, node: TableNode, partition: date) -> frozenset[date]:
    """The partitions of an input that one partition reads."""
    return read_by(graph.table(edge.table).grain, edge.window, node.grain, partition)


def is_complete(graph: Graph, node: TableNode, partition: date, there: Mapping[str, AbstractSet[date]]) -> bool:
    """Whether everything that a partition reads is there."""
    return all(inputs_of(graph, edge, node, partition) <= there.get(edge.table, set()) for edge in node.inputs)


@st.composite
def accepted_partitions(draw: st.DrawFn, graph: Graph) -> Mapping[str, set[date]]:
    """What has been built of each table: gaps in sources, and some of what the windows allow downstream."""
    accepted: dict[str, set[date]] = {}
    for node in graph.tables.values():
        possible = every_partition(node.grain)
        if not node.is_source:
            possible = [partition for partition in possible if is_complete(graph, node, partition, accepted)]
        gaps = draw(st.sets(st.sampled_from(possible), max_size=3)) if possible else set()
        accepted[node.name] = set(possible) - gaps
    return accepted
