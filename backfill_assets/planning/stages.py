"""Stages: what a run does, step by step. `plan` prints the list, `run` executes it; nothing else describes a run.

The list follows from the manifests, the tables, and whose approval is required: staging executes the `Compute` stages
in this order and with these reads, gating the `Measure` and `Prove` stages with these gates and recomputations, and
publishing the `Swap`. In the order of a run, this module says

- what one call of a transform reads: the windows of its output partitions, input by input;
- in which chunks a run is computed. Where chunks meet, each also computes a few partitions of its neighbours: more of
  what comes before than the chunk after it has, and more of what comes after than the chunk before it has. Their rows
  must be those that their owner stages;
- with which earlier snapshot of its own table a run begins. A partition of a table that keeps state is a snapshot. It
  rests on every input day before its end, and can be computed from an earlier one and the days since;
- which partitions are computed once more to prove that the window is long enough. A row is published with the least
  input at the ends of what one call computes. At the ends of the run, and around its gaps, there is no neighbour: these
  partitions are computed once more with longer windows, as far as days of each input are accepted, and what they read
  is pinned with the plan;
- the stages themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise, takewhile
from typing import Literal

from backfill_assets.calendar.partitions import DayRange, Grain, TablePartitions, days_of
from backfill_assets.planning.graph import Graph, TableInput, TableNode
from backfill_assets.planning.impact import dependents_of
from backfill_assets.planning.manifest import Chunk, Manifest, chunks_of, node_of
from backfill_assets.planning.manifest_parts import (
    NEVER_PUBLISHED,
    MoreDays,
    PinnedInput,
    PinnedPartition,
    PinnedReference,
    Proof,
    RunPurpose,
)
from backfill_assets.planning.safeguards import A_PERSON, Demand
from backfill_assets.planning.sets import Phases
from backfill_assets.planning.state import ClaimReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads(TablePartitions):
    """The reads of one call of a transform from one input."""

    partitions: tuple[date, ...]  #: Every partition in the window.
    argument: str  #: The argument of the transform.
    days: DayRange  #: From the first to the last day that the transform may look at, warm-up and look-ahead included.


def reads_of(node: TableNode, graph: Graph, partitions: Sequence[date]) -> tuple[Reads, ...]:
    """The reads of a call that computes these output partitions of a table: exactly the windows of its inputs."""
    output = output_days(node.grain, partitions)
    return tuple(
        Reads(
            argument=edge.argument,
            table=edge.table,
            grain=graph.table(edge.table).grain,
            partitions=graph.needed(edge, node, partitions),
            days=edge.window.around(output),
        )
        for edge in node.inputs
    )


def reads_after(reads: Sequence[Reads], start: date) -> tuple[Reads, ...]:
    """The reads of a call without what lies before a day."""
    return tuple(
        replace(
            read,
            partitions=tuple(partition for partition in read.partitions if partition >= start),
            days=DayRange(max(read.days.start, min(start, read.days.end)), read.days.end),
        )
        for read in reads
    )


def reads_together(calls: Sequence[tuple[Reads, ...]]) -> tuple[Reads, ...]:
    """The reads of one call that replaces several: of each input all of their partitions."""
    return tuple(
        replace(
            of_input[0],
            partitions=tuple(sorted({partition for each in of_input for partition in each.partitions})),
            days=DayRange(min(each.days.start for each in of_input), max(each.days.end for each in of_input)),
        )
        for of_input in zip(*calls, strict=True)
    )


def output_days(grain: Grain, partitions: Sequence[date]) -> DayRange:
    """The days from the first to the last of these partitions; there may be gaps between them."""
    return DayRange(min(partitions), days_of(grain, max(partitions)).end)


def more_days(declared: Sequence[Reads], longer: Sequence[Reads]) -> tuple[MoreDays, ...]:
    """The number of days that are read beyond the declared windows. More days of the same partitions do not count."""
    return tuple(
        MoreDays(
            argument=each.argument,
            back=(exact.days.start - each.days.start).days if each.partitions[:1] < exact.partitions[:1] else 0,
            ahead=(each.days.end - exact.days.end).days if each.partitions[-1:] > exact.partitions[-1:] else 0,
        )
        for exact, each in zip(declared, longer, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHistory:
    """The accepted snapshots of a table, as far as they are known."""

    stale: Mapping[date, str]  #: The reasons why snapshots are not up to date, by partition.
    #: Accepted snapshots that are stale only because earlier ones may be, with the accepted one before each: from an
    #: equal one they are the same.
    settled: Mapping[date, date] = field(default_factory=dict)
    #: The reasons why snapshots that have expired are not there, by partition.
    expired: Mapping[date, str] = field(default_factory=dict)
    code_digest: str = ""  #: With which code and references this is so. For a run with others, none is valid.
    #: With which code and references this is so. For a run with others, none is valid.
    references: tuple[PinnedReference, ...] = ()

    def for_run(
        self, code_digest: str, references: tuple[PinnedReference, ...], accepted: Iterable[date]
    ) -> SnapshotHistory:
        """The part that a run with this code and these references can use."""
        if (code_digest, references) == (self.code_digest, self.references):
            return self
        stale = dict.fromkeys(accepted, "computed with another release or other references")
        return SnapshotHistory(stale=stale, expired=self.expired)


NO_PAST = SnapshotHistory(stale={})


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """Where a run over snapshots begins."""

    #: The accepted snapshots that it pins: the one that it begins with, and before it, where there is one, the one from
    #: which that is proven. Empty for a cold start from the first day.
    snapshots: tuple[date, ...] = ()
    #: Snapshots between the one it begins with and its first partition, accepted before or now, with the reasons.
    skipped: tuple[tuple[date, str], ...] = ()


def begins_with(first: date, accepted: Sequence[date], past: SnapshotHistory) -> StartingPoint:
    """The newest valid snapshot before a partition. A snapshot after a stale one is not trusted either.

    Args:
        past: What is known of them.
    """
    before = sorted(partition for partition in accepted if partition < first)
    broken = min((partition for partition in before if partition in past.stale), default=first)
    valid = [partition for partition in before if partition < broken]
    reason = past.stale.get(broken, "")
    skipped = {p: past.stale.get(p, f"{broken} before it is stale: {reason}") for p in before if p >= broken}
    since = valid[-1] if valid else date.min
    skipped |= {p: why for p, why in past.expired.items() if since < p < first}
    return StartingPoint(snapshots=tuple(valid[-2:]), skipped=tuple(sorted(skipped.items())))


def starts_from(manifest: Manifest) -> date | None:
    """The accepted snapshot that a run begins with; None for a cold start."""
    return manifest.base.partitions[-1].partition if manifest.base and manifest.base.partitions else None


def end_of(grain: Grain, snapshot: date) -> date:
    """The first day that a snapshot does not cover."""
    return days_of(grain, snapshot).end


def settled_in(
    partitions: Sequence[date], past: SnapshotHistory, grain: Grain, inputs: Iterable[PinnedInput]
) -> Sequence[tuple[date, date]]:
    """The settled snapshots of a run, each with the one before it.

    A snapshot is none where the run leaves the one before it out: it is then computed from an earlier one, and what has
    happened since that may have changed. Nor where a run of the same set computes input days since the one before it.
    """
    staged = {pin.partition for pinned in inputs for pin in pinned.partitions if pin.from_run is not None}
    return [
        (before, each)
        for before, each in pairwise(partitions)
        if past.settled.get(each) == before
        and not any(end_of(grain, before) <= day < end_of(grain, each) for day in staged)
    ]


EXTRA_DAYS = 7
"""More days of each input on either side at the ends of a run: a week shows a dependency on weekdays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTerms:
    """The requirements of a table's declaration on the proof."""

    partitions: int  #: How many partitions at each end of the run are computed once more.
    extra_days: int | None = None  #: How many more days on each side of each input.


