"""How long does planning take over ten years of days, and how long finding what is stale?

    .venv/bin/python benchmarks/planning.py

Makes up 30 tables in layers, each derived one reading two tables of the layer above over a window of 90 days, all built
for ten years of days; first in memory, then in a SQLite ledger filled for it; in ten runs per table, and for staleness
in 120 small ones as well. Every figure is to stay below one second. Nothing is computed, and no Spark is started.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import insert, update

from backfill_assets.identity import DataFile, FileSet, sha256_text
from backfill_assets.ledger.claims import LedgerState
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.schema import approvals, manifests, partition_versions, publications, runs
from backfill_assets.ledger.states import ApprovalState, PublicationState, RunState, VersionState
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.graph import Graph, TableInput, TableNode, Window, topological
from backfill_assets.planning.impact import impact
from backfill_assets.planning.manifest import Kind, Limits, Manifest, Mode, PinnedInput, PinnedPartition
from backfill_assets.planning.partitions import DayRange, Grain, count_of
from backfill_assets.planning.request import PlanRequest, Terms, configuration_of, propose
from backfill_assets.planning.staleness import Basis, BasisInput, Present, Staleness, find_stale

FIRST = date(2014, 1, 1)
NOW = datetime(2027, 1, 1, tzinfo=UTC)
CODE, OTHER_CODE = "c" * 64, "d" * 64
DIGEST_OF_CHANGED = "f" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the made-up history is.

    Attributes:
        runs_per_table: In how many runs a table's days were built.
        runs_with_small_ones: The same for a history of small runs, in which most of what is read are manifests.
    """

    layers: int = 10
    width: int = 3
    days: int = 3_650
    window_days: int = 90
    runs_per_table: int = 10
    runs_with_small_ones: int = 120


@dataclass(frozen=True, kw_only=True)
class World:
    """Tables, the days they are built for, and what the built days rest on."""

    size: Size
    graph: Graph
    built: Mapping[str, Sequence[date]]
    bases: Mapping[str, Sequence[Basis]]
    digests: Mapping[str, Mapping[date, str]]

    @property
    def source(self) -> str:
        return next(iter(self.graph.tables))

    @property
    def last(self) -> str:
        return list(self.graph.tables)[-1]

    @property
    def partitions(self) -> int:
        return sum(len(days) for days in self.built.values())


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result."""

    what: str
    where: str
    seconds: float
    found: str


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("layers", 10),
        ("days", 3_650),
        ("window-days", 90),
        ("runs-per-table", 10),
        ("runs-with-small-ones", 120),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    size = Size(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="backfill-planning-") as folder:
        report(measure(size, Path(folder)), Console())


def report(figures: Sequence[Figure], console: Console) -> None:
    """Prints the figures."""
    table = Table("what", "where", "ms", "found", box=None, header_style="dim")
    for figure in figures:
        table.add_row(figure.what, figure.where, f"{figure.seconds * 1000:,.0f}", figure.found)
    console.print(table)


def measure(size: Size, folder: Path) -> Sequence[Figure]:
    """Every figure, in memory and through a ledger in the folder."""
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


def in_memory(world: World) -> Iterator[Figure]:
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


def staleness_in_memory(world: World) -> Iterator[Figure]:
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


def through_ledger(world: World, ledger: Ledger, url: str) -> Iterator[Figure]:
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


def staleness_through_ledger(world: World, ledger: Ledger, url: str) -> Iterator[Figure]:
    """Staleness, with what partitions rest on read from a ledger."""

    def everything(state: LedgerState) -> Sequence[Staleness]:
        resting = state.reader.resting(world.graph.tables)
        return stale(world, resting.bases, resting.digests, earlier=resting.earlier)

    runs = world.size.runs_per_table
    yield timed(f"staleness, {runs} runs, nothing changed", "SQLite", reading(ledger, everything), said_stale)
    republish(world, url)
    yield timed(f"staleness, {runs} runs, one source day", "SQLite", reading(ledger, everything), said_stale)


def timed(what: str, where: str, act: Callable[[], Any], say: Callable[[Any], str]) -> Figure:
    """The best of three."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        result = act()
        taken.append(time.perf_counter() - began)
    return Figure(what, where, min(taken), say(result))


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
    terms = Terms(
        domain="made_up",
        partition_column="day",
        transform="sums",
        transform_version="1",
        code_digest=CODE,
        references=(),
        gates=(),
        limits=Limits(chunk_partitions=500),
    )
    plan = propose(request, terms, graph=world.graph, state=state, as_of=NOW)
    assert plan.manifest.digest and not plan.missing
    return plan


