"""Property: what a plan builds and what it leaves out, with a reason, are together what was asked for.

Over random graphs with gaps, changes and requests. What was asked for is found here partition by partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Days, Grain, days_in, days_of, partitions_over
from backfill_assets.core.errors import Refused
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.impact import LeftOut, Rebuild, WhyLeftOut, impact
from backfill_assets.planning.restatement import SetRequest
from backfill_assets.requests.left_out import how_to_include, why_left_out
from backfill_assets.requests.scope import NOTHING_STALE, StaleOnes, left_out_of, require_whole, stale_ones
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.graph_examples import DAYS, SPAN, every_partition, inputs_of, is_complete
from backfill_assets_tests.support.published_world import World, happenings, worlds

Partitions = set[tuple[str, date]]


def scoped(world: World, request: SetRequest) -> tuple[tuple[Rebuild, ...], tuple[LeftOut, ...]]:
    """What a request builds and leaves out."""
    graph, accepted = world.graph, world.accepted()
    changed: dict[str, set[date]] = {}
    for name, days in request.because:
        changed.setdefault(name, set()).update(partitions_over(graph.table(name).grain, days))
    found = [
        world.stale(node, None if request.days is None else list(partitions_over(node.grain, request.days)))
        for node in graph.tables.values()
        # What has landed is not modelled here.
        if request.table in (None, node.name) and not node.is_source
    ]
    stale = stale_ones(graph, request, found) if request.stale else NOTHING_STALE
    if request.with_dependents and request.table and request.days:
        named = partitions_over(graph.table(request.table).grain, request.days)
        stale = StaleOnes(if_complete={request.table: named})
    rebuilds = impact(graph, changed, accepted, rebuild=stale.rebuild, if_complete=stale.if_complete)
    besides = () if request.stale else found
    return rebuilds, left_out_of(graph, request, stale, changed, rebuilds, accepted, besides)


def drawn(data: st.DataObject) -> tuple[tuple[Rebuild, ...], tuple[LeftOut, ...]] | None:
    """What a request for what is stale builds and leaves out, in a changed world; None if refused."""
    world = data.draw(worlds())
    data.draw(happenings(world))
    try:
        return scoped(world, data.draw(requests_of_stale(world)))
    except Refused:
        return None


def built_by(rebuilds: tuple[Rebuild, ...]) -> Partitions:
    return {(rebuild.table, partition) for rebuild in rebuilds for partition in rebuild.partitions}


def listed(left_out: tuple[LeftOut, ...], *, asked: bool) -> list[tuple[str, date]]:
    return [(each.table, p) for each in left_out if each.is_asked is asked for p in each.partitions]


def stale_in(world: World, node: TableNode) -> set[date]:
    """The accepted partitions that are stale."""
    found = world.stale(node)
    return {p for each in found.ranges for p in each.partitions} & world.accepted()[node.name]


def require_listed_once(rebuilds: tuple[Rebuild, ...], left_out: tuple[LeftOut, ...]) -> None:
    every = [*built_by(rebuilds), *listed(left_out, asked=True), *listed(left_out, asked=False)]
    assert len(every) == len(set(every))
    assert all(why_left_out(each) and how_to_include(each).parts for each in left_out)


def is_whole(grain: Grain, partition: date, days: Days) -> bool:
    return all(day in days for day in days_of(grain, partition))


def requests_of_stale(world: World) -> st.SearchStrategy[SetRequest]:
    days = st.tuples(DAYS, st.integers(1, 90)).map(
        lambda drawn: DayRange.inclusive(drawn[0], min(SPAN.last, drawn[0] + timedelta(days=drawn[1])))
    )
    derived = [node.name for node in world.graph.tables.values() if not node.is_source]
    return st.builds(
        SetRequest,
        reason=st.just("why not"),
        by=st.just("ana"),
        stale=st.just(True),
        table=st.none() | st.sampled_from(derived),
        days=st.none() | days | st.lists(days, min_size=2, max_size=4).map(days_in),
        changed_code=st.booleans(),
    )


@given(st.data())
def test_everything_stale_that_is_asked_for_is_built_or_left_out_with_a_reason(data: st.DataObject) -> None:
    world = data.draw(worlds())
    data.draw(happenings(world))
    request = data.draw(requests_of_stale(world))
    try:
        rebuilds, left_out = scoped(world, request)
    except Refused as error:
        assert "only the code changed" in error.message
        return
    require_listed_once(rebuilds, left_out)
    built, accepted = built_by(rebuilds), world.accepted()
    there = {name: some | {p for table, p in built if table == name} for name, some in accepted.items()}
    asked: Partitions = set()
    for node in world.graph.tables.values():
        if node.is_source or request.table not in (None, node.name):
            continue
        stale = stale_in(world, node)
        if request.days is None:
            asked |= {(node.name, p) for p in stale}
            gaps = {(node.name, p) for p in world.gaps(node)}
            assert gaps <= built | set(listed(left_out, asked=False))
            continue
        inside = {p for p in every_partition(node.grain) if any(day in request.days for day in days_of(node.grain, p))}
        asked |= {(node.name, p) for p in inside & stale}
        never = inside - accepted[node.name]
        possible = {p for p in never if is_complete(world.graph, node, p, there)}
        asked |= {(node.name, p) for p in never if p in possible or is_whole(node.grain, p, request.days)}
        # Everything that could be built of the named days is.
        assert {(node.name, p) for p in possible} <= built
    assert set(listed(left_out, asked=True)) == asked - built


@given(st.data())
def test_everything_that_depends_on_named_days_is_built_or_left_out_with_a_reason(data: st.DataObject) -> None:
    world = data.draw(worlds())
    data.draw(happenings(world))
    name = data.draw(st.sampled_from(list(world.graph.tables)))
    first = data.draw(DAYS)
    last = min(SPAN.last, first + timedelta(days=data.draw(st.integers(0, 40))))
    days = DayRange.inclusive(first, last)
    request = SetRequest(reason="why not", by="ana", because=((name, days),))
    rebuilds, left_out = scoped(world, request)
    require_listed_once(rebuilds, left_out)
    built, accepted = built_by(rebuilds), world.accepted()
    named = set(partitions_over(world.graph.table(name).grain, days))
    asked = {(name, day) for day in named - accepted[name]}
    changed, there = {name: named}, {table: set(some) for table, some in accepted.items()}
    for node in world.graph.tables.values():
        depends = {p for p in every_partition(node.grain) if depends_on(world, node, p, changed)}
        assert {(node.name, p) for p in depends & accepted[node.name]} <= built | {(name, p) for p in named}
        new = {p for p in depends - accepted[node.name] if is_complete(world.graph, node, p, there)}
        new = set() if node.is_source else new
        if accepted[node.name]:
            asked |= {(node.name, p) for p in new if any(day in days for day in days_of(node.grain, p))}
        assert {(node.name, p) for p in new} <= {*listed(left_out, asked=True), *listed(left_out, asked=False)}
        changed.setdefault(node.name, set()).update(depends & accepted[node.name] | new)
        there[node.name] |= new
    assert set(listed(left_out, asked=True)) == asked


def depends_on(world: World, node: TableNode, partition: date, changed: Mapping[str, set[date]]) -> bool:
    return any(
        not inputs_of(world.graph, edge, node, partition).isdisjoint(changed.get(edge.table, set()))
        for edge in node.inputs
    )


@given(st.data())
def test_a_person_who_names_days_gets_all_of_them_or_a_refusal_that_counts(data: st.DataObject) -> None:
    found = drawn(data)
    assume(found)
    rebuilds, left_out = found or ((), ())
    missing = listed(left_out, asked=True)
    if not missing:
        require_whole(rebuilds, left_out)
        return
    with pytest.raises(Refused) as refused:
        require_whole(rebuilds, left_out)
    planned = len(built_by(rebuilds))
    assert refused.value.message.startswith(f"{planned:,} of {planned + len(missing):,} partition")


@pytest.mark.long
def test_the_property_meets_requests_that_are_whole_and_that_are_not() -> None:
    """Guards the strategies."""
    met: set[str] = set()

    @given(st.data())
    def look(data: st.DataObject) -> None:
        rebuilds, left_out = drawn(data) or ((), ())
        met.add("part" if rebuilds and listed(left_out, asked=True) else "other")
        assume(rebuilds)
        if not listed(left_out, asked=True):
            met.add("whole")
        met.update(each.why for each in left_out)

    look()
    assert {"part", "whole", WhyLeftOut.INCOMPLETE, WhyLeftOut.DAYS_NOT_NAMED} <= met


@given(st.data())
def test_of_what_depends_on_named_days_nothing_that_can_be_built_is_passed_over(data: st.DataObject) -> None:
    world = data.draw(worlds())
    graph, accepted = world.graph, world.accepted()
    derived = [node.name for node in graph.tables.values() if not node.is_source]
    first = data.draw(DAYS)
    request = SetRequest(
        reason="why not",
        by="ana",
        table=data.draw(st.sampled_from(derived)),
        days=DayRange.inclusive(first, min(SPAN.last, first + timedelta(days=data.draw(st.integers(0, 60))))),
        with_dependents=True,
    )
    rebuilds, left_out = scoped(world, request)
    require_listed_once(rebuilds, left_out)
    built = built_by(rebuilds)
    said = built.union(listed(left_out, asked=True), listed(left_out, asked=False))
    there = {name: some | {p for table, p in built if table == name} for name, some in accepted.items()}
    for node in graph.tables.values():
        for partition in every_partition(node.grain):
            read = {(edge.table, p) for edge in node.inputs for p in inputs_of(graph, edge, node, partition)}
            if read & built and is_complete(graph, node, partition, there):
                assert (node.name, partition) in said


def test_what_reads_an_expired_snapshot_is_left_out_and_named_and_refused_without_partial() -> None:
    april, may, gone = date(2024, 4, 1), date(2024, 5, 1), date(2024, 5, 20)
    year = DayRange.inclusive(date(2024, 1, 1), date(2024, 12, 31))
    daily = TableNode(name="silver.daily", grain=Grain.DAILY)
    monthly = TableNode(
        name="gold.monthly", grain=Grain.MONTHLY, inputs=(TableInput(argument="daily", table=daily.name),)
    )
    graph = Graph(tables=topological([daily, monthly]), first_day=year.start)
    accepted = {daily.name: frozenset(year) - {gone}, monthly.name: frozenset(partitions_over(Grain.MONTHLY, year))}
    expired, changed = {daily.name: frozenset({gone})}, {daily.name: {april, may}}
    request = SetRequest(reason="late", by="ana", because=((daily.name, DayRange.inclusive(april, may)),))
    whole, rebuilds = impact(graph, changed, accepted), impact(graph, changed, accepted, expired=expired)
    left_out = left_out_of(graph, request, NOTHING_STALE, changed, rebuilds, accepted, (), expired, whole)
    assert built_by(rebuilds) == {(monthly.name, april)}
    (left,) = left_out
    assert (left.table, left.partitions, left.why, left.is_asked) == (
        monthly.name,
        (may,),
        WhyLeftOut.INPUT_EXPIRED,
        True,
    )
    assert why_left_out(left) == "an input has expired: silver.daily lacks 2024-05-20, 1 day"
    with pytest.raises(Refused, match="1 of 2 partitions asked for can be planned") as refusal:
        require_whole(rebuilds, left_out)
    assert advised(refusal.value) == (
        "backfill plan table daily --reason WHY --from 2024-05-20 --to 2024-05-20 --by NAME; "
        "or, to plan less than was asked for, add --partial"
    )


def test_what_a_version_beside_a_table_lacks_is_listed_where_the_version_is_named() -> None:
    """The LIVE path keeps it up to date."""
    daily = TableNode(name="bronze.daily", grain=Grain.DAILY)
    edge = TableInput(argument="daily", table=daily.name)
    version = TableNode(name="silver.v2", grain=Grain.DAILY, inputs=(edge,), is_beside=True)
    graph = Graph(tables=topological([daily, version]), first_day=date(2024, 1, 1))
    there = DayRange.inclusive(date(2024, 1, 1), date(2024, 1, 9))
    accepted = {daily.name: frozenset(there), version.name: frozenset({there.start})}

    def left_out(table: str | None) -> set[str]:
        request = SetRequest(reason="why not", by="ana", stale=True, table=table)
        return {each.table for each in left_out_of(graph, request, NOTHING_STALE, {}, (), accepted)}

    assert (left_out(None), left_out(version.name)) == (set(), {version.name})
