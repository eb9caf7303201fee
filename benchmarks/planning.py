"""B4: how long planning takes over ten years of days, and how long finding what is stale.

Makes up 30 tables in layers, each derived one reading two tables of the layer above over a window of 90 days, all built
for ten years of days; first in memory, then in a SQLite ledger filled for it; in ten runs per table, and for staleness
in 120 small ones as well. Every figure is to stay below one second. Nothing is computed, and no Spark is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from figures import Figure
from made_up import CODE, DIGEST_OF_CHANGED, NOW, OTHER_CODE, Size, World, filled_ledger, made_up
from sqlalchemy import update

from backfill_assets.calendar.partitions import DayRange, count_of
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.schema import partition_versions
from backfill_assets.ledger.store import Ledger, LedgerState
from backfill_assets.planning.impact import impact
from backfill_assets.planning.manifest import configuration_of
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.planning.request import PlanRequest, TableSpec, propose
from backfill_assets.planning.safeguards import USUAL_POLICY
from backfill_assets.planning.state import ComputedFrom
from backfill_assets.staleness.decide import CurrentState, Staleness, find_stale


@dataclass(frozen=True, slots=True)
class Timed:
    """The best seconds of a question, where it was asked, and what it found."""

    what: str
    where: str
    seconds: float
    found: str


def measure(size: Size, folder: Path) -> Sequence[Figure]:
    """The figures, each with what was found."""
    return [
        Figure(name="B4", what=f"{each.what}, {each.where}: {each.found}", measured=[each.seconds], goal=1)
        for each in timings(size, folder)
    ]


def timings(size: Size, folder: Path) -> Sequence[Timed]:
    """Every question, in memory and through a ledger in the folder."""
    world = made_up(size)
    figures = [*in_memory(world)]
    with filled_ledger(world, folder / "few-runs.db") as (ledger, url):
        figures += through_ledger(world, ledger, url)
    del world
    small = made_up(replace(size, runs_per_table=size.runs_with_small_ones))
    figures += staleness_in_memory(small)
    with filled_ledger(small, folder / "many-runs.db") as (ledger, url):
        figures += staleness_through_ledger(small, ledger, url)
    return figures


# ------------------------------------------------------------------------------------------------------- measured


def in_memory(world: World) -> Iterator[Timed]:
    """Planning alone, without a database."""
    accepted = {name: frozenset(days) for name, days in world.built.items()}
    for what, changed in changes(world):
        yield timed(
            f"closure of {what}",
            "memory",
            lambda changed=changed: impact(world.graph, {world.source: changed}, accepted),
            lambda rebuilds: said_partitions(len(rebuild.partitions) for rebuild in rebuilds),
        )
    yield from staleness_in_memory(world)


def staleness_in_memory(world: World) -> Iterator[Timed]:
    """Staleness alone, without a database."""
    runs = world.size.runs_per_table
    yield timed(
        f"staleness, {runs} runs, nothing changed",
        "memory",
        lambda: stale(world, world.bases, world.digests),
        said_stale,
    )
    one_day = {**world.digests, world.source: {**world.digests[world.source], middle(world): DIGEST_OF_CHANGED}}
    yield timed(
        f"staleness, {runs} runs, one source day", "memory", lambda: stale(world, world.bases, one_day), said_stale
    )
    yield timed(
        f"staleness, {runs} runs, the code changed",
        "memory",
        lambda: stale(world, world.bases, world.digests, code=OTHER_CODE),
        said_stale,
    )


def reading(ledger: Ledger, act: Callable[[LedgerState], Any]) -> Callable[[], Any]:
    """An act inside a transaction of its own."""

    def read() -> Any:
        with ledger.read() as reader:
            return act(LedgerState(reader))

    return read


def through_ledger(world: World, ledger: Ledger, url: str) -> Iterator[Timed]:
    """The same, reading what is accepted from a ledger."""
    for what, changed in changes(world):
        yield timed(
            f"closure of {what}",
            "SQLite",
            reading(
                ledger, lambda state, changed=changed: impact(world.graph, {world.source: changed}, state.accepted)
            ),
            lambda rebuilds: said_partitions(len(rebuild.partitions) for rebuild in rebuilds),
        )
    for table in (list(world.graph.tables)[world.size.width], world.last):
        yield timed(
            f"plan of all days of {table}",
            "SQLite",
            reading(ledger, lambda state, table=table: planned(world, table, state)),
            lambda plan: count_of(len(plan.manifest.text), "byte") + " of manifest",
        )

    yield from staleness_through_ledger(world, ledger, url)


def staleness_through_ledger(world: World, ledger: Ledger, url: str) -> Iterator[Timed]:
    """Staleness, with bases read from a ledger."""

    def everything(state: LedgerState) -> Sequence[Staleness]:
        resting = state.tx.bases.of_accepted(world.graph.tables)
        return stale(world, resting.bases, resting.digests, earlier=resting.earlier)

    runs = world.size.runs_per_table
    yield timed(f"staleness, {runs} runs, nothing changed", "SQLite", reading(ledger, everything), said_stale)
    republish(world, url)
    yield timed(f"staleness, {runs} runs, one source day", "SQLite", reading(ledger, everything), said_stale)


def timed(what: str, where: str, act: Callable[[], Any], say: Callable[[Any], str]) -> Timed:
    """The best of three."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        result = act()
        taken.append(time.perf_counter() - began)
    return Timed(what, where, min(taken), say(result))


