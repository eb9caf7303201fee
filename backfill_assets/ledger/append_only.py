"""Append-only tables: manifests and events, which triggers of the database protect from changes."""

from __future__ import annotations

from sqlalchemy import Connection, MetaData, event

MANIFEST_IS_FINAL = "a manifest never changes: a correction is a new manifest"
EVENT_IS_FINAL = "an event never changes: what happened has happened"


def _refusing_triggers(table: str, message: str) -> dict[str, tuple[str, ...]]:
    """The statements, by database, that make a table append-only."""
    sqlite = tuple(
        f"CREATE TRIGGER {table}_refuse_{verb} BEFORE {verb.upper()} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
        for verb in ("update", "delete")
    )
    postgresql = (
        f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{message}'; END $$",
        f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
        f"CREATE TRIGGER {table}_refuse_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()",
    )
    return {"sqlite": sqlite, "postgresql": postgresql}


def make_append_only(metadata: MetaData) -> None:
    """Lets the triggers be created with the tables."""
    event.listen(metadata, "after_create", _create_triggers)


def _create_triggers(_metadata: MetaData, connection: Connection, **_options: object) -> None:
    for table, message in (("manifests", MANIFEST_IS_FINAL), ("events", EVENT_IS_FINAL)):
        for statement in _refusing_triggers(table, message)[connection.dialect.name]:
            connection.exec_driver_sql(statement)
