"""Documents of landed files."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.ledger.import_records import ImportDay, ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.report.words.states import MEANING


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDocument:
    """One landed file. Landed records = accepted + duplicate + superseded + rejected.

    Attributes:
        import_id: `imp-` and a number; ids sort by arrival.
        source: The source table.
        file: Where it came from, as it was typed.
        stored_path: Where its bytes are kept, relative to the landing folder.
        sha256: Of its bytes, as they came.
        size_bytes: The same.
        format: `jsonl`, `csv` or `parquet`; `statement` for an extract's withdrawal, a withdrawal or a restoration.
        state: How far it is.
        meaning: The same in words.
        arrival: Its position in the order of arrival, over all sources.
        landed: How many records it holds.
        accepted: How many of them decide what their key is: its last version, or its withdrawal.
        duplicate: How many were there before with the same values.
        superseded: How many do not decide it: another record does.
        rejected: How many are in quarantine, each with its reason.
        keys_current: How many more keys of the source are current since it landed.
        keys_deleted: How many more are deleted.
        keys_withdrawn: How many more are withdrawn. Keys ever accepted = current + deleted + withdrawn.
        ignored_columns: Columns that the contract does not know, which were left out.
        schema_versions: The distinct values of `schema_version` in it; empty when it has no such column.
        note: What is to be known of its state; empty when there is nothing.
    """

    import_id: str
    source: str
    file: str
    stored_path: str
    sha256: str
    size_bytes: int
    format: str
    state: ImportState
    meaning: str
    arrival: int
    landed: int
    accepted: int
    duplicate: int
    superseded: int
    rejected: int
    keys_current: int
    keys_deleted: int
    keys_withdrawn: int
    ignored_columns: tuple[str, ...]
    schema_versions: tuple[int, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOnDay:
    """What one landed file or statement does to one day of its source.

    Attributes:
        import_id: Names it.
        file: Where it came from, as it was typed; or what a statement is.
        by: Who landed it.
        reason: Why a statement was made; empty for a file.
        records: Its valid records of that day.
        moved_away: Versions of the day that end because it has the key on another day.
        deleted: Versions of the day that end with its delete.
        withdrawn: Keys of the day that it withdraws.
        restored: Keys of the day that it restores.
    """

    import_id: str
    file: str
    by: str
    reason: str
    records: int
    moved_away: int
    deleted: int
    withdrawn: int
    restored: int


def import_on_day(record: ImportRecord, day: ImportDay) -> ImportOnDay:
    """What an import does to one of the days that it touches."""
    return ImportOnDay(
        import_id=record.import_id,
        file=record.original_path,
        by=record.landed_by,
        reason=record.note,
        records=day.events,
        moved_away=day.displaced,
        deleted=day.deleted,
        withdrawn=day.withdrawn,
        restored=day.restored,
    )


def import_document(record: ImportRecord) -> ImportDocument:
    """A landed file as the ledger knows it."""
    counts = record.counts
    return ImportDocument(
        import_id=record.import_id,
        source=record.source,
        file=record.original_path,
        stored_path=record.stored_path,
        sha256=record.sha256,
        size_bytes=record.size_bytes,
        format=record.format,
        state=record.state,
        meaning=MEANING[record.state],
        arrival=record.arrival,
        landed=counts.landed,
        accepted=counts.accepted,
        duplicate=counts.duplicate,
        superseded=counts.superseded,
        rejected=counts.rejected,
        keys_current=record.keys.current,
        keys_deleted=record.keys.deleted,
        keys_withdrawn=record.keys.withdrawn,
        ignored_columns=record.ignored_columns,
        schema_versions=record.schema_versions,
        note=record.note,
    )
