"""Stages: what a run does, step by step. `plan` prints the list, `run` executes it; nothing else describes a run.

The list follows from the manifests, the tables, and whose approval is required: staging executes the `Compute` stages
in this order and with these reads, gating the `Measure` and `Prove` stages with these gates and recomputations, and
publishing the `Swap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from backfill_assets.calendar.partitions import Grain, TablePartitions
from backfill_assets.planning.chunks import Chunk, chunks_of
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.impact import dependents_of
from backfill_assets.planning.manifest import Manifest, node_of
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Kind, Proof
from backfill_assets.planning.own_past import starts_from
from backfill_assets.planning.policy import A_PERSON, Demand
from backfill_assets.planning.proof import longer_reads, pinned_by, windows_touch
from backfill_assets.planning.reads import MoreDays, Reads, more_days, reads_after, reads_of, reads_together
from backfill_assets.planning.sets import Phases


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStage:
    """The properties of every stage of a run over partitions."""

    stage: str  #: Which stage it is.
    run_id: str  #: The run.
    table: str  #: Its table.
    grain: Grain  #: Whether a partition is a day or a month.


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(RunStage):
    """Spark computes one chunk into files that are staged and not visible to readers."""

    stage: Literal["compute"] = "compute"
    chunk: Chunk  #: Its number and output partitions, and those of its neighbours that are computed with them.
    chunks: int  #: How many there are.
    reads: tuple[Reads, ...]  #: Its inputs, warm-up and look-ahead included, each read once; empty for landed files.


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(RunStage):
    """Snapshots get candidates without files; nothing is computed."""

    stage: Literal["expire"] = "expire"
    partitions: tuple[date, ...]  #: The snapshots that expire.


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """One call of the transform that recomputes partitions with other windows; the rows must equal the staged ones."""

    grain: Grain  #: Whether a partition is a day or a month.
    computed: tuple[date, ...]  #: What the call computes.
    compared: tuple[date, ...]  #: The part of it that is compared with the staged rows.
    reads: tuple[Reads, ...]  #: Its inputs: exactly the declared windows, except at the ends of a run.
    #: The chunk whose staging makes the same call and records the checksum of what is compared.
    chunk: int | None = None
    #: At the ends of the run, how many more days than its window are read of each input; empty otherwise. A call that
    #: reads other numbers of days for some of its partitions is listed once for each.
    more: tuple[MoreDays, ...] = ()

    @property
    def is_other(self) -> bool:
        """True if its windows differ from those of staging: an end without more input to read has the same."""
        return not self.more or any(each.back or each.ahead for each in self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prove(RunStage):
    """Partitions are recomputed with other windows; the rows must be the same."""

    stage: Literal["prove"] = "prove"
    #: What each chunk computes of its neighbours while it is staged, and again only to show rows.
    between_chunks: tuple[Recomputation, ...] = ()
    ends: tuple[Recomputation, ...] = ()  #: The ends of the run, with longer windows.

    @property
    def compared(self) -> tuple[date, ...]:
        """The recomputations that in fact use other windows, in order."""
        return compared_by(again for again in (*self.between_chunks, *self.ends) if again.is_other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(RunStage):
    """The staged files are read back, measured against the gates and compared with the accepted rows."""

    stage: Literal["measure"] = "measure"
    partitions: tuple[date, ...]  #: What is measured.
    gates: tuple[str, ...]  #: The names of the gates.
    others: tuple[str, ...] = ()  #: The tables whose accepted rows gates read as well, without its own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Agree:
    """Another person than the requester approves the manifest, or the set that it belongs to."""

    stage: Literal["agree"] = "agree"  #: Which stage it is.
    of: str  #: The run or the set.
    requested_by: str  #: Who planned it.
    demand: Demand = A_PERSON  #: Whose approval it requires; a set always needs a person.
    #: Whether the run is a repair: no approval is needed where its rows come out as they were recorded.
    repairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap(RunStage):
    """One commit exchanges the files of the partitions whose rows differ; equal ones are recorded as verified."""

    stage: Literal["swap"] = "swap"
    partitions: tuple[date, ...]  #: What may be exchanged.


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Dependents of what was swapped are asked to follow; those in the same set have been built already."""

    stage: Literal["notify"] = "notify"  #: Which stage it is.
    run_id: str  #: The run.
    table: str  #: The table that was swapped.
    dependents: tuple[TablePartitions, ...]  #: The tables that follow.


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A phase of a set waits after the one before it has landed."""

    stage: Literal["hold"] = "hold"  #: Which stage it is.
    run_id: str  #: The run of the phase that waits.
    table: str  #: Its table.
    seconds: int  #: How long.


Stage = Compute | Expire | Prove | Measure | Agree | Swap | Notify | Hold


def stages_of(
    manifests: Sequence[Manifest],
    graph: Graph,
    *,
    demand: Demand = A_PERSON,
    phases: Phases | None = None,
) -> tuple[Stage, ...]:
    """The stages of the runs of a restatement.

    Args:
        demand: Whose approval publication requires.
        phases: How the runs are published, if they are phases.
    """
    stages: list[Stage] = []
    for manifest in manifests:
        stages += computing(manifest, graph) if manifest.computed else (_expiring(manifest),)
        stages += measuring(manifest, graph)
    publishable = [manifest for manifest in manifests if manifest.mode not in NEVER_PUBLISHED]
    each = phases is not None and phases.each
    if publishable and not each:
        first = publishable[0]
        repairs = first.is_alone and first.kind is Kind.REPAIR
        stages.append(Agree(of=first.request_id, requested_by=first.requested_by, demand=demand, repairs=repairs))
    inside = {manifest.table for manifest in manifests}
    for number, manifest in enumerate(publishable):
        run_id, table = manifest.run_id, manifest.table
        if each:
            stages.append(Agree(of=run_id, requested_by=manifest.requested_by, demand=demand))
        if phases is not None and phases.hold_s and number:
            stages.append(Hold(run_id=run_id, table=table, seconds=phases.hold_s))
        stages += publishing(manifest, graph, inside=inside)
    return tuple(stages)


def _expiring(manifest: Manifest) -> Expire:
    return Expire(run_id=manifest.run_id, table=manifest.table, grain=manifest.grain, partitions=manifest.partitions)


def computing(manifest: Manifest, graph: Graph) -> tuple[Compute, ...]:
    """The chunks of a run with what each reads: what staging executes."""
    chunks = chunks_of(manifest)
    return tuple(
        Compute(
            run_id=manifest.run_id,
            table=manifest.table,
            grain=manifest.grain,
            chunk=chunk,
            chunks=len(chunks),
            reads=continuing(manifest, graph, chunk.computed, _state_before(manifest, chunk)),
        )
        for chunk in chunks
    )


def continuing(manifest: Manifest, graph: Graph, computed: Sequence[date], state: date | None) -> tuple[Reads, ...]:
    """The reads of a call from the inputs; for a table that keeps state, those after the snapshot that it continues.

    Args:
        state: The snapshot that it continues; None for a cold start, or a table without state.
    """
    node = node_of(manifest)
    return reads_after(reads_of(node, graph, computed), node.first_read(state, graph.begins(node)))


def _state_before(manifest: Manifest, chunk: Chunk) -> date | None:
    """The snapshot before a chunk: the one of the chunk before it, or the one that the run begins with."""
    before = [partition for partition in manifest.partitions if partition < chunk.partitions[0]]
    return before[-1] if before else starts_from(manifest)


def measuring(manifest: Manifest, graph: Graph) -> tuple[Measure | Prove, ...]:
    """The stage in which the gates measure and prove the staged rows."""
    measure = Measure(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        partitions=manifest.partitions,
        gates=tuple(gate.name for gate in manifest.gates),
        others=tuple(sorted({each.table for gate in manifest.gates for each in gate.reads} - {manifest.table})),
    )
    proof = manifest.proof
    if proof is None:
        return (measure,)
    node = node_of(manifest)
    between_chunks = tuple(
        Recomputation(
            grain=manifest.grain,
            computed=stage.chunk.computed,
            compared=stage.chunk.once_more,
            reads=stage.reads,
            chunk=stage.chunk.number,
        )
        for stage in computing(manifest, graph)
        if stage.chunk.once_more
    )
    prove = Prove(
        run_id=manifest.run_id,
        table=manifest.table,
        grain=manifest.grain,
        between_chunks=between_chunks,
        ends=tuple(_at_the_ends(manifest, proof, node, graph)),
    )
    return (measure, prove)


def _at_the_ends(manifest: Manifest, proof: Proof, node: TableNode, graph: Graph) -> Iterator[Recomputation]:
    calls = [call for chunk in chunks_of(manifest) for call in _calls(node, chunk, frozenset(proof.partitions))]
    pinned = pinned_by(manifest, proof)
    for call in filter(None, calls):
        reads = {row: longer_reads(proof, row, node, graph, pinned) for row in node.in_a_row(call)}
        equal: dict[tuple[MoreDays, ...], list[date]] = {}
        for row, longer in reads.items():
            equal.setdefault(more_days(reads_of(node, graph, row), longer), []).extend(row)
        for more, partitions in equal.items():
            yield Recomputation(
                grain=node.grain,
                computed=call,
                compared=tuple(partitions),
                reads=reads_together(tuple(reads.values())),
                more=more,
            )


def _calls(node: TableNode, chunk: Chunk, ends: frozenset[date]) -> tuple[tuple[date, ...], ...]:
    """The ends in a chunk in one call, so that a run is proven within the limits that it is computed in.

    They are two calls where one would leave out input between them that the chunk has read: a transform may count on
    finding every day since the first that it sees.
    """
    call = tuple(partition for partition in chunk.partitions if partition in ends)
    rows = node.in_a_row(call)
    has_gaps = len(node.in_a_row(chunk.partitions)) > 1
    return (call,) if has_gaps or len(rows) < 2 or windows_touch(node, *rows) else rows


def publishing(manifest: Manifest, graph: Graph, *, inside: Iterable[str] = ()) -> tuple[Swap | Notify, ...]:
    """The swap, and which dependents are asked to follow: those of rows that were computed."""
    swap = Swap(run_id=manifest.run_id, table=manifest.table, grain=manifest.grain, partitions=manifest.partitions)
    own = {*inside, manifest.table}
    outside = tuple(d for d in dependents_of(graph, manifest.table, manifest.computed) if d.table not in own)
    return (swap, Notify(run_id=manifest.run_id, table=manifest.table, dependents=outside)) if outside else (swap,)


def compared_by(calls: Iterable[Recomputation]) -> tuple[date, ...]:
    """The comparisons of calls with the staged rows, in order."""
    return tuple(sorted({partition for again in calls for partition in again.compared}))
