"""Partial indexes of the ledger's schema: of the rows that fulfil a condition, some of them unique.

They are not in `schema`, because SQLAlchemy loads both databases' dialects to declare one, and commands need neither.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, text

from backfill_assets.ledger.schema import events, outbox, partition_versions, publications


def _index(name: str, *columns: Column[object], where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


PARTIAL_INDEXES = (
    _index("rollback_events", events.c.sequence, where="entity = 'rollback'"),
    _index("one_open_publication_per_table", publications.c.table_name, where="state = 'PUBLISHING'", unique=True),
    _index(
        "one_accepted_version_per_partition",
        *partition_versions.c["table_name", "partition_date"],
        where="state = 'ACCEPTED'",
        unique=True,
    ),
    _index("open_outbox_entries", outbox.c.sequence, where="delivered_at IS NULL AND withdrawn_at IS NULL"),
    _index("unwithdrawn_outbox_entries", outbox.c.publication_id, where="withdrawn_at IS NULL"),
)
