"""Days of bronze that have to be built, and days that would be empty without a declaration by a file or a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.domain import SourceTable
from backfill_assets.errors import MissingInput, Refused
from backfill_assets.landing.imports import LIVE
from backfill_assets.ledger.import_records import ImportDay
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.filling import joined, land_or_declare_empty, loads
from backfill_assets.planning.gaps import gaps_within
from backfill_assets.planning.partitions import ONE_DAY, DayRange, Grain, compress, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The days of bronze to build after files have landed.

    Attributes:
        days: The days to build, in order.
        asked: Gaps that are longer than plausible for the source and that no person has declared empty.
    """

    days: tuple[date, ...]
    asked: tuple[DayRange, ...]


def pending_days(tx: ReadTransaction, source: SourceTable) -> Pending:
    """The days that landed files touch and that are not in bronze yet, and plausible gaps between their events."""
    touched = tx.imports.days(source=source.name, states=LIVE)
    spans = _spans(tx.imports.days(source=source.name, states=[ImportState.LANDED]))
    gaps = gaps_within(spans, _event_days(touched), plausible_days=source.plausible_gap_days)
    built = tx.versions.claims(source.name)
    landed = {day.event_date for day in tx.imports.days(source=source.name, states=[ImportState.LANDED])}
    return Pending(
        days=tuple(sorted(landed | {day for day in gaps.plausible if day not in built})),
        asked=tuple(
            some for gap in gaps.asked for some in compress(Grain.DAILY, (day for day in gap if day not in built))
        ),
    )


def unexplained_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[date, ...]:
    """Those of these days that would be empty without an explanation.

    A day is explained by a landed file with records of it, by a plausible gap, or by an accepted version that is empty.
    """
    touched = tx.imports.days(source=source.name, states=LIVE)
    gaps = gaps_within(_spans(touched), _event_days(touched), plausible_days=source.plausible_gap_days)
    known = {day.event_date for day in touched} | gaps.plausible
    known |= {day for day, claim in tx.versions.claims(source.name).items() if not claim.rows}
    return tuple(day for day in days if day not in known)


def landed_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[date, ...]:
    """Those of these days with events in a landed file."""
    return tuple(sorted(_event_days(tx.imports.days(source=source.name, days=days, states=LIVE))))


def _event_days(touched: Iterable[ImportDay]) -> set[date]:
    return {day.event_date for day in touched if day.events}


def _spans(touched: Iterable[ImportDay]) -> Sequence[DayRange]:
    """Per import, the days from its first event to its last."""
    spans: dict[str, DayRange] = {}
    for day in touched:
        if not day.events:
            continue
        known = spans.get(day.import_id, DayRange(day.event_date, day.event_date))
        spans[day.import_id] = DayRange(min(known.start, day.event_date), max(known.end, day.event_date + ONE_DAY))
    return tuple(spans.values())


def require_explained(tx: ReadTransaction, table: SourceTable, days: Sequence[date], declared: frozenset[date]) -> None:
    """Refuses days that would be empty without an explanation, and declarations that contradict landed files.

    Raises:
        MissingInput: Nothing has landed for some of the days, and they are not declared empty.
        Refused: A declared day has landed events, or is not one of the days.
    """
    if stray := declared - set(days):
        raise Refused(f"{describe(Grain.DAILY, stray)} cannot be declared empty by a run that does not build them.")
    if landed := landed_days(tx, table, declared):
        raise Refused(
            f"{describe(Grain.DAILY, landed)} of {table.name} cannot be declared empty: events of then have landed.",
            next_step=joined(loads(table.name, landed)),
            table=table.name,
        )
    if silent := [day for day in unexplained_days(tx, table, days) if day not in declared]:
        raise MissingInput(
            f"nothing has landed for {describe(Grain.DAILY, silent)} of {table.name}, and these days are not "
            f"declared empty.",
            next_step=land_or_declare_empty(table.name, days),
            table=table.name,
            missing=[day.isoformat() for day in silent],
        )