def stale(
    world: World,
    bases: Mapping[str, Sequence[Basis]],
    digests: Mapping[str, Mapping[date, str]],
    *,
    code: str = CODE,
    earlier: Callable[[str, Collection[date]], Iterable[Basis]] = lambda _table, _partitions: (),
) -> Sequence[Staleness]:
    """What is stale in all tables."""
    return [
        find_stale(
            node,
            world.graph,
            bases[node.name],
            Present(
                transform="sums",
                transform_version="1",
                code_digest=code,
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


# -------------------------------------------------------------------------------------------------------- made up


def made_up(size: Size) -> World:
    """Tables in layers, each day of them built, years at a time."""
    nodes: list[TableNode] = []
    for layer in range(size.layers):
        for place in range(size.width):
            above = () if layer == 0 else ((layer - 1, place), (layer - 1, (place + 1) % size.width))
            window = Window(days_back=size.window_days)
            edges = [
                TableInput(argument=f"input_{at}", table=name_of(*upper), window=window)
                for at, upper in enumerate(above)
            ]
            nodes.append(TableNode(name=name_of(layer, place), grain=Grain.DAILY, inputs=tuple(edges)))
    graph = Graph(tables=topological(nodes), first_day=FIRST)
    end = FIRST + timedelta(days=size.window_days * (size.layers - 1) + size.days)
    # A layer begins a window later than the one above, so that nothing is missing; the last one has all the days.
    built = {
        node.name: tuple(DayRange(FIRST + timedelta(days=size.window_days * (place // size.width)), end))
        for place, node in enumerate(nodes)
    }
    digests = {name: {day: sha256_text(f"{name} {day}") for day in days} for name, days in built.items()}
    bases = {node.name: tuple(bases_of(size, graph, node, built[node.name], digests)) for node in nodes}
    return World(size=size, graph=graph, built=built, bases=bases, digests=digests)


def name_of(layer: int, place: int) -> str:
    """The name of a table."""
    return f"{'bronze' if layer == 0 else 'silver'}.table_{layer:02d}_{place}"


def bases_of(
    size: Size, graph: Graph, node: TableNode, days: Sequence[date], digests: Mapping[str, Mapping[date, str]]
) -> Iterator[Basis]:
    """What the days rest on: runs of equal length."""
    length = -(-len(days) // size.runs_per_table)
    for number, start in enumerate(range(0, len(days), length)):
        some = tuple(days[start : start + length])
        yield Basis(
            run_id=f"{node.name.partition('.')[2]}-{number:03d}",
            partitions=some,
            transform="sums",
            transform_version="1",
            code_digest=CODE,
            configuration=configuration_of(node),
            references=(),
            inputs=tuple(
                BasisInput(
                    argument=edge.argument,
                    table=edge.table,
                    window=edge.window,
                    digests={day: digests[edge.table][day] for day in graph.needed(edge, node, some)},
                )
                for edge in node.inputs
            ),
            imports=frozenset(),
            requested_at=NOW,
        )


@contextmanager
def filled_ledger(world: World, path: Path) -> Iterator[tuple[Ledger, str]]:
    """A ledger in which all of that was published: the rows that reading needs, of the size that they have."""
    url = f"sqlite:///{path}"
    ledger = Ledger.open(url, clock=lambda: NOW)
    engine = connect_engine(url)
    with engine.begin() as connection:
        for name, bases in world.bases.items():
            grain = world.graph.table(name).grain
            for basis in bases:
                manifest = manifest_of(name, grain, basis)
                run = {"run_id": basis.run_id}
                connection.execute(insert(manifests).values(**run, digest=manifest.digest, body=manifest.text))
                connection.execute(
                    insert(runs).values(
                        **run, table_name=name, state=RunState.PUBLISHED, note="", added_sequence=1, updated_at=NOW
                    )
                )
                connection.execute(insert(approvals).values(**run, state=ApprovalState.DRAFT, note=""))
                connection.execute(
                    insert(publications).values(
                        **run,
                        publication_id=f"pub-{basis.run_id}",
                        action=Action.PUBLISH,
                        table_name=name,
                        state=PublicationState.PUBLISHED,
                        asked_by="ben",
                        reason="benchmark",
                        begun_sequence=1,
                        started_at=NOW,
                        note="",
                    )
                )
                rows = [version_row(world, name, basis.run_id, day) for day in basis.partitions]
                connection.execute(insert(partition_versions), rows)
    engine.dispose()
    try:
        yield ledger, url
    finally:
        ledger.close()


def manifest_of(table: str, grain: Grain, basis: Basis) -> Manifest:
    """The manifest that a basis is read from."""
    return Manifest(
        run_id=basis.run_id,
        kind=Kind.BACKFILL,
        mode=Mode.BACKFILL,
        reason="benchmark",
        requested_by="ana",
        requested_at=basis.requested_at,
        domain="made_up",
        table=table,
        grain=grain,
        partition_column="day",
        partitions=basis.partitions,
        transform=basis.transform,
        transform_version=basis.transform_version,
        code_digest=basis.code_digest,
        configuration=basis.configuration,
        inputs=tuple(
            PinnedInput(
                argument=read.argument,
                table=read.table,
                partitions=tuple(
                    PinnedPartition(partition=day, version=1, digest=digest) for day, digest in read.digests.items()
                ),
            )
            for read in basis.inputs
        ),
        limits=Limits(chunk_partitions=500),
    )


def version_row(world: World, table: str, run_id: str, day: date) -> dict[str, Any]:
    """An accepted version of one file, with the statistics and the provenance that real ones have."""
    stats = '{"numRecords":1000,"minValues":{"id":"a"},"maxValues":{"id":"z"},"nullCount":{"id":0}}'
    path = f"_runs/{run_id}/0001-0a1b2c3d/day={day}/part-00000-{run_id}.c000.snappy.parquet"
    provenance = {
        **dict.fromkeys(("manifest", "code", "configuration"), CODE),
        "transform": "sums",
        "transform_version": "1",
        "references": {},
        "inputs": {edge.table: CODE for edge in world.graph.table(table).inputs},
    }
    return {
        "table_name": table,
        "partition_date": day,
        "version": 1,
        "state": VersionState.ACCEPTED,
        "run_id": run_id,
        "publication_id": f"pub-{run_id}",
        "files": FileSet.of([DataFile(path=path, size_bytes=50_000, rows=1_000, stats=stats)]),
        "row_count": 1_000,
        "checksum": CODE,
        "replaces": 0,
        "delta_version": 1,
        "accepted_at": NOW,
        "provenance": provenance,
        "files_digest": world.digests[table][day],
        "file_count": 1,
        "size_bytes": 50_000,
    }


def republish(world: World, url: str) -> None:
    """Another file set for one day of the source."""
    held = partition_versions
    engine = connect_engine(url)
    with engine.begin() as connection:
        of_day = (held.c.table_name == world.source, held.c.partition_date == middle(world))
        connection.execute(update(held).where(*of_day).values(files_digest=DIGEST_OF_CHANGED))
    engine.dispose()


if __name__ == "__main__":
    main()
