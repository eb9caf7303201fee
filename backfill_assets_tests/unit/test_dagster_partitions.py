"""Dagster's lineage, the planner and the reader of inputs agree on every window."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from dagster import PartitionsDefinition
from dagster._core.definitions.partitions.context import partition_loading_context
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.orchestration.partitions import key_of, partitions_definition, window_mapping
from backfill_assets.planning.graph import Graph, TableInput, TableNode, Window
from backfill_assets.planning.partitions import Grain, partition_of

FIRST = date(2020, 1, 1)
MIDDLE = st.dates(min_value=date(2022, 1, 1), max_value=date(2023, 12, 31))
WINDOWS = st.builds(Window, days_back=st.integers(0, 400), days_ahead=st.integers(0, 40))
EDGES = st.one_of(
    st.tuples(st.just(Grain.DAILY), st.just(Grain.DAILY), WINDOWS),
    st.tuples(st.just(Grain.DAILY), st.just(Grain.MONTHLY), st.just(Window())),
    st.tuples(st.just(Grain.MONTHLY), st.just(Grain.MONTHLY), st.just(Window())),
    st.tuples(st.just(Grain.MONTHLY), st.just(Grain.DAILY), WINDOWS),
)


def graph_of(upstream: Grain, downstream: Grain, window: Window) -> tuple[Graph, TableInput, TableNode]:
    edge = TableInput(argument="events", table="bronze.events", window=window)
    node = TableNode(name="silver.counts", grain=downstream, inputs=(edge,))
    source = TableNode(name="bronze.events", grain=upstream)
    return Graph(tables={source.name: source, node.name: node}, first_day=FIRST), edge, node


def subset(definition: PartitionsDefinition[str], partitions: Iterable[date]) -> object:
    return definition.subset_with_partition_keys([key_of(partition) for partition in partitions])


@settings(deadline=None, max_examples=150)
@given(EDGES, st.sets(MIDDLE, min_size=1, max_size=5))
def test_dagster_maps_a_partition_to_exactly_the_inputs_the_planner_reads(
    declared: tuple[Grain, Grain, Window], days: set[date]
) -> None:
    upstream, downstream, window = declared
    graph, edge, node = graph_of(upstream, downstream, window)
    above, below = partitions_definition(upstream, FIRST), partitions_definition(downstream, FIRST)
    partitions = {partition_of(downstream, day) for day in days}
    with partition_loading_context():
        found = window_mapping(edge).get_upstream_mapped_partitions_result_for_partitions(
            subset(below, partitions),  # type: ignore[arg-type]
            below,
            above,
        )
    keys = set(found.partitions_subset.get_partition_keys())
    assert keys == {key_of(partition) for partition in graph.needed(edge, node, partitions)}


@settings(deadline=None, max_examples=150)
@given(EDGES, st.sets(MIDDLE, min_size=1, max_size=5))
def test_dagster_maps_an_input_to_exactly_the_partitions_the_planner_reaches(
    declared: tuple[Grain, Grain, Window], days: set[date]
) -> None:
    upstream, downstream, window = declared
    graph, edge, node = graph_of(upstream, downstream, window)
    above, below = partitions_definition(upstream, FIRST), partitions_definition(downstream, FIRST)
    partitions = {partition_of(upstream, day) for day in days}
    with partition_loading_context():
        found = window_mapping(edge).get_downstream_partitions_for_partitions(
            subset(above, partitions),  # type: ignore[arg-type]
            above,
            below,
        )
    assert set(found.get_partition_keys()) == {key_of(partition) for partition in graph.reached(edge, node, partitions)}


def test_the_days_that_dagster_offers_are_the_days_a_table_can_have() -> None:
    graph, _, node = graph_of(Grain.DAILY, Grain.DAILY, Window())
    today = date.fromisoformat(partitions_definition(Grain.DAILY, FIRST).get_last_partition_key() or "")
    offered = partitions_definition(node.grain, FIRST).get_partition_keys()
    assert [offered[0], offered[-1]] == [key_of(FIRST), key_of(graph.days(today).last)]
    assert len(offered) == len(graph.days(today))


def test_a_first_day_within_a_month_still_gives_that_month() -> None:
    months = partitions_definition(Grain.MONTHLY, FIRST + timedelta(days=14))
    assert months.get_first_partition_key() == "2020-01-01"