def changes(world: World) -> Sequence[tuple[str, Sequence[date]]]:
    """A day, and a year, in the middle of the source's history."""
    day = middle(world)
    year = [day + timedelta(days=number) for number in range(min(365, world.size.days // 4))]
    return [("a changed day", [day]), ("a changed year", year)]


def middle(world: World) -> date:
    """A source day whose window is within every table's history."""
    return world.built[world.last][len(world.built[world.last]) // 4]


def planned(world: World, table: str, state: LedgerState) -> Any:
    """The plan to build all days of a table again."""
    days = world.built[table]
    request = PlanRequest(table=table, days=DayRange.inclusive(days[0], days[-1]), reason="benchmark", by="ana")
    terms = TableSpec(
        domain="made_up",
        partition_column="day",
        transform="sums",
        transform_version="1",
        code_digest=CODE,
        session_digest="",
        references=(),
        gates=(),
        limits=Limits(chunk_partitions=500),
        policy=USUAL_POLICY,
    )
    plan = propose(request, terms, graph=world.graph, state=state, as_of=NOW)
    assert plan.manifest.digest and not plan.missing
    return plan


def stale(
    world: World,
    bases: Mapping[str, Sequence[ComputedFrom]],
    digests: Mapping[str, Mapping[date, str]],
    *,
    code: str = CODE,
    earlier: Callable[[str, Collection[date]], Iterable[ComputedFrom]] = lambda _table, _partitions: (),
) -> Sequence[Staleness]:
    """What is stale in all tables."""
    return [
        find_stale(
            node,
            world.graph,
            bases[node.name],
            CurrentState(
                transform="sums",
                transform_version="1",
                code_digest=code,
                session_digest="",
                configuration=configuration_of(node),
                digests=digests,
            ),
            earlier=partial(earlier, node.name),
        )
        for node in world.graph.tables.values()
    ]


def said_stale(found: Sequence[Staleness]) -> str:
    """How much was stale of how much."""
    ranges = sum(len(table.ranges) for table in found)
    return f"{said_partitions(len(table.partitions) for table in found)} in {count_of(ranges, 'range')}"


def said_partitions(counts: Iterator[int]) -> str:
    """The sum in words."""
    return count_of(sum(counts), "partition")


def republish(world: World, url: str) -> None:
    """Another file set for one day of the source."""
    held = partition_versions
    engine = connect_engine(url)
    with engine.begin() as connection:
        of_day = (held.c.table_name == world.source, held.c.partition_date == middle(world))
        connection.execute(update(held).where(*of_day).values(files_digest=DIGEST_OF_CHANGED))
    engine.dispose()
