"""Append-only tables of the ledger: triggers of the database refuse to change manifests and events."""

from __future__ import annotations

from sqlalchemy import Connection, MetaData, event

MANIFEST_IS_FINAL = "a manifest never changes: a correction is a new manifest"
EVENT_IS_FINAL = "an event never changes: what happened has happened"


def make_append_only(metadata: MetaData) -> None:
    """Lets the triggers be created with the tables."""
    event.listen(metadata, "after_create", _create_triggers)


def _create_triggers(_metadata: MetaData, connection: Connection, **_options: object) -> None:
    refuse_changes(connection, "manifests", MANIFEST_IS_FINAL)
    refuse_changes(connection, "events", EVENT_IS_FINAL)


def refuse_changes(connection: Connection, table: str, message: str) -> None:
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
