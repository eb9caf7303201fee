"""Windows over the graph of tables, against a day-by-day reading of what they mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain, days_of, partition_of, partitions_over
from backfill_assets.calendar.windows import SinceFirstDay, Window, parse_window
from backfill_assets.core.errors import InvalidDeclaration, InvalidRange, UnknownName
from backfill_assets.planning.errors import NoSnapshot
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.impact import RequestedPartitions, dependents_of, follow_ups

FIRST = date(2024, 1, 1)
WINDOWS = st.builds(
    Window, days_back=st.integers(min_value=0, max_value=40), days_ahead=st.integers(min_value=0, max_value=9)
)
DAY_SETS = st.sets(st.dates(min_value=date(2024, 3, 1), max_value=date(2024, 12, 31)), min_size=1, max_size=12)


def graph_of(*nodes: TableNode) -> Graph:
    return Graph(tables=topological(nodes), first_day=FIRST)


def pair(window: Window, *, source_grain: Grain, grain: Grain) -> tuple[Graph, TableNode, TableInput]:
    edge = TableInput(argument="rows", table="bronze.source", window=window)
    source = TableNode(name="bronze.source", grain=source_grain)
    node = TableNode(name="silver.derived", grain=grain, inputs=(edge,))
    return graph_of(source, node), node, edge


@given(WINDOWS, st.sampled_from(Grain), st.sampled_from(Grain), DAY_SETS)
def test_needed_partitions_are_those_of_every_day_in_the_window(
    window: Window, source_grain: Grain, grain: Grain, days: set[date]
) -> None:
    graph, node, edge = pair(window, source_grain=source_grain, grain=grain)
    partitions = {partition_of(grain, day) for day in days}
    oracle = {
        partition_of(source_grain, day + timedelta(days=offset))
        for partition in partitions
        for day in days_of(grain, partition)
        for offset in range(-window.days_back, window.days_ahead + 1)
    }
    assert graph.needed(edge, node, partitions) == tuple(sorted(oracle))


@given(WINDOWS, st.sampled_from(Grain), st.sampled_from(Grain), DAY_SETS)
def test_reached_is_needed_read_backwards(window: Window, source_grain: Grain, grain: Grain, days: set[date]) -> None:
    graph, node, edge = pair(window, source_grain=source_grain, grain=grain)
    changed = {partition_of(source_grain, day) for day in days}
    candidates = partitions_over(grain, DayRange(date(2023, 12, 1), date(2025, 4, 1)))
    oracle = [p for p in candidates if changed & set(graph.needed(edge, node, (p,)))]
    assert graph.reached(edge, node, changed) == tuple(oracle)


@given(st.sampled_from(Grain), DAY_SETS, st.dates(min_value=date(2024, 4, 1), max_value=date(2024, 9, 30)))
def test_a_state_rests_on_nothing_before_the_day_on_which_it_begins(grain: Grain, days: set[date], since: date) -> None:
    edge = TableInput(argument="rows", table="bronze.source", window=SinceFirstDay(since))
    node = TableNode(name="silver.derived", grain=grain, inputs=(edge,))
    graph = graph_of(TableNode(name="bronze.source", grain=Grain.DAILY), node)
    partitions = {partition_of(grain, day) for day in days}
    last = max(days_of(grain, partition).last for partition in partitions)
    assert graph.needed(edge, node, partitions) == tuple(DayRange.inclusive(since, last) if last >= since else ())
    # Whatever a snapshot rests on reaches it, and nothing else does.
    for day in days:
        reached = set(graph.reached(edge, node, (day,)))
        assert {p for p in partitions if day in graph.needed(edge, node, (p,))} == reached & partitions
    assert parse_window(edge.window.document) == edge.window
    with pytest.raises(InvalidRange):
        graph.partitions_in(node.name, DayRange.inclusive(date(2024, 3, 1), last), as_of=date(2025, 1, 1))


SINCE = date(2024, 2, 11)
EVERY = st.integers(min_value=2, max_value=40)


def snapshots(every: int) -> tuple[Graph, TableNode]:
    """A table with a snapshot of every few days, and one of days and one of months that read it."""
    state = TableInput(argument="rows", table="bronze.source", window=SinceFirstDay(SINCE, every))
    node = TableNode(name="silver.state", grain=Grain.DAILY, inputs=(state,))
    read = TableInput(argument="state", table=node.name, window=Window(days_back=every - 1))
    daily = TableNode(name="gold.days", grain=Grain.DAILY, inputs=(read,))
    monthly = TableNode(name="gold.months", grain=Grain.MONTHLY, inputs=(replace(read, window=Window()),))
    return graph_of(TableNode(name="bronze.source", grain=Grain.DAILY), node, daily, monthly), node


@given(EVERY, DAY_SETS, st.sampled_from(["silver.state", "gold.days", "gold.months"]))
def test_what_snapshots_of_every_few_days_rest_on_and_who_reads_them_is_the_same_from_both_sides(
    every: int, days: set[date], name: str
) -> None:
    graph, state = snapshots(every)
    node = graph.table(name)
    (edge,) = node.inputs
    source = graph.table(edge.table)
    whole = DayRange(FIRST, date(2025, 2, 1))
    ends = [day for day in whole if day >= SINCE and ((day - SINCE).days + 1) % every == 0]
    assert list(state.partitions_over(whole)) == ends
    partitions, inputs = node.partitions_over(whole), source.partitions_over(whole)
    changed = sorted({source.partitions_over(DayRange(day, whole.end))[0] for day in days if day < date(2024, 12, 1)})
    reached = set(graph.reached(edge, node, changed))
    assert reached <= {*node.partitions_over(DayRange(FIRST, date(2200, 1, 1)))}
    assert {p for p in partitions if set(graph.needed(edge, node, (p,))) & set(changed)} == reached & set(partitions)
    if name == "silver.state":
        assert all(graph.needed(edge, node, (p,)) == tuple(DayRange.inclusive(SINCE, p)) for p in partitions[-3:])
    else:
        # A day reads the one newest snapshot, where there is one already.
        needed = {p: graph.needed(edge, node, (p,)) for p in partitions}
        assert {p for some in needed.values() for p in some} <= set(inputs)
        if name == "gold.days":
            assert all(some == tuple(p for p in ends if p <= day)[-1:] for day, some in needed.items())
    assert parse_window(edge.window.document) == edge.window


@given(EVERY, DAY_SETS, st.integers(min_value=0, max_value=60))
def test_a_range_names_the_snapshots_in_it_and_without_any_the_nearest_are_said(
    every: int, days: set[date], length: int
) -> None:
    graph, node = snapshots(every)
    asked = DayRange(min(days), min(days) + timedelta(days=length + 1))
    ends = node.partitions_over(DayRange(SINCE, date(2026, 1, 1)))
    inside = tuple(day for day in ends if day in asked)
    if inside:
        assert graph.partitions_in(node.name, asked, as_of=date(2025, 6, 1)) == inside
        return
    with pytest.raises(NoSnapshot) as refused:
        graph.partitions_in(node.name, asked, as_of=date(2025, 6, 1))
    before, after = [day for day in ends if day < asked.start], [day for day in ends if day >= asked.end]
    assert list(refused.value.nearest) == [*before[-1:], after[0]]


@given(EVERY | st.just(1), st.sets(st.integers(min_value=0, max_value=30), min_size=1))
def test_snapshots_are_in_a_row_where_the_table_has_none_between_them(every: int, numbers: set[int]) -> None:
    _, node = snapshots(every)
    place = {SINCE + timedelta(days=every * (number + 1) - 1): number for number in numbers}
    rows = node.in_a_row(place)
    assert [day for row in rows for day in row] == sorted(place)
    assert all(place[after] - place[before] == 1 for row in rows for before, after in pairwise(row))
    assert all(place[later[0]] - place[earlier[-1]] > 1 for earlier, later in pairwise(rows))


def test_one_run_follows_over_all_snapshots_that_are_in_a_row() -> None:
    graph, node = snapshots(7)
    first, second, third, fourth = node.partitions_over(DayRange(SINCE, SINCE + timedelta(days=28)))
    asked = [
        RequestedPartitions(
            publication_id=name, source="silver.b", table=node.name, grain=node.grain, partitions=partitions
        )
        for name, partitions in (("pub-1", (first,)), ("pub-2", (second, fourth)))
    ]
    found = list(follow_ups(asked, graph))
    assert [each.partitions for each in found] == [(first, second), (fourth,)]
    assert [each.publications for each in found] == [("pub-1", "pub-2"), ("pub-2",)]
    assert [node.partitions_over(each.days) for each in found] == [(first, second), (fourth,)]
    assert third not in {p for each in found for p in each.partitions}


def test_dependents_are_found_through_every_window_and_grain() -> None:
    graph = graph_of(
        TableNode(name="bronze.a", grain=Grain.DAILY),
        TableNode(
            name="silver.b",
            grain=Grain.DAILY,
            inputs=(TableInput(argument="a", table="bronze.a", window=Window(days_back=6)),),
        ),
        TableNode(name="gold.c", grain=Grain.MONTHLY, inputs=(TableInput(argument="b", table="silver.b"),)),
    )
    silver, gold = dependents_of(graph, "bronze.a", (date(2024, 3, 28),))
    assert silver.partitions == tuple(DayRange.inclusive(date(2024, 3, 28), date(2024, 4, 3)))
    assert gold.partitions == (date(2024, 3, 1), date(2024, 4, 1))


def test_tables_are_ordered_inputs_first() -> None:
    late = TableNode(name="gold.c", grain=Grain.DAILY, inputs=(TableInput(argument="b", table="silver.b"),))
    middle = TableNode(name="silver.b", grain=Grain.DAILY, inputs=(TableInput(argument="a", table="bronze.a"),))
    early = TableNode(name="bronze.a", grain=Grain.DAILY)
    assert list(topological([late, middle, early])) == ["bronze.a", "silver.b", "gold.c"]
    assert graph_of(late, middle, early).dependents("bronze.a") == (middle,)


def test_tables_in_a_cycle_are_refused() -> None:
    one = TableNode(name="silver.a", grain=Grain.DAILY, inputs=(TableInput(argument="b", table="silver.b"),))
    other = TableNode(name="silver.b", grain=Grain.DAILY, inputs=(TableInput(argument="a", table="silver.a"),))
    with pytest.raises(InvalidDeclaration, match="cycle"):
        topological([one, other])


def test_a_range_outside_the_tables_days_is_refused_on_both_sides() -> None:
    graph = graph_of(TableNode(name="bronze.a", grain=Grain.DAILY))
    today = date(2024, 6, 1)
    whole = DayRange.inclusive(FIRST, today)
    assert len(graph.partitions_in("bronze.a", whole, as_of=today)) == len(whole)
    for days in (DayRange(FIRST - timedelta(days=1), today), DayRange.inclusive(FIRST, today + timedelta(days=1))):
        with pytest.raises(InvalidRange, match="can have partitions from 2024-01-01 to 2024-06-01"):
            graph.partitions_in("bronze.a", days, as_of=today)


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"bronze\.a"):
        graph_of(TableNode(name="bronze.a", grain=Grain.DAILY)).table("bronze.b")


def test_a_window_cannot_look_a_negative_number_of_days() -> None:
    with pytest.raises(InvalidDeclaration, match="days_back=-1"):
        Window(days_back=-1)
