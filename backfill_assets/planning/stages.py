"""Stages: what a run does, step by step. `plan` prints the list, `run` executes it; nothing else describes a run.

The list follows from the manifests, the tables, and whose approval is required: staging executes the `Compute` stages
in this order and with these reads, gating the `Measure` and `Prove` stages with these gates and recomputations, and
publishing the `Swap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import assert_never

from backfill_assets.planning.chunks import Chunk, chunks_of
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.impact import Dependent, dependents_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Proof
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.planning.policy import A_PERSON, Demand
from backfill_assets.planning.proof import ProvenEnd, ends_of, longer_reads
from backfill_assets.planning.reads import MoreDays, Reads, more_days, more_days_described, reads_of
from backfill_assets.planning.request import node_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Spark computes one chunk into files that are staged and not visible to readers.

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
class Recomputation:
    """One call of the transform that recomputes partitions with other windows; the rows must equal the staged ones.

    Attributes:
        computed: What the call computes.
        compared: The part of it that is compared with the staged rows.
        reads: Its inputs: exactly the declared windows, except at the ends of a run.
        chunk: The chunk whose staging makes the same call and records the checksum of what is compared.
        more: At an end of the run, how many more days than its window are read of each input; empty for seams.
    """

    computed: tuple[date, ...]
    compared: tuple[date, ...]
    reads: tuple[Reads, ...]
    chunk: int | None = None
    more: tuple[MoreDays, ...] = ()

    @property
    def is_other(self) -> bool:
        """Whether its windows differ from those of staging: an end without more input to read has the same."""
        return not self.more or any(each.back or each.ahead for each in self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prove:
    """Partitions are recomputed with other windows; the rows must be the same.

    Attributes:
        between_chunks: Each computed with the chunk after it while that is staged, and again only to show rows.
        alone: Each computed alone, with exactly the declared windows.
        ends: The ends of the run, with longer windows.
    """

    run_id: str
    table: str
    grain: Grain
    between_chunks: tuple[Recomputation, ...] = ()
    alone: tuple[Recomputation, ...] = ()
    ends: tuple[Recomputation, ...] = ()

    @property
    def compared(self) -> tuple[date, ...]:
        """What is in fact computed with other windows."""
        every = (*self.between_chunks, *self.alone, *self.ends)
        return tuple(partition for again in every if again.is_other for partition in again.compared)

    @property
    def partitions(self) -> tuple[date, ...]:
        every = (*self.between_chunks, *self.alone, *self.ends)
        return tuple(partition for again in every for partition in again.compared)


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
        policy: The policy of the table, if it approves without a person; a set always needs a person.
        whom: The groups that the person must belong to, in words; empty when any group will do.
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
class Notify:
    """Dependents of what was swapped are asked to follow; those in the same set have been built already."""

    run_id: str
    table: str
    dependents: tuple[Dependent, ...]


Stage = Compute | Prove | Measure | Agree | Swap | Notify


def stages_of(
    manifests: Sequence[Manifest], graph: Graph, *, of: str | None = None, demand: Demand = A_PERSON
) -> tuple[Stage, ...]:
    """The stages of a run, or of the runs of a set.

    Args:
        manifests: One, or those of a set in the order of publication.
        graph: The tables, for what a chunk reads and what depends on it.
        of: The set's id.
        demand: Whose approval publication requires.
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
    """The chunks of a run with what each reads: what staging executes."""
    chunks, node = chunks_of(manifest), node_of(manifest)
    return tuple(
        Compute(
            run_id=manifest.run_id,
            table=manifest.table,
            grain=manifest.grain,
            chunk=chunk,
            chunks=len(chunks),
            reads=reads_of(node, graph, chunk.computed),
        )
        for chunk in chunks
    )


def measuring(manifest: Manifest, graph: Graph) -> tuple[Measure | Prove, ...]:
    """How the gates measure and prove the staged rows."""
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
    between_chunks = tuple(
        Recomputation(
            computed=stage.chunk.computed, compared=(stage.chunk.seam,), reads=stage.reads, chunk=stage.chunk.number
        )
        for stage in computing(manifest, graph)
        if stage.chunk.seam is not None
    )
    node = node_of(manifest)
    noted = {partition for again in between_chunks for partition in again.compared}
    prove = Prove(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        between_chunks=between_chunks,
        alone=tuple(
            Recomputation(computed=(seam,), compared=(seam,), reads=reads_of(node, graph, (seam,)))
            for seam in proof.seams
            if seam not in noted
        ),
        ends=tuple(_at_an_end(manifest, proof, end, node, graph) for end in ends_of(proof, node)),
    )
    return (measure, prove)


def _at_an_end(manifest: Manifest, proof: Proof, end: ProvenEnd, node: TableNode, graph: Graph) -> Recomputation:
    reads = longer_reads(manifest, proof, end, node, graph)
    return Recomputation(
        computed=end.partitions,
        compared=end.partitions,
        reads=reads,
        more=more_days(reads_of(node, graph, end.partitions), reads),
    )


def publishing(manifest: Manifest, graph: Graph, *, inside: Iterable[str] = ()) -> tuple[Swap | Notify, ...]:
    """The swap, and which dependents are asked to follow.

    Args:
        manifest: The run's.
        graph: The tables.
        inside: Tables of the same set, which have been built from the candidate already.
    """
    swap = Swap(run_id=manifest.run_id, table=manifest.table, grain=manifest.grain, partitions=manifest.partitions)
    own = {*inside, manifest.table}
    outside = tuple(d for d in dependents_of(graph, manifest.table, manifest.partitions) if d.table not in own)
    return (swap, Notify(run_id=manifest.run_id, table=manifest.table, dependents=outside)) if outside else (swap,)


def sentence(stage: Stage) -> str:
    """A stage in words."""
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
        case Notify():
            followers = "; ".join(f"{d.table} {describe(d.grain, d.partitions)}" for d in stage.dependents)
            return f"ask the dependents of what changed to follow: at most {followers}"
    assert_never(stage)


def proof_sentence(stage: Prove) -> str:
    """What is computed again, and with which days."""
    seams = [
        f"{describe(stage.grain, _compared(some))}, once more {how} and exactly the declared window"
        for some, how in ((stage.between_chunks, "with the next chunk each"), (stage.alone, "with only their own days"))
        if some
    ]
    if seams:
        return "; ".join(seams)
    longer = [
        f"{describe(stage.grain, again.compared)}, once more with {more_days_described(again.more)}"
        for again in stage.ends
        if again.is_other
    ]
    if not longer:
        return "no input partition before or after it is accepted, so there is nothing to compare with"
    return "; ".join(longer)


def _compared(calls: Iterable[Recomputation]) -> tuple[date, ...]:
    return tuple(partition for again in calls for partition in again.compared)
