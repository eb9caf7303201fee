"""What will a run do, step by step? A typed list, read from the manifest alone: `plan` prints it, `run` executes it.

There is no second description of a run that could differ from this one: staging takes the `Compute` stages from here,
in this order and with these reads, and gating the `Measure` and `Prove` stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, assert_never

from backfill_assets.planning.chunks import Chunk, chunks_of
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.manifest import NEVER_PUBLISHED, Manifest
from backfill_assets.planning.partitions import DayRange, Grain, count_of, describe
from backfill_assets.planning.policy import A_PERSON, Demand
from backfill_assets.planning.proof import declared_window, ends_of, longer_reads, read_window
from backfill_assets.planning.request import Dependent, dependents_of, node_of, output_days


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What one call of a transform reads of one input.

    Attributes:
        argument: The argument of the transform.
        partitions: Every partition in the window.
        days: From the first to the last day that the transform may look at, warm-up and look-ahead included.
    """

    argument: str
    table: str
    grain: Grain
    partitions: tuple[date, ...]
    days: DayRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Spark computes one chunk into files that nobody reads.

    Attributes:
        chunk: Its number and output partitions, and the seam that is computed with them.
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
class LongerEnd:
    """One end of a run, and how many more days it is really computed with: the proof may ask for more than there are.

    Attributes:
        more_back: Days before the longest declared window.
        more_ahead: Days after it.
    """

    partitions: tuple[date, ...]
    more_back: int
    more_ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prove:
    """Partitions are computed again with another window; the rows must be the same.

    Attributes:
        between_chunks: Computed while the chunks after them were, with exactly the declared window.
        alone: Each computed alone, with exactly the declared window.
        ends: The ends of the run, with a longer window.
    """

    run_id: str
    table: str
    grain: Grain
    between_chunks: tuple[date, ...] = ()
    alone: tuple[date, ...] = ()
    ends: tuple[LongerEnd, ...] = ()

    @property
    def compared(self) -> tuple[date, ...]:
        """What really is computed with another window: an end that has no more days would be what was staged."""
        ends = (end.partitions for end in self.ends if end.more_back or end.more_ahead)
        return (*self.between_chunks, *self.alone, *(partition for some in ends for partition in some))

    @property
    def partitions(self) -> tuple[date, ...]:
        return (*self.between_chunks, *self.alone, *(partition for end in self.ends for partition in end.partitions))


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
    """Another person than the requester approves the manifest, or the set that it belongs to.

    Attributes:
        policy: The policy of the table, when that approves without a person; a set always asks one.
        whom: Of which groups the person has to be, in words; empty when that does not matter.
    """

    of: str
    requested_by: str
    policy: str | None = None
    whom: str = ""


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


def stages_of(
    manifests: Sequence[Manifest], graph: Graph, *, of: str | None = None, demand: Demand = A_PERSON
) -> tuple[Stage, ...]:
    """The stages of a run, or of the runs of a set.

    Args:
        manifests: One, or those of a set in the order of publication.
        graph: The tables, for what a chunk reads and who depends on it.
        of: The set's id.
        demand: Whose approval publication asks for.
    """
    stages: list[Stage] = []
    for manifest in manifests:
        stages += computing(manifest, graph)
        stages += measuring(manifest, graph)
    publishable = [manifest for manifest in manifests if manifest.mode not in NEVER_PUBLISHED]
    if publishable:
        first = publishable[0]
        stages.append(
            Agree(of=of or first.run_id, requested_by=first.requested_by, policy=demand.policy, whom=demand.whom)
        )
    inside = {manifest.table for manifest in manifests}
    for manifest in publishable:
        stages += publishing(manifest, graph, inside=inside)
    return tuple(stages)


def computing(manifest: Manifest, graph: Graph) -> tuple[Compute, ...]:
    """The chunks of a run with what each reads: what staging does."""
    chunks = chunks_of(manifest)
    return tuple(
        Compute(
            run_id=manifest.run_id,
            table=manifest.table,
            grain=manifest.grain,
            chunk=chunk,
            chunks=len(chunks),
            reads=reads_of(manifest, graph, chunk.computed),
        )
        for chunk in chunks
    )


