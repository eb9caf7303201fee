"""What will a run do, step by step? A typed list, read from the manifest alone: `plan` prints it, `run` executes it.

There is no second description of a run that could differ from this one: staging computes the `Compute` stages in this
order, gating does the `Prove` and `Measure` stages, publication the `Swap` and `Tell` stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, assert_never

from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.manifest import NEVER_PUBLISHED, Kind, Manifest
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.planning.request import Chunk, Dependent, chunks_of, dependents_of, inputs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What a chunk reads of one input: every partition in its window."""

    table: str
    grain: Grain
    partitions: tuple[date, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Spark computes one chunk into files that nobody reads.

    Attributes:
        chunk: Its number and output partitions.
        chunks: How many there are.
        reads: Its inputs, warm-up and look-ahead included, each read once; empty for landed files.
    """

    run_id: str
    table: str
    grain: Grain
    chunk: Chunk
    chunks: int
    reads: tuple[Reads, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prove:
    """Spark computes the ends of the run again with a longer window; the rows must be the same."""

    run_id: str
    table: str
    grain: Grain
    partitions: tuple[date, ...]
    extra_days: int
    extra_days_ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The staged files are read back, measured against the gates and compared with the accepted rows."""

    run_id: str
    table: str
    grain: Grain
    partitions: tuple[date, ...]
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agree:
    """Somebody other than the requester approves the manifest, or the set that it belongs to."""

    of: str
    requested_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One commit exchanges the files of the partitions whose rows differ; equal ones are recorded as verified."""

    run_id: str
    table: str
    grain: Grain
    partitions: tuple[date, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Dependents of what was swapped are asked to follow; those of the same set have been built already."""

    table: str
    dependents: tuple[Dependent, ...]


Stage = Compute | Prove | Measure | Agree | Swap | Tell


def stages_of(manifests: Sequence[Manifest], graph: Graph, *, of: str | None = None) -> tuple[Stage, ...]:
    """The stages of a run, or of the runs of a set.

    Args:
        manifests: One, or those of a set in the order of publication.
        graph: The tables, for what a chunk reads and who depends on it.
        of: The set's id.
    """
    stages: list[Stage] = []
    for manifest in manifests:
        stages += computing(manifest, graph)
        stages += measuring(manifest)
    publishable = [manifest for manifest in manifests if manifest.mode not in NEVER_PUBLISHED]
    if publishable and any(manifest.kind is not Kind.LIVE for manifest in publishable):
        first = publishable[0]
        stages.append(Agree(of=of or first.run_id, requested_by=first.requested_by))
    inside = {manifest.table for manifest in manifests}
    for manifest in publishable:
        stages += publishing(manifest, graph, inside=inside)
    return tuple(stages)


def computing(manifest: Manifest, graph: Graph) -> tuple[Compute, ...]:
    """The chunks of a run with what each reads."""
    node = TableNode(name=manifest.table, grain=manifest.grain, inputs=inputs_of(manifest) if manifest.inputs else ())
    chunks = chunks_of(manifest)
    return tuple(
        Compute(
            run_id=manifest.run_id,
            table=manifest.table,
            grain=manifest.grain,
            chunk=chunk,
            chunks=len(chunks),
            reads=tuple(
                Reads(
                    table=edge.table,
                    grain=graph.table(edge.table).grain,
                    partitions=graph.needed(edge, node, chunk.partitions),
                )
                for edge in node.inputs
            ),
        )
        for chunk in chunks
    )


def measuring(manifest: Manifest) -> tuple[Prove | Measure, ...]:
    """What the gates do with the staged rows."""
    measure = Measure(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        partitions=manifest.partitions,
        gates=tuple(gate.name for gate in manifest.gates),
    )
    proof = manifest.proof
    if proof is None or not proof.partitions:
        return (measure,)
    prove = Prove(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        partitions=(*proof.partitions, *proof.last),
        extra_days=proof.extra_days,
        extra_days_ahead=proof.extra_days_ahead,
    )
    return (measure, prove)


def publishing(manifest: Manifest, graph: Graph, *, inside: Iterable[str] = ()) -> tuple[Swap | Tell, ...]:
    """The swap, and who is told of it.

    Args:
        manifest: The run's.
        graph: The tables.
        inside: Tables of the same set: they have been built from the candidate already.
    """
    swap = Swap(run_id=manifest.run_id, table=manifest.table, grain=manifest.grain, partitions=manifest.partitions)
    own = {*inside, manifest.table}
    outside = tuple(d for d in dependents_of(graph, manifest.table, manifest.partitions) if d.table not in own)
    return (swap, Tell(table=manifest.table, dependents=outside)) if outside else (swap,)


def sentence(stage: Stage) -> str:
    """A stage as a person reads it."""
    match stage:
        case Compute():
            read = "; ".join(f"{reads.table} {describe(reads.grain, reads.partitions)}" for reads in stage.reads)
            return (
                f"compute chunk {stage.chunk.number} of {stage.chunks} of {stage.table}, "
                f"{describe(stage.grain, stage.chunk.partitions)}, from {read or 'the landed files'}"
            )
        case Prove():
            return (
                f"prove the window of {stage.table}: {describe(stage.grain, stage.partitions)} once more with "
                f"{stage.extra_days} more days back and {stage.extra_days_ahead} ahead"
            )
        case Measure():
            return (
                f"measure {count_of(len(stage.gates), 'gate')} of {stage.table} on "
                f"{describe(stage.grain, stage.partitions)}, compared with the accepted rows"
            )
        case Agree():
            return f"wait until somebody other than {stage.requested_by} approves {stage.of}"
        case Swap():
            return f"swap {stage.table} {describe(stage.grain, stage.partitions)} in one commit; equal partitions stay"
        case Tell():
            told = "; ".join(f"{d.table} {describe(d.grain, d.partitions)}" for d in stage.dependents)
            return f"ask the dependents of what moved to follow: at most {told}"
    assert_never(stage)


def stage_document(stage: Stage) -> dict[str, Any]:
    """A stage as plain values; the fields are documented in docs/cli.md."""
    said: dict[str, Any] = {"stage": type(stage).__name__.lower(), "sentence": sentence(stage)}
    match stage:
        case Compute():
            said |= {
                "run_id": stage.run_id,
                "table": stage.table,
                "chunk": stage.chunk.number,
                "partitions": [p.isoformat() for p in stage.chunk.partitions],
                "reads": [
                    {"table": r.table, "from": r.partitions[0].isoformat(), "to": r.partitions[-1].isoformat()}
                    for r in stage.reads
                    if r.partitions
                ],
            }
        case Prove():
            said |= {
                "run_id": stage.run_id,
                "table": stage.table,
                "partitions": [p.isoformat() for p in stage.partitions],
                "extra_days": stage.extra_days,
                "extra_days_ahead": stage.extra_days_ahead,
            }
        case Measure():
            said |= {"run_id": stage.run_id, "table": stage.table, "gates": list(stage.gates)}
        case Agree():
            said |= {"of": stage.of}
        case Swap():
            said |= {
                "run_id": stage.run_id,
                "table": stage.table,
                "partitions": [p.isoformat() for p in stage.partitions],
            }
        case Tell():
            said |= {"table": stage.table, "dependents": [d.table for d in stage.dependents]}
    return said
