"""Creation: makes an empty database a ledger, at the newest revision of the schema.

Only loaded for a new ledger: to declare a partial index, SQLAlchemy loads the dialects of both databases.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, MetaData, PrimaryKeyConstraint, String, Table, insert, text

from backfill_assets.ledger.events import GENESIS_HASH
from backfill_assets.ledger.schema import (
    HEAD_REVISION,
    chain_head,
    events,
    import_days,
    metadata,
    outbox,
    partition_versions,
    publications,
)
from backfill_assets.ledger.views import create_views


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
    _index("days_of_unknown_keys", import_days.c.import_id, where="unknown > 0"),
)
"""Indexes of the rows that fulfil a condition; they are created with their tables."""

_revisions = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Where Alembic looks for the revision of a database."""


def create(connection: Connection) -> None:
    """Creates the tables, indexes, triggers and views, and the head of the chain of events."""
    metadata.create_all(connection, checkfirst=False)
    _refuse_changes(connection, "manifests", "a manifest never changes: a correction is a new manifest")
    _refuse_changes(connection, "events", "an event never changes: what happened has happened")
    create_views(connection)
    connection.execute(insert(chain_head).values(only_row=1, sequence=0, hash=GENESIS_HASH))
    _revisions.create(connection)
    connection.execute(insert(_revisions).values(version_num=HEAD_REVISION))


def _refuse_changes(connection: Connection, table: str, message: str) -> None:
    """Makes a table append-only: its triggers refuse an update, a delete and a truncation with the message."""
    if connection.dialect.name == "sqlite":
        statements = [
            f"CREATE TRIGGER {table}_refuse_{verb} BEFORE {verb.upper()} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            for verb in ("update", "delete")
        ]
    else:
        statements = [
            f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{message}'; END $$",
            f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
            f"CREATE TRIGGER {table}_refuse_truncate BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()",
        ]
    for statement in statements:
        connection.exec_driver_sql(statement)
