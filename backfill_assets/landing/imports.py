"""Imports that count, and those from which the rows of a day of bronze are built, by the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from datetime import date, datetime
from enum import StrEnum

from backfill_assets.core.identity import document_digest
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.errors import LandingUnfinished
from backfill_assets.landing.reading_digest import reads_otherwise, without_comments
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange

LOAD, LOAD_VERSION = "load", "1"
"""What builds every source table, as manifests name it."""

STATEMENT = "statement"
"""The format of an import that is not a file, but a statement about earlier ones."""

_UNFINISHED = (ImportState.LANDING, ImportState.FAILED)


class OnDuplicate(StrEnum):
    """What to do with a file whose content was landed before."""

    IGNORE = "ignore"
    REPROCESS = "reprocess"
    CORRECT = "correct"
    REJECT = "reject"


def contract_of(source: SourceTable) -> Mapping[str, str]:
    """What steers the building of a source table: the digest of what its author declares of a record."""
    contract: dict[str, object] = {
        "schema": without_comments(source.schema).json(),
        "key": list(source.key),
        "event_time": source.event_time,
    }
    if source.order:
        contract |= {"order": list(source.order), "ties": str(source.ties)}
    if source.unknown == UnknownKeys.DROP:
        contract["unknown"] = str(source.unknown)
    if source.operation is not None:
        contract["operation"] = asdict(source.operation)
    return {"contract": document_digest(contract)}


def read_otherwise(tx: ReadTransaction, source: SourceTable) -> tuple[ImportRecord, ...]:
    """The files of a source whose records were read by another declaration than the present one, in their order.

    Of those that earlier releases landed it is not known: their `reading` is None.
    """
    otherwise = reads_otherwise(source)
    return tuple(each for each in landed_files_of(tx, source) if each.reading is None or otherwise(each))


def landed_files_of(tx: ReadTransaction, source: SourceTable) -> tuple[ImportRecord, ...]:
    """The landed files of a source that can be read anew, in their order."""
    records = tx.imports.records(source.name, [*COUNTING, ImportState.FAILED])
    return tuple(each for each in records if each.format != STATEMENT and each.landed_at is not None)


def landed_since(
    tx: ReadTransaction, source: SourceTable, days: DayRange, at: datetime, *, but: Collection[str]
) -> ImportRecord | None:
    """The first import on some days of a source that has landed since a moment: a file, or a statement.

    Args:
        but: Stored paths of files that are not meant.
    """
    live = tx.imports.records(source.name, COUNTING)
    later = {
        each.import_id: each
        for each in live
        if each.landed_at is not None and each.landed_at > at and each.stored_path not in but
    }
    dates = source.days.partitions(days)
    touching = {day.import_id for day in tx.imports.days(later) if day.event_date in dates} if later else set()
    return next((each for each in later.values() if each.import_id in touching), None)


def imports_for_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[ImportRecord, ...]:
    """The imports that the rows of these days follow from, in the order of arrival.

    An import that was reprocessed may hold keys, at its earlier place, that later imports have on other days; so the
    later ones are among them. So are statements: a version of another day that they withdraw ends none of these days.

    Raises:
        MissingInput: An import that was landed before is unfinished, so its records of these days are out of reach.
    """
    wanted = tuple(days)
    touching = {day.import_id for day in tx.imports.days(source=source.name, days=wanted)}
    every = tx.imports.records(source.name)
    for record in every:
        if record.import_id in touching and record.state in _UNFINISHED and record.landed_at is not None:
            path = record.original_path
            raise LandingUnfinished(import_id=record.import_id, path=path, source=source.short_name)
    live = [record for record in every if record.state in COUNTING]
    first = min((record.arrival for record in live if record.import_id in touching), default=None)
    again = [r.arrival for r in live if r.import_id in touching and r.on_duplicate == OnDuplicate.REPROCESS]
    since = min(again, default=None)
    return tuple(
        record
        for record in live
        if record.import_id in touching
        or (since is not None and record.arrival > since)
        or (first is not None and record.format == STATEMENT and record.arrival > first)
    )
