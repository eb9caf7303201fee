"""Windows per input: planner, stages, provenance, staleness, impact and Dagster's mapping agree on each of them.

A table reads two or three tables, each with a window of its own. What an output partition reads of each is told day by
day; everything that asks for it elsewhere has to say the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import pytest
from dagster import partition_loading_context
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import ONE_DAY, DayRange, Grain, days_of, partition_of
from backfill_assets.calendar.windows import Months, Window, parse_window
from backfill_assets.candidates.inputs import window_digests
from backfill_assets.core.errors import InvalidDeclaration, MissingInput
from backfill_assets.orchestration.partitions import OfferedDays, key_of, partitions_definition, window_mapping
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.impact import impact
from backfill_assets.planning.manifest import configuration_of
from backfill_assets.planning.manifest_parts import Cause, Limits
from backfill_assets.planning.request import PlannedInput, require_inputs
from backfill_assets.planning.stages import computing
from backfill_assets.planning.state import AcceptedPartition, ComputedFrom, ComputedFromInput
from backfill_assets.staleness.decide import CurrentState, find_stale
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.graph_examples import SPAN, WINDOWS, every_partition, inputs_of
from backfill_assets_tests.unit.planning.test_estimates import Accepted, claim_of, plan_of
from backfill_assets_tests.unit.staleness.test_staleness import BASIS, PRESENT

TABLE = "silver.table"
LIMITS = Limits(chunk_partitions=3)


@dataclass(frozen=True, kw_only=True)
class EverythingAccepted(Accepted):
    """Every partition of every table is accepted, but for some of one table."""

    lacking: Mapping[str, frozenset[date]]

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]:
        without = self.lacking.get(table, frozenset())
        return {p: claim_of(rows=1) for p in partitions or () if table != TABLE and p not in without}


@st.composite
def tables(draw: st.DrawFn) -> Graph:
    """A daily or monthly table over two or three daily or monthly ones, each with a window of its own."""
    grain = draw(st.sampled_from(Grain))
    sources = [
        TableNode(name=f"bronze.s{number}", grain=draw(st.sampled_from(Grain)))
        for number in range(draw(st.integers(2, 3)))
    ]
    edges = tuple(
        TableInput(argument=source.name.removeprefix("bronze."), table=source.name, window=draw(WINDOWS[grain]))
        for source in sources
    )
    return Graph(
        tables=topological([*sources, TableNode(name=TABLE, grain=grain, inputs=edges)]), first_day=date(2020, 1, 1)
    )


def some_days(data: st.DataObject) -> DayRange:
    first = data.draw(st.dates(SPAN.start, SPAN.last))
    return DayRange.inclusive(first, data.draw(st.dates(first, SPAN.last)))


@given(st.data())
def test_the_plan_and_its_stages_read_exactly_the_window_of_each_input(data: st.DataObject) -> None:
    graph = data.draw(tables())
    node = graph.table(TABLE)
    state = EverythingAccepted(rows_a_day=1, lacking={})
    planned = plan_of(graph, state, some_days(data), table=TABLE, limits=LIMITS)
    stages = computing(planned.manifest, graph)
    for place, (edge, read) in enumerate(zip(node.inputs, planned.inputs, strict=True)):
        oracle = {p: inputs_of(graph, edge, node, p) for p in planned.manifest.partitions}
        assert set(read.partitions) == frozenset().union(*oracle.values())
        of_output = {
            partition_of(read.grain, day) for p in planned.manifest.partitions for day in days_of(node.grain, p)
        }
        assert set(read.warm_up) == set(read.partitions) - of_output
        assert {pin.partition for pin in planned.manifest.inputs[place].partitions} == set(read.partitions)
        for stage in stages:
            asked = frozenset().union(*(oracle[p] for p in stage.chunk.computed))
            assert set(stage.reads[place].partitions) == asked
            around = {partition_of(read.grain, day) for day in stage.reads[place].days}
            assert asked <= around, "the days of a call hold everything that it reads"


@given(st.data())
def test_a_missing_partition_is_refused_only_where_the_window_of_its_input_holds_it(data: st.DataObject) -> None:
    graph = data.draw(tables())
    node = graph.table(TABLE)
    edge = data.draw(st.sampled_from(node.inputs))
    gone = data.draw(st.sampled_from(every_partition(graph.table(edge.table).grain)))
    state = EverythingAccepted(rows_a_day=1, lacking={edge.table: frozenset({gone})})
    planned = plan_of(graph, state, some_days(data), table=TABLE, limits=LIMITS)
    if any(gone in inputs_of(graph, edge, node, p) for p in planned.manifest.partitions):
        assert planned.missing == {edge.table: (gone,)}
        with pytest.raises(MissingInput, match=edge.table):
            require_inputs(planned, first_day=graph.first_day)
    else:
        assert planned.missing == {}


@given(st.data())
def test_a_changed_partition_makes_stale_and_moves_what_the_window_of_its_input_reaches(data: st.DataObject) -> None:
    graph = data.draw(tables())
    node = graph.table(TABLE)
    edge = data.draw(st.sampled_from(node.inputs))
    changed = data.draw(st.sampled_from(every_partition(graph.table(edge.table).grain)))
    output = every_partition(node.grain)
    expected = {p for p in output if changed in inputs_of(graph, edge, node, p)}

    digests = {
        each.table: {day: "before" for p in output for day in inputs_of(graph, each, node, p)} for each in node.inputs
    }
    basis: ComputedFrom = replace(
        BASIS,
        partitions=tuple(output),
        configuration=configuration_of(node),
        inputs=tuple(ComputedFromInput(edge=each, digests=digests[each.table]) for each in node.inputs),
    )
    after = {**digests, edge.table: {**digests[edge.table], changed: "after"}}
    present: CurrentState = replace(PRESENT, configuration=configuration_of(node), digests=after)
    found = find_stale(node, graph, [basis], present)
    assert set(found.partitions) == expected
    assert {reason.cause for stale in found.ranges for reason in stale.reasons} <= {Cause.INPUT_CHANGED}

    every = {name: frozenset(every_partition(each.grain)) for name, each in graph.tables.items()}
    moved = {rebuild.table: set(rebuild.partitions) for rebuild in impact(graph, {edge.table: {changed}}, every)}
    assert moved == ({TABLE: expected} if expected else {})


@given(st.data())
def test_the_provenance_of_a_partition_holds_the_digests_of_the_window_of_each_input(data: st.DataObject) -> None:
    graph = data.draw(tables())
    node = graph.table(TABLE)
    state = EverythingAccepted(rows_a_day=1, lacking={})
    manifest = plan_of(graph, state, some_days(data), table=TABLE, limits=LIMITS).manifest
    partition = data.draw(st.sampled_from(manifest.partitions))
    digests = {
        pinned.argument: {pin.partition: str(pin.partition) for pin in pinned.partitions} for pinned in manifest.inputs
    }
    before = window_digests(graph, manifest, partition, digests)
    edge = data.draw(st.sampled_from(node.inputs))
    changed = data.draw(st.sampled_from(sorted(digests[edge.argument])))
    digests[edge.argument] = {**digests[edge.argument], changed: "another"}
    after = window_digests(graph, manifest, partition, digests)
    differing = {table for table in before if before[table] != after[table]}
    assert differing == ({edge.table} if changed in inputs_of(graph, edge, node, partition) else set())


@given(st.data())
def test_dagster_maps_each_input_by_its_own_window(data: st.DataObject) -> None:
    graph = data.draw(tables())
    node = graph.table(TABLE)
    partitions = data.draw(st.sets(st.sampled_from(every_partition(node.grain)), min_size=1, max_size=3))
    below = partitions_definition(node.grain, OfferedDays(first=date(2020, 1, 1)))
    with partition_loading_context():
        for edge in node.inputs:
            found = window_mapping(edge).get_upstream_mapped_partitions_result_for_partitions(
                below.subset_with_partition_keys([key_of(p) for p in partitions]),
                below,
                partitions_definition(graph.table(edge.table).grain, OfferedDays(first=date(2020, 1, 1))),
            )
            oracle = {key_of(read) for p in partitions for read in inputs_of(graph, edge, node, p)}
            assert set(found.partitions_subset.get_partition_keys()) == oracle


@given(st.sampled_from(Grain), st.data(), st.dates(date(2024, 1, 1), date(2024, 12, 31)))
def test_a_window_survives_the_text_of_a_manifest_and_reads_backwards(
    grain: Grain, data: st.DataObject, day: date
) -> None:
    window = data.draw(WINDOWS[grain])
    assert parse_window(json.loads(json.dumps(dict(window.document)))) == window
    output = days_of(grain, partition_of(grain, day))
    read = window.around(output)
    for inside in (read.start, read.last):
        assert set(output) & set(window.reached_from(DayRange.inclusive(inside, inside)))
    for outside in (read.start - ONE_DAY, read.end):
        assert not set(output) & set(window.reached_from(DayRange.inclusive(outside, outside)))


def test_months_are_whole_calendar_months() -> None:
    march = DayRange.inclusive(date(2024, 3, 1), date(2024, 3, 31))
    assert Months(back=1).around(march) == DayRange.inclusive(date(2024, 2, 1), date(2024, 3, 31))
    assert Months(back=3, ahead=10).around(march) == DayRange.inclusive(date(2023, 12, 1), date(2025, 1, 31))
    assert Months(back=1).reached_from(DayRange.inclusive(date(2024, 2, 29), date(2024, 2, 29))) == (
        DayRange.inclusive(date(2024, 2, 1), date(2024, 3, 31))
    )
    with pytest.raises(InvalidDeclaration, match="are not two numbers"):
        Months(back=1.5)  # type: ignore[arg-type]


def test_the_month_that_holds_an_output_day_is_no_warm_up() -> None:
    edge = TableInput(argument="s", table="bronze.s", window=Window(days_back=7))
    node = TableNode(name=TABLE, grain=Grain.DAILY, inputs=(edge,))
    source = TableNode(name="bronze.s", grain=Grain.MONTHLY)
    graph = Graph(tables=topological([source, node]), first_day=date(2020, 1, 1))
    state = EverythingAccepted(rows_a_day=1, lacking={})
    read: PlannedInput
    (read,) = plan_of(
        graph, state, DayRange.inclusive(date(2024, 5, 5), date(2024, 5, 9)), table=TABLE, limits=LIMITS
    ).inputs
    assert (read.partitions, read.warm_up) == ((date(2024, 4, 1), date(2024, 5, 1)), (date(2024, 4, 1),))


def test_what_a_table_lacks_is_said_of_both_windows_that_read_it() -> None:
    """The second window used to hide what only the first one asks for."""
    edges = (
        TableInput(argument="long", table="bronze.s", window=Window(days_back=3)),
        TableInput(argument="ahead", table="bronze.s", window=Window(days_ahead=2)),
    )
    node = TableNode(name=TABLE, grain=Grain.DAILY, inputs=edges)
    graph = Graph(tables=topological([TableNode(name="bronze.s", grain=Grain.DAILY), node]), first_day=date(2020, 1, 1))
    lacking = (date(2024, 5, 2), date(2024, 5, 6))
    state = EverythingAccepted(rows_a_day=1, lacking={"bronze.s": frozenset(lacking)})
    planned = plan_of(graph, state, DayRange.inclusive(date(2024, 5, 5), date(2024, 5, 5)), table=TABLE, limits=LIMITS)
    assert planned.missing == {"bronze.s": lacking}
    with pytest.raises(MissingInput, match=r"bronze\.s lacks 2024-05-02, 2024-05-06, 2 days") as refusal:
        require_inputs(planned, first_day=graph.first_day)
    assert refusal.value.ids["missing"] == {"bronze.s": ["2024-05-02", "2024-05-06"]}
    assert advised(refusal.value).startswith("land the missing files")
    with pytest.raises(MissingInput) as refusal:
        require_inputs(planned, first_day=date(2024, 5, 3))
    # Nothing builds a day before the first one, so that no command for it is named; later days lack one as well.
    assert advised(refusal.value) == (
        "set BACKFILL_FIRST_DAY to 2024-05-02, and then land the days from then on that are missing, or load them as "
        "empty"
    )


def test_a_plan_whose_inputs_cannot_be_built_either_is_advised_to_begin_with_what_they_rest_on() -> None:
    daily = TableNode(name="silver.d", grain=Grain.DAILY, inputs=(TableInput(argument="s", table="bronze.s"),))
    node = TableNode(name=TABLE, grain=Grain.MONTHLY, inputs=(TableInput(argument="d", table="silver.d"),))
    source = TableNode(name="bronze.s", grain=Grain.DAILY)
    graph = Graph(tables=topological([source, daily, node]), first_day=date(2020, 1, 1))
    may = DayRange.inclusive(date(2024, 5, 1), date(2024, 5, 31))

    def advice(*absent: str) -> str:
        state = EverythingAccepted(rows_a_day=1, lacking=dict.fromkeys(absent, frozenset(may)))
        planned = plan_of(graph, state, may, table=TABLE, limits=LIMITS)
        with pytest.raises(MissingInput, match=r"silver\.d lacks 2024-05-01\.\.2024-05-31, 31 days") as refusal:
            require_inputs(planned, first_day=graph.first_day)
        return advised(refusal.value)

    assert advice("silver.d") == "backfill plan table d --reason WHY --from 2024-05-01 --to 2024-05-31 --by NAME"
    assert advice("silver.d", "bronze.s").startswith(
        "begin with bronze.s, which silver.d rests on and which lacks 2024-05-01..2024-05-31, 31 days: "
        "land the missing files"
    )
