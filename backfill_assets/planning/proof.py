"""Warm-up proof: which partitions are computed once more to prove that the window is long enough.

A row is published with the least input at the ends of what one call computes: the first partitions with no more
history than the window, the last ones with no more look-ahead. Where chunks meet, each computes the other's ends
(`chunks`). At the ends of the run, and around its gaps, there is no neighbour: these partitions are computed once more
with longer windows, as far as days of each input are accepted, and what they read is pinned with the plan.

A window that is short by n days gives wrong rows on at most the n partitions at an end. Of `ProofTerms.partitions` at
the ends of the run each is computed once more; between chunks half as many on either side are enough, because what a
chunk computes of its neighbours also gives its own partitions so many more days to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import takewhile

from backfill_assets.calendar.partitions import DayRange, days_of
from backfill_assets.planning.graph import Graph, TableInput, TableNode
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition, Proof
from backfill_assets.planning.reads import MoreDays, Reads, output_days, reads_of
from backfill_assets.planning.state import ClaimReader

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
