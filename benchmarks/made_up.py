"""A generated history of ten years for readers of the ledger, without computation.

Tables in layers, each derived one reading two tables of the layer above, with the bases of their days; and a SQLite
ledger filled with the rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.calendar.windows import Window
from backfill_assets.core.identity import DataFile, FileSet, sha256_text
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.schema import approvals, manifests, partition_versions, publications, runs
from backfill_assets.ledger.states import ApprovalState, PublicationState, RunState, VersionState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.versions import month_of
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.manifest import Manifest, configuration_of
from backfill_assets.planning.manifest_parts import Limits, Mode, PinnedInput, PinnedPartition, RunPurpose
from backfill_assets.planning.safeguards import USUAL_POLICY
from backfill_assets.planning.state import ComputedFrom, ComputedFromInput

FIRST = date(2014, 1, 1)
NOW = datetime(2027, 1, 1, tzinfo=UTC)
CODE, OTHER_CODE = "c" * 64, "d" * 64
DIGEST_OF_CHANGED = "f" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the made-up history is."""

    layers: int = 10
    width: int = 3
    days: int = 3_650
    window_days: int = 90
    runs_per_table: int = 10  #: In how many runs a table's days were built.
    #: The same for a history of small runs, in which most of what is read are manifests.
    runs_with_small_ones: int = 120


@dataclass(frozen=True, kw_only=True)
class World:
    """Tables, the days they are built for, and the bases of the built days."""

    size: Size
    graph: Graph
    built: Mapping[str, Sequence[date]]
    bases: Mapping[str, Sequence[ComputedFrom]]
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
) -> Iterator[ComputedFrom]:
    """The bases of the days: runs of equal length."""
    length = -(-len(days) // size.runs_per_table)
    for number, start in enumerate(range(0, len(days), length)):
        some = tuple(days[start : start + length])
        yield ComputedFrom(
            run_id=f"{node.name.partition('.')[2]}-{number:03d}",
            partitions=some,
            transform="sums",
            transform_version="1",
            code_digest=CODE,
            configuration=configuration_of(node),
            references=(),
            inputs=tuple(
                ComputedFromInput(
                    edge=edge,
                    digests={day: digests[edge.table][day] for day in graph.needed(edge, node, some)},
                )
                for edge in node.inputs
            ),
            imports=frozenset(),
            requested_at=NOW,
            session_digest="",
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
                        **run,
                        request_id=basis.run_id,
                        table_name=name,
                        state=RunState.PUBLISHED,
                        note="",
                        added_sequence=1,
                        updated_at=NOW,
                        kind=manifest.kind,
                        mode=manifest.mode,
                        because=manifest.cause.kind,
                        first_partition=min(basis.partitions),
                        last_partition=max(basis.partitions),
                        priority=manifest.limits.priority,
                        terms=manifest.terms.document,
                    )
                )
                draft = {"request_id": basis.run_id, "state": ApprovalState.DRAFT, "note": ""}
                connection.execute(insert(approvals).values(draft))
                connection.execute(
                    insert(publications).values(
                        **run,
                        publication_id=f"pub-{basis.run_id}",
                        action=Action.PUBLISH,
                        table_name=name,
                        state=PublicationState.PUBLISHED,
                        asked_by="ben",
                        reason="benchmark",
                        lineage_digest="",
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


def manifest_of(table: str, grain: Grain, basis: ComputedFrom) -> Manifest:
    """The manifest that a basis is read from."""
    return Manifest(
        run_id=basis.run_id,
        request_id=basis.run_id,
        kind=RunPurpose.BACKFILL,
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
                argument=read.edge.argument,
                table=read.edge.table,
                partitions=tuple(
                    PinnedPartition(partition=day, version=1, digest=digest) for day, digest in read.digests.items()
                ),
            )
            for read in basis.inputs
        ),
        limits=Limits(chunk_partitions=500),
        session_digest=basis.session_digest,
        policy=USUAL_POLICY,
    )


def version_row(world: World, table: str, run_id: str, day: date) -> dict[str, Any]:
    """An accepted version of one file, with the statistics and the provenance that real ones have."""
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
        "month": month_of(day),
        "state": VersionState.ACCEPTED,
        "run_id": run_id,
        "publication_id": f"pub-{run_id}",
        "files": FileSet.of([DataFile(path=path, size_bytes=50_000, rows=1_000)]),
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
