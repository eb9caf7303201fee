"""Seams: partitions of a run that are recomputed with exactly the declared window.

A partition that is staged between two others had more input to read than the declared window, on both sides. Computed
with exactly the declared window it must have the same rows, or the window is too short and the table depends on how it
is cut into chunks. Such a partition is a seam. The proof of a run without seams belongs to `proof`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from heapq import nsmallest
from itertools import accumulate

from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.partitions import (
    ONE_DAY,
    compress,
    days_of,
    next_partition,
    partition_of,
    partitions_over,
)

InputRows = Mapping[str, Mapping[date, int]]
"""How many rows a run reads of each input partition, by argument of the transform."""


def seams_of(
    node: TableNode,
    partitions: Sequence[date],
    chunks: Sequence[int],
    rows: InputRows,
    graph: Graph,
    *,
    most_alone: int,
) -> tuple[date, ...]:
    """The seams of a run: where one chunk follows another or, if that proves nothing, where the input is densest.

    A chunk computes the last partition of the chunk before it once more, so its own partitions always have a neighbour
    before them. The first seam of a run may lack one: chunks can have one partition, and runs can have gaps.

    Args:
        node: The table.
        partitions: The output partitions, in order.
        chunks: How many of them each chunk has.
        rows: Where the input is dense.
        graph: The tables and their windows.
        most_alone: How many are computed alone, at most, where no seam between chunks has a neighbour on both sides.

    Returns:
        In order; none where no partition has a neighbour on both sides.
    """
    between = {
        partition for days in compress(node.grain, partitions) for partition in partitions_over(node.grain, days)[1:-1]
    }
    if not between:
        return ()
    ends = [partitions[end - 1] for end in accumulate(chunks)][:-1]
    present = frozenset(partitions)
    seams = [end for end in ends if next_partition(node.grain, end) in present]
    if between.isdisjoint(seams):
        seams += nsmallest(most_alone, between, key=lambda p: (-_density(node, p, rows, graph), p))
    return tuple(sorted(seams))


def _density(node: TableNode, partition: date, rows: InputRows, graph: Graph) -> int:
    """How much input a window that is too short would miss here: rows of the partition's own days, and of the input
    right before and right after its window."""
    days = days_of(node.grain, partition)
    own = before = after = 1
    for edge in node.inputs:
        grain, found = graph.table(edge.table).grain, rows[edge.argument]
        window = edge.window.around(days)
        own += sum(found.get(p, 0) for p in partitions_over(grain, days))
        before += found.get(partition_of(grain, window.start - ONE_DAY), 0)
        after += found.get(partition_of(grain, window.end), 0)
    return own * before * after
