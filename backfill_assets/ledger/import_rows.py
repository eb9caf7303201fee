"""Rows of imports as records."""

from __future__ import annotations

from backfill_assets.ledger.import_records import ImportCounts, ImportDay, ImportRecord, KeyCounts
from backfill_assets.ledger.rows import AnyRow


def import_record(row: AnyRow) -> ImportRecord:
    """One landed file."""
    return ImportRecord(
        import_id=row.import_id,
        source=row.source,
        sha256=row.sha256,
        original_path=row.original_path,
        stored_path=row.stored_path,
        size_bytes=row.size_bytes,
        format=row.file_format,
        compression=row.compression,
        state=row.state,
        arrival=row.arrival,
        first_seen_at=row.first_seen_at,
        landed_at=row.landed_at,
        landed_by=row.landed_by,
        on_duplicate=row.on_duplicate,
        counts=ImportCounts(
            landed=row.landed,
            accepted=row.accepted,
            duplicate=row.duplicate,
            superseded=row.superseded,
            rejected=row.rejected,
        ),
        keys=KeyCounts(current=row.keys_current, deleted=row.keys_deleted, withdrawn=row.keys_withdrawn),
        schema_versions=tuple(row.schema_versions),
        ignored_columns=tuple(row.ignored_columns),
        note=row.note,
        contract=row.contract,
    )


def import_day(row: AnyRow) -> ImportDay:
    """One event date that a landed file touches."""
    return ImportDay(
        import_id=row.import_id,
        event_date=row.event_date,
        events=row.events,
        displaced=row.displaced,
        deleted=row.deleted,
        withdrawn=row.withdrawn,
        restored=row.restored,
    )
