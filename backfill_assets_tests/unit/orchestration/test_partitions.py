"""Dagster's lineage, the planner and the reader of inputs agree on every window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest
from dagster import PartitionKeyRange, PartitionsDefinition, partition_loading_context
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DateType, StructField, StructType

from backfill_assets.calendar.local_days import LAST_PLANNED
from backfill_assets.calendar.partitions import DayRange, Grain, partition_of
from backfill_assets.calendar.windows import AnyWindow, Months, Window
from backfill_assets.domain import Domain, daily, derived_table, reads, reads_self, seconds
from backfill_assets.orchestration.partitions import (
    GAPS_AHEAD,
    OfferedDays,
    key_of,
    partitions_definition,
    table_partitions,
    window_mapping,
)
from backfill_assets.planning.graph import Graph, TableInput, TableNode
from backfill_assets.planning.impact import impact
from backfill_assets_tests.domains.states import moves
from backfill_assets_tests.domains.weeks import balances
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


@pytest.mark.long
@settings(deadline=None, max_examples=5)  # Dagster counts the days of a long window one by one
@given(st.sampled_from([7, 30]), st.sets(MIDDLE, min_size=1, max_size=3))
def test_dagster_offers_only_days_with_a_snapshot_and_maps_them_as_the_planner_does(
    every: int, days: set[date]
) -> None:
    state = derived_table(
        name="silver.state",
        inputs={"state": reads_self(since=date(2021, 12, 5), every=every), "moves": moves},
        key=("as_of", "case_id"),
        partition=daily("as_of"),
        schema=balances.schema,
        version="1",
    )(lambda state, moves, ctx: state)
    days_of_state = reads(state, days_back=every - 1)
    reader = derived_table(
        name="gold.days",
        inputs={"state": days_of_state},
        key=("as_of",),
        partition=daily("as_of"),
        schema=balances.schema,
        version="1",
    )(lambda state, ctx: state)
    domain = Domain(name="few", package="few", sources=(moves,), derived=(state, reader))
    graph = domain.graph({}, first_day=FIRST)
    offered = OfferedDays(first=date(2022, 1, 1), last=date(2023, 12, 31), asked_on=date(2024, 2, 1))
    of = {table.name: table_partitions(table, offered) for table in (moves, state, reader)}
    for name, definition in of.items():
        keys = definition.get_partition_keys()
        shown = graph.table(name).partitions_over(DayRange.inclusive(date(2022, 1, 1), date(2023, 12, 31)))
        assert keys == [key_of(each) for each in shown]
        assert definition.get_partition_keys_in_range(PartitionKeyRange(keys[1], keys[3])) == keys[1:4]
    for node in (graph.table(state.name), graph.table(reader.name)):
        (edge,) = node.inputs
        above, below, mapping = of[edge.table], of[node.name], window_mapping(edge)
        later = [node.partitions_over(DayRange(day, date(2024, 3, 1)))[0] for day in days]
        changed = [graph.table(edge.table).partitions_over(DayRange(day, date(2024, 3, 1)))[0] for day in days]
        needed = {key_of(p) for p in graph.needed(edge, node, [p for p in later if p.year < 2024])}
        reached = {key_of(p) for p in graph.reached(edge, node, [p for p in changed if p.year < 2024])}
        with partition_loading_context():
            up = mapping.get_upstream_mapped_partitions_result_for_partitions(
                subset(below, [p for p in later if p.year < 2024]),  # type: ignore[arg-type]
                below,
                above,
            )
            down = mapping.get_downstream_partitions_for_partitions(
                subset(above, [p for p in changed if p.year < 2024]),  # type: ignore[arg-type]
                above,
                below,
            )
        assert set(up.partitions_subset.get_partition_keys()) == needed & set(above.get_partition_keys())
        assert set(down.get_partition_keys()) == reached & set(below.get_partition_keys())


def test_days_between_two_snapshots_are_left_out_for_as_long_as_a_code_location_runs() -> None:
    definition = table_partitions(balances, OfferedDays(first=date(2026, 1, 1), asked_on=date(2026, 6, 1)))
    assert isinstance(definition.exclusions, list)
    known = DayRange.inclusive(date(2026, 1, 1), date(2026, 6, 1) + GAPS_AHEAD)
    assert len(definition.exclusions) == len(known) - len(balances.stretches.ends(known))  # type: ignore[union-attr]


def test_the_days_that_dagster_offers_are_the_days_a_table_can_have() -> None:
    graph, _, node = graph_of(Grain.DAILY, Grain.DAILY, Window())
    today = date.fromisoformat(partitions_definition(Grain.DAILY, OFFERED).get_last_partition_key() or "")
    offered = partitions_definition(node.grain, OFFERED).get_partition_keys()
    assert [offered[0], offered[-1]] == [key_of(FIRST), key_of(graph.days(today, node.name).last)]
    assert len(offered) == len(graph.days(today, node.name))


def test_a_first_day_within_a_month_still_gives_that_month() -> None:
    months = partitions_definition(Grain.MONTHLY, replace(OFFERED, first=FIRST + timedelta(days=14)))
    assert months.get_first_partition_key() == "2020-01-01"
    ended = partitions_definition(Grain.MONTHLY, replace(OFFERED, last=date(2020, 3, 14)))
    assert ended.get_last_partition_key() == "2020-03-01"


@pytest.mark.long
@given(beyond=st.integers(0, 800), today=st.dates(date(2026, 1, 1), date(2026, 12, 31)))
def test_partitions_reach_as_far_beyond_today_as_events_are_planned(beyond: int, today: date) -> None:
    last = today + timedelta(days=beyond)
    noon = datetime.combine(today, time(12), tzinfo=UTC)
    for days in (
        OfferedDays(first=FIRST, asked_on=today, beyond=timedelta(days=beyond)),
        OfferedDays(first=FIRST, asked_on=today).with_all(DayRange.inclusive(today, last)),
    ):
        for grain in Grain:
            keys = partitions_definition(grain, days).get_partition_keys(current_time=noon)
            assert keys[-1] == key_of(partition_of(grain, last))


def test_plans_reach_as_far_beyond_today_as_events_of_a_source_can() -> None:
    today = date(2026, 1, 15)

    def last(**declared: object) -> date:
        source = replace(moves, **declared)  # type: ignore[arg-type]
        domain = Domain(name="few", package="few", sources=(source,), derived=())
        return domain.graph({}, first_day=FIRST).days(today, moves.name).last

    assert last() == today
    assert last(ahead=seconds(60)) == today + timedelta(days=1)
    assert last(ahead=timedelta(days=2)) == today + timedelta(days=2)
    assert last(planned=True) == LAST_PLANNED
    others = [each for each in moves.schema if each.name != moves.event_time]
    of_dates = StructType([*others, StructField(moves.event_time, DateType(), nullable=False)])
    assert last(schema=of_dates) == today + timedelta(days=1)
