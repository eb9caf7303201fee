"""Calendar: every partition of every table in a year, with its accepted version, and whether it is stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange, Partitions, partitions_over
from backfill_assets.staleness.decide import Staleness, StaleRange
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCalendar:
    """The partitions of a table in a year."""

    table: str
    partitions: Partitions  #: From the first to the last that the table ever had, as far as they are in the year.
    accepted: Mapping[date, PartitionVersion]  #: The versions that readers see of them.
    stale: tuple[StaleRange, ...]  #: Which are stale, and why.
    blocked: frozenset[date]  #: Stale partitions that cannot be built again, because an input has no accepted version.
    waiting: Partitions  #: Partitions that were never built and cannot be built yet.
    expired: Partitions  #: Snapshots that have expired; they are none of the partitions.

    @property
    def stale_partitions(self) -> frozenset[date]:
        return frozenset(self.partitions) & {day for each in self.stale for day in each.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The partitions of every table in a year."""

    year: int
    years: tuple[int, ...]  #: The years in which any table ever had a partition.
    as_of: datetime  #: The instant of the question.
    tables: tuple[TableCalendar, ...]  #: Inputs before dependents; tables that are not declared any more at the end.


def calendar(ws: Workspace, year: int | None, stale: Sequence[Staleness]) -> Calendar:
    """A year of every table."""
    known = {each.table: each for each in stale}
    as_of = ws.clock()
    with ws.ledger.read() as tx:
        extents = tx.versions.extents()
        years = _years(extents)
        chosen = year if year is not None else (years[-1] if years else as_of.year)
        of_year = DayRange.inclusive(date(chosen, 1, 1), date(chosen, 12, 31))
        names = [name for name in dict.fromkeys((*ws.domain.tables, *extents)) if name in extents]
        tables = tuple(_table(ws, tx, name, of_year, extents[name], known.get(name)) for name in names)
    return Calendar(year=chosen, years=years, as_of=as_of, tables=tables)


def _years(extents: Mapping[str, tuple[date, date]]) -> tuple[int, ...]:
    first = min((first.year for first, _ in extents.values()), default=0)
    last = max((last.year for _, last in extents.values()), default=-1)
    return tuple(range(first, last + 1))


def _table(
    ws: Workspace,
    tx: ReadTransaction,
    name: str,
    of_year: DayRange,
    extent: tuple[date, date],
    stale: Staleness | None,
) -> TableCalendar:
    grain = ws.domain.grain_of(name)
    whole = DayRange.inclusive(*extent)
    days = DayRange(max(of_year.start, whole.start), min(of_year.end, whole.end))
    within = partitions_over(grain, days) if days.start < days.end else ()
    accepted = tx.versions.accepted(name, within)
    declared = ws.domain.tables.get(name)
    if isinstance(declared, DerivedTable) and declared.stretches is not None:
        within = (*declared.stretches.ends(within), *accepted)
    expired = tx.versions.expired(name).keys() & set(within)
    within = tuple(day for day in within if day not in expired)
    waiting = [day for day in stale.waiting if day in of_year] if stale else []
    return TableCalendar(
        table=name,
        partitions=Partitions.of(grain, within),
        accepted=accepted,
        stale=_within(stale, of_year) if stale else (),
        blocked=frozenset(stale.blocked if stale else ()),
        waiting=Partitions.of(grain, waiting),
        expired=Partitions.of(grain, expired),
    )


def _within(stale: Staleness, of_year: DayRange) -> tuple[StaleRange, ...]:
    return tuple(
        StaleRange(grain=stale.grain, partitions=inside, reasons=found.reasons)
        for found in stale.ranges
        if (inside := tuple(day for day in found.partitions if day in of_year))
    )
