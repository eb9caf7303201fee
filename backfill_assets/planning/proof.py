"""What is computed twice to prove that the window is long enough? Pure: what is read for it is pinned with the plan.

A run is proven by its seams (`seams`): the last partition of every chunk is computed once more together with the chunk
after it, which costs a day per chunk and no second window; a run in one chunk has a few that are computed alone.

Where no partition has a neighbour on both sides there is no seam. Then the ends of the run are computed once more with
a window that is longer, as far as input partitions are accepted: rows that differ depend on something that the declared
window leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.planning.graph import Graph, TableInput, TableNode, Window
from backfill_assets.planning.manifest import Manifest, PinnedInput, PinnedPartition, Proof
from backfill_assets.planning.partitions import DayRange, days_of, next_partition
from backfill_assets.planning.reads import Reads, output_days, reads_of
from backfill_assets.planning.seams import InputRows, seams_of
from backfill_assets.planning.state import ClaimReader

LEAST_EXTRA_DAYS = 7
"""However short the declared window is: a week shows what depends on weekdays, and what was simply forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTerms:
    """What a table's declaration asks to be proven.

    Attributes:
        partitions: How many seams a run without seams between chunks has; in a run without seams, how many of the first
            output partitions are computed again.
        extra_days: How many more days on each side; None for as many again as declared, at least a week.
    """

    partitions: int
    extra_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenEnd:
    """Consecutive partitions at one end of a run, and how many more days they are computed with."""

    partitions: tuple[date, ...]
    extra_back: int
    extra_ahead: int


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
    """What to compute again, and the accepted input partitions to pin for it beside those the run reads anyway.

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
    """The ends of a run, and the accepted input partitions to pin for them beside those the run reads anyway."""
    first = _first_in_a_row(node, partitions, terms.partitions)
    last = () if partitions[-1] in first else (partitions[-1],)
    back, ahead = _extra_days(terms, node)
    proof = Proof(partitions=first, last=last, extra_days=back, extra_days_ahead=ahead, inputs=())
    further: list[PinnedInput] = []
    for edge, pinned in zip(node.inputs, pins, strict=True):
        own = {pin.partition for pin in pinned.partitions}
        longer = {end: graph.needed(_longer(edge, end), node, end.partitions) for end in ends_of(proof)}
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


def ends_of(proof: Proof) -> tuple[ProvenEnd, ...]:
    """The ends of the run that are computed again with a longer window: a short run has one, one with seams none.

    The first one is given more days on both sides: what was staged had the days of its neighbours to read as well, and
    with fewer days ahead than that a difference would say nothing about the warm-up. The last one is only given more
    days ahead, because twice the warm-up is most of what a proof costs.
    """
    back, ahead = proof.extra_days, proof.extra_days_ahead
    first = ProvenEnd(partitions=proof.partitions, extra_back=back, extra_ahead=ahead)
    last = ProvenEnd(partitions=proof.last, extra_back=0, extra_ahead=ahead)
    return tuple(end for end in (first, last) if end.partitions)


def longer_reads(manifest: Manifest, proof: Proof, end: ProvenEnd, node: TableNode, graph: Graph) -> tuple[Reads, ...]:
    """What the proof of a manifest reads for one end: from its pins alone, whatever is accepted by now."""
    reads: list[Reads] = []
    for edge, declared in zip(node.inputs, reads_of(node, graph, end.partitions), strict=True):
        pinned = {
            pin.partition
            for each in (*manifest.inputs, *proof.inputs)
            if each.argument == edge.argument
            for pin in each.partitions
        }
        longer = _longer(edge, end)
        read = _outward(declared.partitions, graph.needed(longer, node, end.partitions), pinned)
        asked = longer.window.around(output_days(node.grain, end.partitions))
        covered = DayRange(read[0], days_of(declared.grain, read[-1]).end)
        days = DayRange(max(covered.start, asked.start), min(covered.end, asked.end))
        reads.append(replace(declared, partitions=read, days=days))
    return tuple(reads)


def declared_window(node: TableNode) -> Window:
    """The longest window that the run's own computation had."""
    return Window(
        days_back=max(edge.window.days_back for edge in node.inputs),
        days_ahead=max(edge.window.days_ahead for edge in node.inputs),
    )


def _first_in_a_row(node: TableNode, partitions: Sequence[date], most: int) -> tuple[date, ...]:
    first = [partitions[0]]
    for partition in partitions[1:most]:
        if partition != next_partition(node.grain, first[-1]):
            break
        first.append(partition)
    return tuple(first)


def _extra_days(terms: ProofTerms, node: TableNode) -> tuple[int, int]:
    if terms.extra_days is not None:
        return terms.extra_days, terms.extra_days
    declared = declared_window(node)
    return max(LEAST_EXTRA_DAYS, declared.days_back), max(LEAST_EXTRA_DAYS, declared.days_ahead)


def _longer(edge: TableInput, end: ProvenEnd) -> TableInput:
    back, ahead = edge.window.days_back + end.extra_back, edge.window.days_ahead + end.extra_ahead
    return replace(edge, window=Window(days_back=back, days_ahead=ahead))


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