def plan_proof(
    terms: ProofTerms,
    node: TableNode,
    partitions: Sequence[date],
    pins: Sequence[PinnedInput],
    *,
    graph: Graph,
    state: ClaimReader,
) -> Proof:
    """Plans the recomputations, and the accepted input partitions to pin for them besides those that the run reads."""
    extra = terms.extra_days or EXTRA_DAYS
    more = tuple(MoreDays(argument=edge.argument, back=extra, ahead=extra) for edge in node.inputs)
    ends = tuple(
        partition
        for together in node.in_a_row(partitions)
        for place, partition in enumerate(together)
        if place < terms.partitions or place >= len(together) - terms.partitions
    )
    further: list[PinnedInput] = []
    for edge, each, pinned in zip(node.inputs, more, pins, strict=True):
        around = [_around(edge, node, graph, together, each) for together in node.in_a_row(ends)]
        own = {pin.partition for pin in pinned.partitions}
        claims = state.claims(edge.table, sorted({p for found in around for p in found.every} - own))
        read = {p for found in around for p in found.read(own | claims.keys())}
        # A day of the declared window that is not accepted is for `require_inputs` to refuse, by name.
        pinned_too = (
            PinnedPartition(partition=p, version=claims[p].version, digest=claims[p].digest)
            for p in sorted(read & claims.keys())
        )
        further.append(PinnedInput(argument=edge.argument, table=edge.table, partitions=tuple(pinned_too)))
    return Proof(beside=-(-terms.partitions // 2), partitions=ends, more=more, inputs=tuple(further))


def windows_touch(node: TableNode, earlier: Sequence[date], later: Sequence[date]) -> bool:
    """True if no day of any input lies between the windows of partitions and those of later ones."""
    before, after = output_days(node.grain, earlier), output_days(node.grain, later)
    return all(edge.window.around(before).end >= edge.window.around(after).start for edge in node.inputs)


Pinned = Mapping[str, Collection[date]]
"""The partitions of each input that a run and its proof have pinned, by argument."""


def pinned_by(manifest: Manifest, proof: Proof) -> Pinned:
    """The reads that the proof of a manifest can use: only its pins, even if other versions are accepted by now."""
    found: dict[str, set[date]] = {}
    for pinned in (*manifest.inputs, *proof.inputs):
        found.setdefault(pinned.argument, set()).update(pin.partition for pin in pinned.partitions)
    return found


def longer_reads(
    proof: Proof, together: Sequence[date], node: TableNode, graph: Graph, pinned: Pinned
) -> tuple[Reads, ...]:
    """The reads of consecutive partitions in the proof of a manifest: their windows, and more days of each input."""
    reads: list[Reads] = []
    for edge, each, declared in zip(node.inputs, proof.more, reads_of(node, graph, together), strict=True):
        around = _around(edge, node, graph, together, each)
        read = sorted(around.read(pinned[edge.argument]))
        if not read:
            reads.append(declared)
            continue
        start = min(declared.days.start, max(read[0], around.days.start))
        end = max(declared.days.end, min(days_of(declared.grain, read[-1]).end, around.days.end))
        reads.append(replace(declared, partitions=tuple(read), days=DayRange(start, end)))
    return tuple(reads)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """The reads of consecutive partitions from one input."""

    days: DayRange  #: Those of the longer window.
    declared: tuple[date, ...]  #: The partitions of the declared window.
    earlier: tuple[date, ...]  #: Those of the longer window before it, the nearest first.
    later: tuple[date, ...]  #: Those after it.

    @property
    def every(self) -> tuple[date, ...]:
        return self.earlier + self.declared + self.later

    def read(self, available: Collection[date]) -> Iterator[date]:
        """The declared partitions and those next to them, outward up to the first that is not available."""
        yield from self.declared
        yield from takewhile(available.__contains__, self.earlier)
        yield from takewhile(available.__contains__, self.later)


def _around(edge: TableInput, node: TableNode, graph: Graph, together: Sequence[date], more: MoreDays) -> _Around:
    declared, window = graph.needed(edge, node, together), edge.window.around(output_days(node.grain, together))
    days = DayRange(window.start - timedelta(days=more.back), window.end + timedelta(days=more.ahead))
    longer = graph.table(edge.table).partitions_over(days)
    return _Around(
        days=days,
        declared=declared,
        earlier=tuple(p for p in reversed(longer) if p < (declared[0] if declared else window.start)),
        later=tuple(p for p in longer if p > (declared[-1] if declared else window.last)),
    )


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
    #: True if the run is a repair: no approval is needed where its rows come out as they were recorded.
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
        repairs = first.is_alone and first.kind is RunPurpose.REPAIR
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
