"""Follow-up runs: which runs of dependent tables publications ask for.

A dependent is computed once for all publications that ask for it at the same time: one run per range of consecutive
partitions, which follows every publication that asks for some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import DayRange, TablePartitions, days_of, describe
from backfill_assets.core.grouped import grouped
from backfill_assets.planning.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPartitions(TablePartitions):
    """The partitions that one publication still asks of one dependent."""

    partitions: tuple[date, ...]  #: What can be computed now and for which no run is planned yet.
    publication_id: str  #: The publication.
    source: str  #: The table that it changed.
    waiting: tuple[date, ...] = ()  #: What cannot, because input partitions that it needs have no accepted version.
    frozen: tuple[date, ...] = ()  #: What could, and waits until the freeze of it ends.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp(TablePartitions):
    """One run that is asked for; its partitions are consecutive, because a Dagster run names a range."""

    publications: tuple[str, ...]  #: Those that ask for some of its partitions, in the order of the outbox.
    sources: tuple[str, ...]  #: The tables that they changed, each once.

    @property
    def days(self) -> DayRange:
        return DayRange(self.partitions[0], days_of(self.grain, self.partitions[-1]).end)

    @property
    def reason(self) -> str:
        """Why the run exists, in words."""
        named = ", ".join(self.publications[:3])
        more = f" and {len(self.publications) - 3} more" if len(self.publications) > 3 else ""
        return f"follows {named}{more} of {', '.join(self.sources)}: {describe(self.grain, self.partitions)}"


def follow_ups(wanted: Iterable[RequestedPartitions], graph: Graph) -> Iterator[FollowUp]:
    """The fewest runs that do everything that is asked for, table by table."""
    by_table = grouped((each.table, each) for each in wanted)
    for table, asking in by_table.items():
        for partitions in graph.table(table).in_a_row(p for each in asking for p in each.partitions):
            here = [each for each in asking if not set(partitions).isdisjoint(each.partitions)]
            yield FollowUp(
                publications=tuple(each.publication_id for each in here),
                sources=tuple(dict.fromkeys(each.source for each in here)),
                table=table,
                grain=asking[0].grain,
                partitions=partitions,
            )
