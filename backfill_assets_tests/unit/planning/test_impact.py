"""What a change touches, against a reading of the windows day by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain, TablePartitions, partition_of
from backfill_assets.calendar.windows import SinceFirstDay, Window
from backfill_assets.core.errors import UnknownName
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.impact import Rebuild, by_table, complete_partitions, impact, never_built, unbuilt
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets_tests.support.graph_examples import (
    DAYS,
    accepted_partitions,
    every_partition,
    graphs,
    inputs_of,
    is_complete,
)

Partitions = Mapping[str, set[date]]

MARCH_28 = date(2024, 3, 28)
EVENTS = TableNode(name="bronze.events", grain=Grain.DAILY)
WEEKLY = TableNode(
    name="silver.weekly",
    grain=Grain.DAILY,
    inputs=(TableInput(argument="events", table="bronze.events", window=Window(days_back=6, days_ahead=1)),),
)
MONTHLY = TableNode(
    name="gold.monthly", grain=Grain.MONTHLY, inputs=(TableInput(argument="weekly", table="silver.weekly"),)
)
GRAPH = Graph(tables=topological([EVENTS, WEEKLY, MONTHLY]), first_day=date(2024, 1, 1))
YEAR = DayRange.inclusive(date(2024, 1, 1), date(2024, 12, 31))
ALL = {
    "bronze.events": frozenset(YEAR),
    "silver.weekly": frozenset(YEAR),
    "gold.monthly": frozenset(partition_of(Grain.MONTHLY, day) for day in YEAR),
}


def days(first: date, last: date) -> tuple[date, ...]:
    return tuple(DayRange.inclusive(first, last))


def naive_closure(
    graph: Graph, changed: Partitions, accepted: Partitions, rebuild: Partitions, never_built: Partitions
) -> Partitions:
    moved = {name: set(changed.get(name, set())) for name in graph.tables}
    built: dict[str, set[date]] = {}
    for node in graph.tables.values():
        for partition in every_partition(node.grain):
            rests_on_it = any(inputs_of(graph, edge, node, partition) & moved[edge.table] for edge in node.inputs)
            there = {name: accepted[name] | built.get(name, set()) for name in graph.tables}
            if (
                (partition in accepted[node.name] and rests_on_it)
                or partition in rebuild.get(node.name, set())
                or (partition in never_built.get(node.name, set()) and is_complete(graph, node, partition, there))
            ):
                built.setdefault(node.name, set()).add(partition)
        moved[node.name] |= built.get(node.name, set())
    return built


@given(st.data())
def test_the_closure_is_what_every_window_read_day_by_day_gives(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    accepted = data.draw(accepted_partitions(graph))
    tables = st.sampled_from(list(graph.tables))

    def some(most: int) -> Partitions:
        chosen: dict[str, set[date]] = {}
        for name, day in data.draw(st.sets(st.tuples(tables, DAYS), max_size=most)):
            chosen.setdefault(name, set()).add(partition_of(graph.table(name).grain, day))
        return chosen

    changed, rebuild = some(4), some(2)
    gaps = {
        node.name: set(every_partition(node.grain)) - accepted[node.name]
        for node in graph.tables.values()
        if not node.is_source
    }
    never_built = data.draw(st.sampled_from([{}, gaps]))
    found = impact(graph, changed, accepted, rebuild=rebuild, if_complete=never_built)
    assert {each.table: set(each.partitions) for each in found} == naive_closure(
        graph, changed, accepted, rebuild, never_built
    )
    order = [each.table for each in found]
    assert order == [name for name in graph.tables if name in order]
    built = {each.table: set(each.partitions) for each in found}
    for each in found:
        node = graph.table(each.table)
        read: dict[str, set[date]] = {}
        for edge in node.inputs:
            for partition in each.partitions:
                read.setdefault(edge.table, set()).update(inputs_of(graph, edge, node, partition))
        only_read = {name: needed - built.get(name, set()) for name, needed in read.items()}
        assert {r.table: set(r.partitions) for r in each.only_read} == {n: d for n, d in only_read.items() if d}
        moved = {name: (changed.get(name, set()) | built.get(name, set())) & read[name] for name in read}
        assert {r.table: set(r.partitions) for r in each.because} == {n: d for n, d in moved.items() if d}
        assert set(each.new) == set(each.partitions) - accepted[each.table]


def test_a_changed_day_reaches_days_before_and_after_it_and_their_months() -> None:
    weekly, monthly = impact(GRAPH, {"bronze.events": [MARCH_28]}, ALL)
    assert weekly == Rebuild(
        table="silver.weekly",
        grain=Grain.DAILY,
        partitions=days(date(2024, 3, 27), date(2024, 4, 3)),
        because=(TablePartitions(table="bronze.events", grain=Grain.DAILY, partitions=(MARCH_28,)),),
        only_read=(
            TablePartitions(
                table="bronze.events", grain=Grain.DAILY, partitions=days(date(2024, 3, 21), date(2024, 4, 4))
            ),
        ),
    )
    assert monthly.partitions == (date(2024, 3, 1), date(2024, 4, 1))
    assert monthly.because == (TablePartitions(table="silver.weekly", grain=Grain.DAILY, partitions=weekly.partitions),)
    (read,) = monthly.only_read
    assert set(read.partitions) == set(days(date(2024, 3, 1), date(2024, 4, 30))) - set(weekly.partitions)


def test_what_was_never_built_is_not_made_stale_by_a_change() -> None:
    accepted = {**ALL, "silver.weekly": ALL["silver.weekly"] - {MARCH_28}, "gold.monthly": frozenset[date]()}
    (weekly,) = impact(GRAPH, {"bronze.events": [MARCH_28]}, accepted)
    assert MARCH_28 not in weekly.partitions
    assert len(weekly.partitions) == 7


def test_what_was_never_built_follows_when_its_window_becomes_complete() -> None:
    accepted = {**ALL, "silver.weekly": ALL["silver.weekly"] - {MARCH_28}, "gold.monthly": frozenset[date]()}
    months = {"gold.monthly": ALL["gold.monthly"]}
    weekly, monthly = impact(GRAPH, {}, accepted, rebuild={"silver.weekly": [MARCH_28]}, if_complete=months)
    assert weekly.partitions == weekly.new == (MARCH_28,)
    assert monthly.partitions == monthly.new == tuple(sorted(ALL["gold.monthly"]))
    (monthly,) = impact(GRAPH, {}, accepted, if_complete=months)
    assert date(2024, 3, 1) not in monthly.partitions
    assert len(monthly.partitions) == 11


def test_what_has_changed_is_not_built_again_unless_it_is_asked_for() -> None:
    (monthly,) = impact(GRAPH, {"silver.weekly": [MARCH_28]}, ALL)
    assert monthly.table == "gold.monthly"
    weekly, monthly = impact(GRAPH, {}, ALL, rebuild={"silver.weekly": [MARCH_28]})
    assert weekly.partitions == (MARCH_28,)
    assert weekly.because == ()
    assert monthly.partitions == (date(2024, 3, 1),)


def test_the_ledger_is_asked_once_per_table_and_only_about_what_is_reached() -> None:
    asked: list[tuple[str, int]] = []

    def accepted(table: str, partitions: object) -> frozenset[date]:
        asked.append((table, len(list(partitions))))  # type: ignore[call-overload]
        return ALL[table]

    assert impact(GRAPH, {"bronze.events": [MARCH_28]}, accepted) == impact(GRAPH, {"bronze.events": [MARCH_28]}, ALL)
    assert {name for name, _ in asked} == {"silver.weekly", "gold.monthly"}
    assert sum(count for _, count in asked) <= 2 * (8 + 2)


def test_nothing_changed_touches_nothing() -> None:
    assert impact(GRAPH, {}, ALL) == ()


def test_an_undeclared_table_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"bronze\.other"):
        impact(GRAPH, {"bronze.other": [MARCH_28]}, ALL)


def test_what_can_follow_is_found_with_one_question_per_input() -> None:
    source = TableNode(name="bronze.source", grain=Grain.DAILY)
    edges = tuple(
        TableInput(argument=name, table=source.name, window=Window(days_back=back))
        for name, back in (("a", 2), ("b", 0))
    )
    node = TableNode(name="silver.derived", grain=Grain.DAILY, inputs=edges)
    graph = Graph(tables=topological([source, node]), first_day=date(2024, 1, 1))
    asked: list[str] = []

    class State:
        def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, Any]:
            asked.append(table)
            return {day: None for day in partitions if day != date(2024, 3, 10)}

    march = DayRange.inclusive(date(2024, 3, 1), date(2024, 3, 31))
    ready, waiting = complete_partitions(node, graph, march, State())
    assert waiting == tuple(DayRange.inclusive(date(2024, 3, 10), date(2024, 3, 12)))
    assert ready == tuple(day for day in march if day not in waiting)
    assert len(asked) == len(edges)


def test_dependents_that_were_never_built_are_named_where_they_could_be_built() -> None:
    march = {"bronze.events": frozenset(days(date(2024, 3, 1), date(2024, 3, 31)))}
    there = {**march, "silver.weekly": frozenset(), "gold.monthly": frozenset()}
    changed = {"bronze.events": {MARCH_28}}
    assert impact(GRAPH, changed, there) == ()
    (found,) = never_built(GRAPH, changed, there)
    assert (found.table, found.partitions) == ("silver.weekly", days(date(2024, 3, 27), date(2024, 3, 30)))
    assert never_built(GRAPH, changed, ALL) == ()


def test_what_was_never_built_reaches_from_the_first_partition_as_far_as_inputs_do() -> None:
    events = frozenset(days(date(2024, 3, 1), date(2024, 3, 31))) - {date(2024, 3, 15)}
    weekly = frozenset(days(date(2024, 3, 10), date(2024, 3, 12)))
    there = {"bronze.events": events, "silver.weekly": weekly}
    march = (date(2024, 3, 1),)
    assert unbuilt(GRAPH, there) == {"silver.weekly": days(date(2024, 3, 13), date(2024, 3, 31)), "gold.monthly": march}
    # Nothing of it was built: from the first day of its input. The last day of March is not there, so neither is March.
    there = {"bronze.events": events - {date(2024, 3, 31)}}
    assert unbuilt(GRAPH, there) == {"silver.weekly": days(date(2024, 3, 1), date(2024, 3, 30))}
    # What lies before the first day is planned by nothing.
    later = replace(GRAPH, first_day=date(2024, 3, 20))
    assert unbuilt(later, there) == {"silver.weekly": days(date(2024, 3, 20), date(2024, 3, 30))}


def test_the_first_month_of_a_state_that_begins_within_it_was_never_built() -> None:
    since = date(2024, 3, 15)
    state = TableNode(
        name="gold.state",
        grain=Grain.MONTHLY,
        inputs=(TableInput(argument="events", table="bronze.events", window=SinceFirstDay(since)),),
    )
    graph = Graph(tables=topological([EVENTS, state]), first_day=date(2024, 1, 1))
    there = {"bronze.events": frozenset(days(since, date(2024, 4, 30)))}
    assert unbuilt(graph, there) == {"gold.state": (date(2024, 3, 1), date(2024, 4, 1))}


def test_what_reads_an_expired_snapshot_is_not_built_and_neither_is_what_depends_on_that_alone() -> None:
    gone = {"silver.weekly": frozenset({date(2024, 5, 20)})}
    held = {**ALL, "silver.weekly": ALL["silver.weekly"] - gone["silver.weekly"]}
    changed = {"silver.weekly": [date(2024, 4, 1), date(2024, 5, 1)]}
    built = {each.table: each.partitions for each in impact(GRAPH, changed, held, expired=gone)}
    assert built == {"gold.monthly": (date(2024, 4, 1),)}
    again = impact(GRAPH, changed, held, rebuild={"silver.weekly": [date(2024, 5, 20)]}, expired=gone)
    assert {each.table: each.partitions for each in again}["gold.monthly"] == (date(2024, 4, 1), date(2024, 5, 1))


def test_partitions_that_are_named_twice_are_said_once() -> None:
    first = TablePartitions(table="silver.a", grain=Grain.DAILY, partitions=(MARCH_28, MARCH_28 + timedelta(days=2)))
    again = TablePartitions(table="silver.a", grain=Grain.DAILY, partitions=(MARCH_28, MARCH_28 + timedelta(days=1)))
    month = TablePartitions(table="gold.b", grain=Grain.MONTHLY, partitions=(date(2024, 3, 1),))
    assert (
        "; ".join(map(str, by_table([first, month, again])))
        == "silver.a 2024-03-28..2024-03-30, 3 days; gold.b 2024-03, 1 month"
    )


def test_of_a_table_whose_keys_move_between_partitions_all_are_rebuilt_unless_it_keeps_what_is_taken_back() -> None:
    moving = Merge(on=("key",), keys_move=True)
    for mode, rebuilt in ((moving, set(YEAR)), (replace(moving, keeps_withdrawn=True), {MARCH_28})):
        merging = replace(WEEKLY, change=mode, inputs=(TableInput(argument="events", table="bronze.events"),))
        graph = replace(GRAPH, tables=topological([EVENTS, merging]))
        (found,) = impact(graph, {"bronze.events": [MARCH_28]}, ALL)
        assert set(found.partitions) == rebuilt
        (kept,) = impact(graph, {"bronze.events": [MARCH_28]}, ALL, keep={"silver.weekly": {YEAR.start}})
        assert set(kept.partitions) == rebuilt - {YEAR.start}
