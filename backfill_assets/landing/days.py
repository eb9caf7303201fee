"""Days of bronze that have to be built, and days that would be empty without a declaration by a file or a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets.calendar.local_days import newest_date
from backfill_assets.calendar.partitions import ONE_DAY, DayRange, Grain, Partitions, compress, plausible_gaps
from backfill_assets.core.errors import Refused
from backfill_assets.domain import SourceTable
from backfill_assets.landing.errors import NothingLanded, RejectedOf, records_rejected
from backfill_assets.ledger.imports import ImportDay
from backfill_assets.ledger.states import COUNTING, EVER_VISIBLE, ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.next_steps import joined, loads, read_rejected_anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The days of bronze to build after files have landed."""

    days: tuple[date, ...]
    #: Days between the first and the last event of the source that no file and no person explains.
    asked: tuple[DayRange, ...]


def pending_days(tx: ReadTransaction, source: SourceTable) -> Pending:
    """The days that landed files touch and that are not in bronze yet, and the plausible gaps in these files.

    Asked about is what the source lacks as a whole, also between its files: one of them may be missing.
    """
    touched = tx.imports.days(source=source.name, states=COUNTING)
    recent = tx.imports.days(source=source.name, states=[ImportState.LANDED])
    built = tx.versions.claims(source.name)
    landed = {day.event_date for day in recent}
    rejected = _rejected_days(tx, source)
    filled = {day for day in _filled(source, recent, touched) - rejected if day not in built}
    explained = _event_days(touched) | (_filled(source, touched, touched) - rejected)
    return Pending(
        days=tuple(sorted(landed | filled)),
        asked=tuple(
            compress(Grain.DAILY, (day for day in _missing(tx, source, touched, built) if day not in explained))
        ),
    )


def missing_days(tx: ReadTransaction, source: SourceTable) -> tuple[date, ...]:
    """The days from the first to the last landed event that have no accepted version."""
    touched = tx.imports.days(source=source.name, states=COUNTING)
    return _missing(tx, source, touched, tx.versions.claims(source.name))


