"""Dagster's lineage, the planner and the reader of inputs agree on every window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta

from dagster import PartitionsDefinition, partition_loading_context
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.orchestration.partitions import OfferedDays, key_of, partitions_definition, window_mapping
from backfill_assets.planning.graph import Graph, TableInput, TableNode
from backfill_assets.planning.impact import impact
from backfill_assets.planning.partitions import DayRange, Grain, partition_of
from backfill_assets.planning.windows import AnyWindow, Months, Window
from backfill_assets_tests.support.graph_examples import DAYS, graphs

FIRST = date(2020, 1, 1)
OFFERED = OfferedDays(first=FIRST)
MIDDLE = st.dates(min_value=date(2022, 1, 1), max_value=date(2023, 12, 31))
PRESENT_PARTITIONS = {
    grain: frozenset(partition_of(grain, day) for day in DayRange.inclusive(FIRST, date(2025, 12, 31)))
    for grain in Grain
}
WINDOWS = st.builds(Window, days_back=st.integers(0, 400), days_ahead=st.integers(0, 40))
MONTHS = st.just(Window()) | st.builds(Months, back=st.integers(0, 20), ahead=st.integers(0, 4))
EDGES = st.one_of(
    st.tuples(st.just(Grain.DAILY), st.just(Grain.DAILY), WINDOWS),
    st.tuples(st.just(Grain.DAILY), st.just(Grain.MONTHLY), MONTHS),
    st.tuples(st.just(Grain.MONTHLY), st.just(Grain.MONTHLY), MONTHS),
    st.tuples(st.just(Grain.MONTHLY), st.just(Grain.DAILY), WINDOWS),
)


def graph_of(upstream: Grain, downstream: Grain, window: AnyWindow) -> tuple[Graph, TableInput, TableNode]:
    edge = TableInput(argument="events", table="bronze.events", window=window)
    node = TableNode(name="silver.counts", grain=downstream, inputs=(edge,))
    source = TableNode(name="bronze.events", grain=upstream)
    return Graph(tables={source.name: source, node.name: node}, first_day=FIRST), edge, node


def subset(definition: PartitionsDefinition[str], partitions: Iterable[date]) -> object:
    return definition.subset_with_partition_keys([key_of(partition) for partition in partitions])


@given(EDGES, st.sets(MIDDLE, min_size=1, max_size=5))
def test_dagster_maps_a_partition_to_exactly_the_inputs_the_planner_reads(
    declared: tuple[Grain, Grain, AnyWindow], days: set[date]
) -> None:
    upstream, downstream, window = declared
    graph, edge, node = graph_of(upstream, downstream, window)
    above, below = (
        partitions_definition(upstream, OFFERED),
        partitions_definition(downstream, OFFERED),
    )
    partitions = {partition_of(downstream, day) for day in days}
    with partition_loading_context():
        found = window_mapping(edge).get_upstream_mapped_partitions_result_for_partitions(
            subset(below, partitions),  # type: ignore[arg-type]
            below,
            above,
        )
    keys = set(found.partitions_subset.get_partition_keys())
    assert keys == {key_of(partition) for partition in graph.needed(edge, node, partitions)}


@given(EDGES, st.sets(MIDDLE, min_size=1, max_size=5))
def test_dagster_maps_an_input_to_exactly_the_partitions_the_planner_reaches(
    declared: tuple[Grain, Grain, AnyWindow], days: set[date]
) -> None:
    upstream, downstream, window = declared
    graph, edge, node = graph_of(upstream, downstream, window)
    above, below = (
        partitions_definition(upstream, OFFERED),
        partitions_definition(downstream, OFFERED),
    )
    partitions = {partition_of(upstream, day) for day in days}
    with partition_loading_context():
        found = window_mapping(edge).get_downstream_partitions_for_partitions(
            subset(above, partitions),  # type: ignore[arg-type]
            above,
            below,
        )
    assert set(found.get_partition_keys()) == {key_of(partition) for partition in graph.reached(edge, node, partitions)}


@given(st.data())
def test_dagster_and_the_planner_agree_for_every_pair_of_tables_of_a_graph(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    source = data.draw(st.sampled_from([node for node in graph.tables.values() if node.is_source]))
    changed = {source.name: data.draw(st.sets(DAYS, min_size=1, max_size=3))}
    every = {node.name: PRESENT_PARTITIONS[node.grain] for node in graph.tables.values()}
    moved = {name: set[str]() for name in graph.tables} | {source.name: {key_of(day) for day in changed[source.name]}}
    with partition_loading_context():
        for node in graph.tables.values():
            below = partitions_definition(node.grain, OFFERED)
            for edge in node.inputs:
                above = partitions_definition(graph.table(edge.table).grain, OFFERED)
                if moved[edge.table]:
                    reached = window_mapping(edge).get_downstream_partitions_for_partitions(
                        above.subset_with_partition_keys(moved[edge.table]),
                        above,
                        below,
                    )
                    moved[node.name].update(reached.get_partition_keys())
    # What Dagster would launch for the source's days, table by table, is the planner's closure of them.
    closure = {rebuild.table: {key_of(p) for p in rebuild.partitions} for rebuild in impact(graph, changed, every)}
    assert {name: keys for name, keys in moved.items() if keys and name != source.name} == closure


@given(EDGES, st.data(), st.sets(MIDDLE, min_size=1, max_size=3))
def test_a_table_that_is_read_by_two_arguments_is_mapped_by_both_of_their_windows(
    declared: tuple[Grain, Grain, AnyWindow], data: st.DataObject, days: set[date]
) -> None:
    upstream, downstream, window = declared
    graph, edge, node = graph_of(upstream, downstream, window)
    other = data.draw(WINDOWS if downstream is Grain.DAILY else MONTHS)
    edges = (edge, TableInput(argument="others", table=edge.table, window=other))
    above, below = (
        partitions_definition(upstream, OFFERED),
        partitions_definition(downstream, OFFERED),
    )
    partitions = {partition_of(downstream, day) for day in days}
    with partition_loading_context():
        found = window_mapping(*edges).get_upstream_mapped_partitions_result_for_partitions(
            subset(below, partitions),  # type: ignore[arg-type]
            below,
            above,
        )
    needed = {key_of(p) for each in edges for p in graph.needed(each, node, partitions)}
    assert set(found.partitions_subset.get_partition_keys()) == needed


def test_the_days_that_dagster_offers_are_the_days_a_table_can_have() -> None:
    graph, _, node = graph_of(Grain.DAILY, Grain.DAILY, Window())
    today = date.fromisoformat(partitions_definition(Grain.DAILY, OFFERED).get_last_partition_key() or "")
    offered = partitions_definition(node.grain, OFFERED).get_partition_keys()
    assert [offered[0], offered[-1]] == [key_of(FIRST), key_of(graph.days(today).last)]
    assert len(offered) == len(graph.days(today))


def test_a_first_day_within_a_month_still_gives_that_month() -> None:
    months = partitions_definition(Grain.MONTHLY, replace(OFFERED, first=FIRST + timedelta(days=14)))
    assert months.get_first_partition_key() == "2020-01-01"
    ended = partitions_definition(Grain.MONTHLY, replace(OFFERED, last=date(2020, 3, 14)))
    assert ended.get_last_partition_key() == "2020-03-01"
