"""Document of a period: which imports hold records of it, how late they came, and which partitions rest on it.

From the ledger, which counts the valid records of an import by day and remembers what every run has read; only some of
the rejected records are read from their table, and keys that are not known from landed records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import Command, Invocation, NextStep, do, step
from backfill_assets.domain import SourceTable
from backfill_assets.lake.row_values import Texts, instants_in, texts
from backfill_assets.landing.bronze import unknown_keys
from backfill_assets.landing.conformed import IMPORT_ID
from backfill_assets.landing.days import rejected_of
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.imports import imports_for_days
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.imports import ImportDay, ImportRecord
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.next_steps import joined, loads
from backfill_assets.planning.state import ComputedFrom
from backfill_assets.report.documents import INLINE
from backfill_assets.report.sources import captured_in
from backfill_assets.report.waiting import some_rejected
from backfill_assets.workspace import Workspace

_MOST_KEYS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedDay:
    """One day of the period in an import."""

    #: What of the day it brings, moves, deletes, withdraws and restores, and how many keys are not known for it.
    day: ImportDay = field(metadata=INLINE)
    days_late: int | None  #: The days between the day of the events and the landing; null before it has landed.


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedImport:
    """An import that holds records of the period, or has moved keys away from it, deleted or withdrawn them."""

    record: ImportRecord = field(metadata=INLINE)  #: The import.
    days: tuple[LocatedDay, ...]  #: Day by day.
    rejected: tuple[Texts, ...]  #: Some of its rejected records, of any day: their numbers in it and the reasons.

    @property
    def records(self) -> int:
        return sum(each.day.events for each in self.days)


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentPartitions:
    """Accepted partitions of a table that rest on the period, all by the same run."""

    table: str  #: The table; the source table itself is the first.
    run_id: str  #: The run that computed them, or that found them equal last.
    transform: str  #: The transform of that run.
    transform_version: str  #: Its release.
    partitions: Partitions  #: The partitions.
    through: tuple[str, ...]  #: The inputs through which they do; empty for the source table.


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnownKey:
    """A key that is not known: a newer record of it was rejected."""

    key: Texts  #: Its values, as texts.
    day: date  #: The day of its last accepted version.
    import_id: str  #: The file with the first such record.
    row: int  #: The number of the record in it.
    reason: str  #: Why it was rejected.


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedPeriod:
    """Where the records of a period are, and what rests on them."""

    source: str  #: The source table.
    from_: date  #: The first day.
    to: date  #: The last one.
    timezone: str  #: Where clocks show these days; empty for days of UTC, and of a source whose event time is a date.
    has_dates: bool  #: True if its event time is a date; otherwise its partitions are UTC dates.
    dates: Partitions  #: The dates that they touch: those of the imports' days and of the source's partitions.
    imports: tuple[LocatedImport, ...]  #: In the order of arrival.
    quarantine: str  #: Where the Delta table of all rejected records is.
    unknown: tuple[NotKnownKey, ...]  #: Some of the keys of the period that are not known.
    partitions: tuple[DependentPartitions, ...]  #: What readers see that rests on the period, inputs before dependents.
    #: Captured positions with records of that time, where the source is captured from a stream.
    captured: tuple[CapturedFile, ...]
    not_loaded: Partitions  #: Days of the period that have landed records and are not built from them.
    next_step: NextStep | None  #: What builds these days; null when there are none.
    #: What asks the stream for the positions of the period; null where there is no stream.
    ask_the_stream: Invocation | None


def locate(ws: Workspace, name: str, days: DayRange) -> LocatedPeriod:
    """Where the records of some days of a source are, and what rests on them."""
    source = ws.domain.source_table(name)
    dates = source.days.partitions(days)
    with ws.ledger.read() as tx:
        touching = tx.imports.days(source=source.name, days=dates, states=(*COUNTING, ImportState.LANDING))
        by_id = {record.import_id: record for record in tx.imports.records(source.name)} if touching else {}
        partitions = tuple(_resting(ws, tx, source.name, frozenset(dates)))
        captured = captured_in(tx, source, days)
        silent = set(dates).difference(each.event_date for each in touching if each.events)
        # Of days on which no file has records: those that were rejected of them, and those that may be of them.
        rejected = [each.import_id for each in rejected_of(tx, source, silent)][:_MOST_KEYS] if silent else []
        by_id |= tx.imports.named(each for each in rejected if each not in by_id)
    by_import: dict[str, Sequence[ImportDay]] = dict.fromkeys(rejected, ())
    by_import |= grouped((each.import_id, each) for each in touching)
    waiting = sorted({each.event_date for each in touching if by_id[each.import_id].state is ImportState.LANDED})
    ask = do(Command.CAPTURE, source.short_name, first=days.start, last=days.last, dry_run=True)
    return LocatedPeriod(
        source=source.name,
        from_=days.start,
        to=days.last,
        timezone=source.zone_of_days,
        has_dates=source.has_dates,
        dates=Partitions.of(Grain.DAILY, dates),
        imports=tuple(_located(ws, source, by_id[each], some) for each, some in by_import.items()),
        quarantine=str(ws.lake.place(source.quarantine)),
        unknown=_unknown(ws, source, sorted({each.event_date for each in touching if each.unknown})),
        partitions=partitions,
        captured=captured,
        not_loaded=Partitions.of(Grain.DAILY, waiting),
        next_step=step(joined(loads(source.name, waiting)), "; why: ", do(Command.STALE, source.name))
        if waiting
        else None,
        ask_the_stream=ask if source.capture and source.capture.is_read_again else None,
    )


def _located(ws: Workspace, source: SourceTable, record: ImportRecord, days: Sequence[ImportDay]) -> LocatedImport:
    return LocatedImport(
        record=record,
        days=tuple(LocatedDay(day=each, days_late=record.days_late(each.event_date)) for each in days),
        rejected=some_rejected(ws, source, record)[0],
    )


def _unknown(ws: Workspace, source: SourceTable, days: Sequence[date]) -> tuple[NotKnownKey, ...]:
    """Some keys that are not known, looked for with Spark only where the ledger has counted some."""
    if not days:
        return ()
    with ws.ledger.read() as tx:
        imports = imports_for_days(tx, source, days)
    day = source.partition.column
    found = unknown_keys(ws.spark(), ws.settings, source, imports=imports, days=days)
    return tuple(
        NotKnownKey(
            key=texts(row, source.key, instants_in(source.schema)),
            day=row[day],
            import_id=row[IMPORT_ID],
            row=row[ROW],
            reason=row["reason"],
        )
        for row in found.orderBy(day, *source.key).limit(_MOST_KEYS).collect()
    )


def _resting(ws: Workspace, tx: ReadTransaction, source: str, days: frozenset[date]) -> Iterator[DependentPartitions]:
    """The partitions that depend on the days: by the windows that the runs had, and by the versions that they read."""
    derived = [node.name for node in ws.graph.tables.values() if not node.is_source]
    bases = tx.bases.of_accepted([source, *derived]).bases
    moved: dict[str, set[date]] = {source: set(days)}
    for basis in bases[source]:
        if chosen := days.intersection(basis.partitions):
            yield _described(ws.graph.table(source), basis, chosen, ())
    for name in derived:
        node = ws.graph.table(name)
        for basis in bases[name]:
            reached, through = _through(ws, node, basis, moved)
            if reached:
                moved.setdefault(name, set()).update(reached)
                yield _described(node, basis, reached, through)


def _through(
    ws: Workspace, node: TableNode, basis: ComputedFrom, moved: dict[str, set[date]]
) -> tuple[set[date], tuple[str, ...]]:
    """The partitions of a basis that have read some of these partitions, and the tables through which they did."""
    found: set[date] = set()
    through: list[str] = []
    for read in basis.inputs:
        some = moved.get(read.edge.table, set()) & read.digests.keys()
        if reached := set(ws.graph.reached(read.edge, node, some)).intersection(basis.partitions):
            found |= reached
            through.append(read.edge.table)
    return found, tuple(dict.fromkeys(through))


def _described(
    node: TableNode, basis: ComputedFrom, partitions: AbstractSet[date], through: tuple[str, ...]
) -> DependentPartitions:
    return DependentPartitions(
        table=node.name,
        run_id=basis.run_id,
        transform=basis.transform,
        transform_version=basis.transform_version,
        partitions=Partitions.of(node.grain, partitions),
        through=through,
    )
