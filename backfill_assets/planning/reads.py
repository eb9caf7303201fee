"""Reads: what one call of a transform reads, the windows of its output partitions input by input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.calendar.partitions import DayRange, Grain, TablePartitions, days_of
from backfill_assets.planning.graph import Graph, TableNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads(TablePartitions):
    """The reads of one call of a transform from one input."""

    partitions: tuple[date, ...]  #: Every partition in the window.
    argument: str  #: The argument of the transform.
    days: DayRange  #: From the first to the last day that the transform may look at, warm-up and look-ahead included.


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreDays:
    """The number of days beyond its window that are read of one input: those that exist, even if the proof asks for
    more."""

    argument: str  #: The argument of the transform.
    back: int  #: Days before the window.
    ahead: int  #: Days after it.


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