def reads_of(manifest: Manifest, graph: Graph, partitions: Sequence[date]) -> tuple[Reads, ...]:
    """What computing these output partitions reads: exactly the windows that the manifest agreed."""
    node = node_of(manifest)
    return tuple(
        Reads(
            argument=edge.argument,
            table=edge.table,
            grain=graph.table(edge.table).grain,
            partitions=graph.needed(edge, node, partitions),
            days=edge.window.around(output_days(manifest, partitions)),
        )
        for edge in node.inputs
    )


def measuring(manifest: Manifest, graph: Graph) -> tuple[Measure | Prove, ...]:
    """What the gates do with the staged rows."""
    measure = Measure(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        partitions=manifest.partitions,
        gates=tuple(gate.name for gate in manifest.gates),
    )
    proof = manifest.proof
    if proof is None or not (proof.partitions or proof.seams):
        return (measure,)
    between_chunks = tuple(chunk.seam for chunk in chunks_of(manifest) if chunk.seam is not None)
    node = node_of(manifest)
    declared = declared_window(node)
    longer = {end: read_window(node, end, longer_reads(manifest, proof, end, node, graph)) for end in ends_of(proof)}
    prove = Prove(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        between_chunks=between_chunks,
        alone=tuple(seam for seam in proof.seams if seam not in set(between_chunks)),
        ends=tuple(
            LongerEnd(
                partitions=end.partitions,
                more_back=window.days_back - declared.days_back,
                more_ahead=window.days_ahead - declared.days_ahead,
            )
            for end, window in longer.items()
        ),
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
                f"{describe(stage.grain, stage.chunk.partitions)}"
                + (f" (and {describe(stage.grain, [stage.chunk.seam])}, once more)" if stage.chunk.seam else "")
                + f", from {read or 'the landed files'}"
            )
        case Prove():
            return f"prove the window of {stage.table}: {proof_sentence(stage)}"
        case Measure():
            return (
                f"measure {count_of(len(stage.gates), 'gate')} of {stage.table} on "
                f"{describe(stage.grain, stage.partitions)}, compared with the accepted rows"
            )
        case Agree():
            if stage.policy is not None:
                return f"approved by policy: {stage.policy}"
            whom = f", {stage.whom}," if stage.whom else ""
            return f"wait until another person than {stage.requested_by}{whom} approves {stage.of}"
        case Swap():
            return f"swap {stage.table} {describe(stage.grain, stage.partitions)} in one commit; equal partitions stay"
        case Tell():
            told = "; ".join(f"{d.table} {describe(d.grain, d.partitions)}" for d in stage.dependents)
            return f"ask the dependents of what moved to follow: at most {told}"
    assert_never(stage)


def proof_sentence(stage: Prove) -> str:
    """What is computed again, and with which days."""
    seams = [
        f"{describe(stage.grain, some)}, once more {how} and exactly the declared window"
        for some, how in ((stage.between_chunks, "with the next chunk each"), (stage.alone, "with only their own days"))
        if some
    ]
    if seams:
        return "; ".join(seams)
    longer = [
        f"{describe(stage.grain, end.partitions)}, once more with "
        + " and ".join(
            f"{count_of(days, 'more day')} {side}"
            for days, side in ((end.more_back, "back"), (end.more_ahead, "ahead"))
            if days
        )
        for end in stage.ends
        if end.more_back or end.more_ahead
    ]
    if not longer:
        return "no input partition before or after it is accepted, so there is nothing to compare with"
    return "; ".join(longer)


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
                "seam": stage.chunk.seam and stage.chunk.seam.isoformat(),
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
                "between_chunks": [p.isoformat() for p in stage.between_chunks],
                "alone": [p.isoformat() for p in stage.alone],
                "ends": [
                    {
                        "from": end.partitions[0].isoformat(),
                        "to": end.partitions[-1].isoformat(),
                        "more_days_back": end.more_back,
                        "more_days_ahead": end.more_ahead,
                    }
                    for end in stage.ends
                ],
            }
        case Measure():
            said |= {"run_id": stage.run_id, "table": stage.table, "gates": list(stage.gates)}
        case Agree():
            said |= {"of": stage.of, "policy": stage.policy, "whom": stage.whom or None}
        case Swap():
            said |= {
                "run_id": stage.run_id,
                "table": stage.table,
                "partitions": [p.isoformat() for p in stage.partitions],
            }
        case Tell():
            said |= {"table": stage.table, "dependents": [d.table for d in stage.dependents]}
    return said
