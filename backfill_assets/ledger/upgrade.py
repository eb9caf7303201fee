"""Upgrade: creates a ledger in an empty database, and brings an earlier one to the present schema."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from backfill_assets.core.progress import waiting
from backfill_assets.ledger.connection import READ, UPGRADE, compact_log, transaction, who_writes
from backfill_assets.ledger.errors import DanglingReferences, NewerLedger
from backfill_assets.ledger.schema import HEAD_REVISION

MIGRATIONS = Path(__file__).parent / "migrations"

UPGRADE_LOCK = 7_305_112_024
"""Any number that no other program takes as an advisory lock in the same PostgreSQL database."""


def upgrade(engine: Engine) -> None:
    """Brings the database to the newest revision; several processes may try at once."""
    with transaction(engine, READ) as connection:
        if present_revision(connection) == HEAD_REVISION:
            return
    with ExitStack() as turn, transaction(engine, UPGRADE) as connection:
        if engine.dialect.name == "postgresql":
            turn.enter_context(waiting(lambda: who_writes(engine)))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": UPGRADE_LOCK})
            turn.close()
        if present_revision(connection) is None:
            # Only loaded for a new ledger, and Alembic only for an earlier one: a command needs neither to start.
            from backfill_assets.ledger.creation import create

            create(connection)
        else:
            _migrate(connection)
            _require_references(connection)
    # What an upgrade removes from a table must not stay in SQLite's log.
    compact_log(engine)


def present_revision(connection: Connection) -> str | None:
    """The revision that the database is at; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _require_references(connection: Connection) -> None:
    """Asks SQLite, which did not look while tables were made anew, whether every reference still leads somewhere."""
    if connection.dialect.name == "sqlite":
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if dangling:
            raise DanglingReferences(table=dangling[0][0])


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise NewerLedger(revision=present_revision(connection), known=HEAD_REVISION) from error
