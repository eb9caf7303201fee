"""Warm-up proof: what is recomputed to prove that the window is long enough. Its inputs are pinned with the plan.

A run is proven by its seams (`seams`): the last partition of every chunk is computed once more together with the chunk
after it, which costs a day per chunk and no second window; a run in one chunk has a few that are computed alone.

Where no partition has a neighbour on both sides there is no seam. Then the ends of the run are computed once more with
windows that are longer, each input by its own measure and as far as its partitions are accepted: rows that differ
depend on something that the declared windows leave out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from backfill_assets.planning.graph import Graph, TableInput, TableNode
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition, Proof
from backfill_assets.planning.partitions import DayRange, days_of, next_partition, partitions_over
from backfill_assets.planning.reads import MoreDays, Reads, output_days, reads_of
from backfill_assets.planning.seams import InputRows, seams_of
from backfill_assets.planning.state import ClaimReader

LEAST_EXTRA_DAYS = 7
"""The least number of extra days, even for a short window: a week shows a dependency on weekdays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTerms:
    """What a table's declaration requires of the proof.

    Attributes:
        partitions: How many seams a run without seams between chunks has; in a run without seams, how many of the first
            output partitions are computed again.
        extra_days: How many more days on each side of each input; None for as many again as its own window has, at
            least a week.
    """

    partitions: int
    extra_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenEnd:
    """Consecutive partitions at one end of a run, and with how many more days of each input they are computed."""

    partitions: tuple[date, ...]
    more: tuple[MoreDays, ...]


def plan_proof(
    terms: ProofTerms,
    node: TableNode,
    partitions: Sequence[date],
    chunks: Sequence[int],
    rows: InputRows,
    pins: Sequence[PinnedInput],
    *,
    graph: Graph,
    state: ClaimReader,
) -> Proof:
    """What to recompute, and the accepted input partitions to pin for it in addition to those that the run reads.

    Args:
        terms: What the declaration asks for.
        node: The table.
        partitions: The run's output partitions, in order.
        chunks: How many of them each chunk has.
        rows: Where the input is dense.
        pins: What the run reads.
        graph: The tables and their windows.
        state: A reader of what is accepted.
    """
    if seams := seams_of(node, partitions, chunks, rows, graph, most_alone=terms.partitions):
        return Proof(seams=seams)
    return longer_proof(terms, node, partitions, pins, graph=graph, state=state)


def longer_proof(
    terms: ProofTerms,
    node: TableNode,
    partitions: Sequence[date],
    pins: Sequence[PinnedInput],
    *,
    graph: Graph,
    state: ClaimReader,
) -> Proof:
    """The ends of a run, and the accepted input partitions to pin for them in addition to those that the run reads."""
    first = _first_in_a_row(node, partitions, terms.partitions)
    last = () if partitions[-1] in first else (partitions[-1],)
    proof = Proof(partitions=first, last=last, more=_more_days(terms, node, first))
    ends = ends_of(proof, node)
    further: list[PinnedInput] = []
    for place, (edge, pinned) in enumerate(zip(node.inputs, pins, strict=True)):
        own = {pin.partition for pin in pinned.partitions}
        grain = graph.table(edge.table).grain
        longer = {end: partitions_over(grain, _longer(edge, node, end, end.more[place])) for end in ends}
        claims = state.claims(edge.table, sorted({p for each in longer.values() for p in each} - own))
        read = {
            partition
            for end, asked in longer.items()
            for partition in _outward(graph.needed(edge, node, end.partitions), asked, own | claims.keys())
        }
        # A day of the declared window that is not accepted is for `require_inputs` to refuse, by name.
        more = (
            PinnedPartition(partition=p, version=claims[p].version, digest=claims[p].digest)
            for p in sorted((read - own) & claims.keys())
        )
        further.append(PinnedInput(argument=edge.argument, table=edge.table, partitions=tuple(more)))
    return replace(proof, inputs=tuple(further))


def ends_of(proof: Proof, node: TableNode) -> tuple[ProvenEnd, ...]:
    """The ends of the run that are recomputed with longer windows: a short run has one, a run with seams has none.

    The first one is given more days on both sides: what was staged had the days of its neighbours to read as well, and
    with fewer days ahead than that a difference would not be evidence about the warm-up. The last one is only given
    more days ahead, because doubling the warm-up is most of the cost of a proof.
    """
    # Before format 4 all inputs were given as many more days.
    more = proof.more or tuple(
        MoreDays(argument=edge.argument, back=proof.extra_days, ahead=proof.extra_days_ahead) for edge in node.inputs
    )
    first = ProvenEnd(partitions=proof.partitions, more=more)
    last = ProvenEnd(partitions=proof.last, more=tuple(replace(each, back=0) for each in more))
    return tuple(end for end in (first, last) if end.partitions)


def longer_reads(manifest: Manifest, proof: Proof, end: ProvenEnd, node: TableNode, graph: Graph) -> tuple[Reads, ...]:
    """What the proof of a manifest reads for one end: only its pins, even if other versions are accepted by now."""
    reads: list[Reads] = []
    for edge, more, declared in zip(node.inputs, end.more, reads_of(node, graph, end.partitions), strict=True):
        pinned = {
            pin.partition
            for each in (*manifest.inputs, *proof.inputs)
            if each.argument == edge.argument
            for pin in each.partitions
        }
        asked = _longer(edge, node, end, more)
        read = _outward(declared.partitions, partitions_over(declared.grain, asked), pinned)
        covered = DayRange(read[0], days_of(declared.grain, read[-1]).end)
        days = DayRange(max(covered.start, asked.start), min(covered.end, asked.end))
        reads.append(replace(declared, partitions=read, days=days))
    return tuple(reads)


def _first_in_a_row(node: TableNode, partitions: Sequence[date], most: int) -> tuple[date, ...]:
    first = [partitions[0]]
    for partition in partitions[1:most]:
        if partition != next_partition(node.grain, first[-1]):
            break
        first.append(partition)
    return tuple(first)


def _more_days(terms: ProofTerms, node: TableNode, first: Sequence[date]) -> tuple[MoreDays, ...]:
    """How many more days of each input than its own window: a window of no days is proven with a week."""
    output = output_days(node.grain, first)
    more: list[MoreDays] = []
    for edge in node.inputs:
        window = edge.window.around(output)
        back, ahead = (output.start - window.start).days, (window.end - output.end).days
        more.append(
            MoreDays(
                argument=edge.argument,
                back=terms.extra_days or max(LEAST_EXTRA_DAYS, back),
                ahead=terms.extra_days or max(LEAST_EXTRA_DAYS, ahead),
            )
        )
    return tuple(more)


def _longer(edge: TableInput, node: TableNode, end: ProvenEnd, more: MoreDays) -> DayRange:
    """The days of a longer window of one input around one end."""
    declared = edge.window.around(output_days(node.grain, end.partitions))
    return DayRange(declared.start - timedelta(days=more.back), declared.end + timedelta(days=more.ahead))


def _outward(declared: Sequence[date], longer: Sequence[date], available: Collection[date]) -> tuple[date, ...]:
    """The declared partitions and those next to them, outward on both sides up to the first that is not available."""
    earlier: list[date] = []
    for partition in sorted((p for p in longer if p < declared[0]), reverse=True):
        if partition not in available:
            break
        earlier.append(partition)
    later: list[date] = []
    for partition in sorted(p for p in longer if p > declared[-1]):
        if partition not in available:
            break
        later.append(partition)
    return (*reversed(earlier), *declared, *later)