def rejected_of(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[RejectedOf, ...]:
    """The landed files whose rejected records are of some days, and then those of whose rejected records the day is not
    known, those that have most of such records first.

    Cost: one row per file with rejected records.
    """
    wanted, found = set(days), []
    for record in tx.imports.rejecting(source.name):
        of_days = sum(many for day, many in record.rejected_on.items() if day in wanted)
        of_no_day = record.counts.rejected - sum(record.rejected_on.values())
        if of_days or of_no_day:
            of_file = RejectedOf(
                import_id=record.import_id, records=record.counts.landed, of_days=of_days, of_no_day=of_no_day
            )
            found.append(of_file)
    return tuple(sorted(found, key=lambda each: (-each.of_days, -each.of_no_day / each.records)))


def _missing(
    tx: ReadTransaction, source: SourceTable, touched: Iterable[ImportDay], built: Collection[date]
) -> tuple[date, ...]:
    events = _event_days(touched)
    if not events:
        return ()
    # Between what is planned nothing is missing.
    last = min(max(events), tx.now.date()) if source.planned else max(events)
    return tuple(day for day in DayRange(min(events), max(min(events), last) + ONE_DAY) if day not in built)


def last_day(tx: ReadTransaction, source: SourceTable, at: datetime) -> date:
    """The last day, as a person names it, that a record which has landed until an instant can have; of what is planned
    the last that there is, or that of the instant."""
    latest = at + source.ahead
    last = newest_date(latest) if source.has_dates else source.days.of(latest)
    if not source.planned:
        return last
    # The day of a zone can be the one after the partition.
    landed = (day.event_date + ONE_DAY for day in tx.imports.days(source=source.name, states=COUNTING))
    return max([last, *landed])


def rejecting(
    tx: ReadTransaction, sources: Iterable[SourceTable], missing: Mapping[str, Iterable[date]]
) -> Mapping[str, tuple[str, ...]]:
    """The landed files with rejected records that belong, or may belong, to missing days of sources."""
    found = {each.name: rejected_of(tx, each, missing[each.name]) for each in sources if each.name in missing}
    return {name: tuple(each.import_id for each in some) for name, some in found.items() if some}


def _rejected_days(tx: ReadTransaction, source: SourceTable) -> frozenset[date]:
    """The days that rejected records would be of: that nothing happened on them is not plausible."""
    return frozenset(day for record in tx.imports.rejecting(source.name) for day in record.rejected_on)


def _filled(source: SourceTable, files: Iterable[ImportDay], touched: Iterable[ImportDay]) -> frozenset[date]:
    """The days of plausible gaps in these files on which no file has events."""
    return plausible_gaps(_by_file(files), plausible_days=source.plausible_gap_days) - _event_days(touched)


def unexplained_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[date, ...]:
    """The days that would be empty without an explanation.

    A day is explained by a landed file with records of it, by a plausible gap, by a complete extract without records of
    it, or by an accepted version that is empty.
    """
    touched = tx.imports.days(source=source.name, states=COUNTING)
    known = {day.event_date for day in touched} | (_filled(source, touched, touched) - _rejected_days(tx, source))
    known |= {day for day, claim in tx.versions.claims(source.name).items() if not claim.rows}
    return tuple(day for day in days if day not in known)


def days_filled_before(tx: ReadTransaction, source: SourceTable) -> tuple[date, ...]:
    """The accepted days without rows that nothing explains any more: they were between events as their files were read
    before, and no person has declared them empty.

    Cost: one row per landed file and day, and one run per run over such a day.
    """
    touched = tx.imports.days(source=source.name, states=COUNTING)
    explained = {day.event_date for day in touched} | _filled(source, touched, touched)
    claims = tx.versions.claims(source.name)
    empty = tuple(day for day, claim in claims.items() if not claim.rows and day not in explained)
    runs = tx.runs.records(table=source.name, states=EVER_VISIBLE, over=empty) if empty else ()
    declared = {day for run in runs for day in run.manifest.change.declared_empty}
    return tuple(day for day in empty if day not in declared)


def landed_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[date, ...]:
    """The days with events in a landed file."""
    return tuple(sorted(_event_days(tx.imports.days(source=source.name, days=days, states=COUNTING))))


def _event_days(touched: Iterable[ImportDay]) -> set[date]:
    return {day.event_date for day in touched if day.events}


def _by_file(touched: Iterable[ImportDay]) -> Iterable[Collection[date]]:
    """Per import, the days with events."""
    found: defaultdict[str, set[date]] = defaultdict(set)
    for day in touched:
        if day.events:
            found[day.import_id].add(day.event_date)
    return found.values()


def require_explained(tx: ReadTransaction, table: SourceTable, days: Sequence[date], declared: frozenset[date]) -> None:
    """Refuses days that would be empty without an explanation, and declarations that contradict landed files.

    Raises:
        MissingInput: Nothing has landed for some of the days, and they are not declared empty.
        Refused: A declared day has landed events, or rejected records and is declared among others, or is not one of
            the days.
    """
    if stray := declared - set(days):
        raise Refused.coded(
            "empty_elsewhere",
            "{partitions} cannot be declared empty by a run that does not build them.",
            table=table.name,
            partitions=Partitions.of(Grain.DAILY, stray),
        )
    if landed := landed_days(tx, table, declared):
        raise Refused.coded(
            "days_not_empty",
            "{partitions} of {table} cannot be declared empty: events for those days have landed.",
            then="{loaded}",
            table=table.name,
            partitions=Partitions.of(Grain.DAILY, landed),
            loaded=joined(loads(table.name, sorted(landed))),
        )
    of_rejected = _rejected_days(tx, table) & declared
    if of_rejected and of_rejected != declared:
        # Whoever declares them alone has seen that records of them were rejected.
        rejected = tuple(each for each in rejected_of(tx, table, of_rejected) if each.of_days)
        raise Refused.coded(
            "rejected_among_empty",
            "{partitions} of {table} cannot be declared empty among other days: {records} {were} rejected there.",
            then="{read_anew}; where nothing happened all the same, declare these days by themselves: {declared_empty}",
            table=table.name,
            partitions=Partitions.of(Grain.DAILY, of_rejected),
            records=records_rejected(rejected),
            were="was" if sum(each.of_days for each in rejected) == 1 else "were",
            read_anew=read_rejected_anew(table.name, sorted(of_rejected), [each.import_id for each in rejected]),
            declared_empty=joined(loads(table.name, sorted(of_rejected), empty=True)),
        )
    if silent := [day for day in unexplained_days(tx, table, days) if day not in declared]:
        missing = Partitions.of(Grain.DAILY, silent)
        are_gaps = set(silent) <= set(missing_days(tx, table))
        raise NothingLanded(
            table=table.name,
            missing=missing,
            asked=tuple(days),
            are_gaps=are_gaps,
            in_utc=not table.has_dates,
            rejected=rejected_of(tx, table, silent),
        )
