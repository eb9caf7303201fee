"""Calendar: every partition of every table in a year, with its version, its release, and whether it is stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets.ledger.provenance import DerivedProvenance
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange, Grain, describe, partitions_over
from backfill_assets.report.stale import in_words
from backfill_assets.staleness.ranges import Staleness
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCell:
    """What readers see of a partition.

    Attributes:
        version: The version of the partition.
        rows: How many rows it has.
        accepted_at: When readers saw it first.
        run_id: The run that computed it.
        release: The version of the transform that computed it; empty for a source table.
    """

    version: int
    rows: int
    accepted_at: datetime
    run_id: str
    release: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarCell:
    """One partition of a calendar.

    Attributes:
        partition: Its first day.
        accepted: What readers see of it; null when it has no accepted version.
        is_stale: Whether it no longer follows from its inputs, code, configuration and references.
        is_blocked: Whether it is stale and cannot be built again, because an input has no accepted version.
    """

    partition: date
    accepted: AcceptedCell | None
    is_stale: bool
    is_blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleReasons:
    """Consecutive partitions of a calendar that are stale for the same reasons.

    Attributes:
        described: The partitions in words.
        sentences: Why.
    """

    described: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCalendar:
    """The partitions of a table in a year.

    Attributes:
        table: Its name.
        grain: Whether a partition is a day or a month.
        cells: From the first to the last partition that the table ever had, as far as they are in the year.
        accepted_partitions: How many of them have an accepted version.
        stale_partitions: How many are stale.
        stale: Which, and why.
        waiting: Partitions that were never built and cannot be built yet, in words; null when there are none.
    """

    table: str
    grain: Grain
    cells: tuple[CalendarCell, ...]
    accepted_partitions: int
    stale_partitions: int
    stale: tuple[StaleReasons, ...]
    waiting: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The partitions of every table in a year.

    Attributes:
        year: The year.
        years: The years in which any table ever had a partition.
        as_of: The instant of the question.
        tables: Inputs before dependents; tables that are not declared any more at the end.
    """

    year: int
    years: tuple[int, ...]
    as_of: datetime
    tables: tuple[TableCalendar, ...]


def calendar(ws: Workspace, year: int | None, stale: Sequence[Staleness]) -> Calendar:
    """A year of every table.

    Args:
        ws: The workspace.
        year: The year; the last one that has partitions by default.
        stale: What is stale, table by table.
    """
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
    declared = ws.domain.tables.get(name)
    grain = declared.partition.grain if declared else Grain.DAILY
    whole = DayRange.inclusive(*extent)
    days = DayRange(max(of_year.start, whole.start), min(of_year.end, whole.end))
    shown = partitions_over(grain, days) if days.start < days.end else ()
    accepted = _accepted(tx, name, shown)
    outdated = set(stale.partitions) if stale else set()
    blocked = set(stale.blocked) if stale else set()
    cells = tuple(
        CalendarCell(partition=p, accepted=accepted.get(p), is_stale=p in outdated, is_blocked=p in blocked)
        for p in shown
    )
    return TableCalendar(
        table=name,
        grain=grain,
        cells=cells,
        accepted_partitions=len(accepted),
        stale_partitions=sum(cell.is_stale for cell in cells),
        stale=_reasons(stale, of_year) if stale else (),
        waiting=_waiting(stale, of_year) if stale else None,
    )


def _accepted(tx: ReadTransaction, name: str, partitions: Sequence[date]) -> Mapping[date, AcceptedCell]:
    return {
        partition: AcceptedCell(
            version=version.version,
            rows=version.rows,
            accepted_at=version.accepted_at,
            run_id=version.run_id,
            release=_release(version),
        )
        for partition, version in tx.versions.accepted(name, partitions).items()
    }


def _release(version: PartitionVersion) -> str:
    return version.provenance.transform_version if isinstance(version.provenance, DerivedProvenance) else ""


def _reasons(stale: Staleness, of_year: DayRange) -> tuple[StaleReasons, ...]:
    return tuple(
        StaleReasons(
            described=describe(stale.grain, inside),
            sentences=tuple(in_words(stale.table, reason) for reason in found.reasons),
        )
        for found in stale.ranges
        for inside in [[p for p in found.partitions if p in of_year]]
        if inside
    )


def _waiting(stale: Staleness, of_year: DayRange) -> str | None:
    inside = [partition for partition in stale.waiting if partition in of_year]
    return describe(stale.grain, inside) if inside else None
