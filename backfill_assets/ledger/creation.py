"""Creation: makes an empty database a ledger, and tells whether an existing one is as it was created."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    insert,
    text,
)
from sqlalchemy.exc import DBAPIError

from backfill_assets.ledger.connection import READ, UPGRADE, database_message, transaction
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

# Creation: makes an empty database a ledger, at the newest revision of the schema.
#
# Only loaded for a new ledger: to declare a partial index, SQLAlchemy loads the dialects of both databases.


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
"""The table in which Alembic looks for the revision of a database."""


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


# Catalog: whether the tables, constraints, indexes, triggers and views of a ledger are those that it was created
# with.
#
# A trigger that was dropped refuses no edit any more, a unique index no second open publication, and a view that
# was replaced tells its readers something else: no row is changed by that. So the definitions in the database are
# compared with those of a new ledger in the same database program, of which nothing is left.

Definitions = Mapping[tuple[str, str], str]
"""The definition of each object in the database, by kind and name."""

_SQLITE = """
SELECT 'column' AS kind, m.name || '.' || c.name AS name, m.name AS of_table,
       c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk AS definition
FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'
UNION ALL
SELECT 'reference', m.name || '.' || f."from", m.name, f."table" || '.' || f."to"
FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table'
UNION ALL
SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL
"""

_POSTGRESQL = """
WITH own AS (
    SELECT c.oid, c.relname, c.relkind FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
)
SELECT 'column' AS kind, o.relname || '.' || a.attname AS name, o.relname AS of_table,
       format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
       || coalesce(pg_get_expr(d.adbin, d.adrelid), '') AS definition
FROM own o JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
     LEFT JOIN pg_attrdef d ON d.adrelid = o.oid AND d.adnum = a.attnum
WHERE o.relkind = 'r'
UNION ALL
SELECT 'constraint', o.relname || '.' || k.conname, o.relname, pg_get_constraintdef(k.oid) || ' ' || k.convalidated
FROM own o JOIN pg_constraint k ON k.conrelid = o.oid
UNION ALL
SELECT 'index', i.relname, o.relname, pg_get_indexdef(x.indexrelid) || ' ' || x.indisvalid
FROM own o JOIN pg_index x ON x.indrelid = o.oid JOIN pg_class i ON i.oid = x.indexrelid
UNION ALL
SELECT 'trigger', o.relname || '.' || t.tgname, o.relname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
FROM own o JOIN pg_trigger t ON t.tgrelid = o.oid AND NOT t.tgisinternal
UNION ALL
SELECT 'rule', o.relname || '.' || r.rulename, o.relname, pg_get_ruledef(r.oid)
FROM own o JOIN pg_rewrite r ON r.ev_class = o.oid AND o.relkind = 'r'
UNION ALL
SELECT 'view', o.relname, o.relname, pg_get_viewdef(o.oid) FROM own o WHERE o.relkind = 'v'
UNION ALL
SELECT 'function', p.proname, '', p.prosrc FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
"""

_OF_TABLES = ("trigger", "rule", "index", "column", "constraint", "reference")
"""Of these kinds, a table of the ledger has none besides its own; others may add tables and views of their own."""


def changed_definitions(engine: Engine) -> Iterator[str]:
    """The definitions that were dropped, replaced or added in the database of a ledger, one sentence each. Changes
    nothing."""
    with transaction(engine, READ) as connection:
        present = _definitions(connection)
    try:
        declared = _declared(engine)
    except DBAPIError as error:
        yield f"the definitions of the ledger's database cannot be compared: {database_message(error)}."
        return
    for (kind, name), definition in declared.items():
        if (kind, name) not in present:
            yield f"the {kind} {name} of the ledger's database was dropped."
        elif present[kind, name] != definition:
            yield f"the {kind} {name} of the ledger's database was replaced."
    for kind, name in sorted(present.keys() - declared.keys()):
        if kind in _OF_TABLES:
            yield f"the {kind} {name} was added to the ledger's database."


def _declared(engine: Engine) -> Definitions:
    """The definitions of a new ledger."""
    if engine.dialect.name == "sqlite":
        scratch = create_engine("sqlite://")
        try:
            with scratch.begin() as connection:
                create(connection)
                return _definitions(connection)
        finally:
            scratch.dispose()
    with engine.connect().execution_options(**UPGRADE["postgresql"]) as connection, connection.begin() as whole:
        schema = f"backfill_audit_{secrets.token_hex(4)}"
        connection.execute(text(f"CREATE SCHEMA {schema}"))
        connection.execute(text(f"SET LOCAL search_path = {schema}"))
        create(connection)
        found = _definitions(connection)
        whole.rollback()
        return found


def _definitions(connection: Connection) -> Definitions:
    is_sqlite = connection.dialect.name == "sqlite"
    rows = connection.execute(text(_SQLITE if is_sqlite else _POSTGRESQL)).all()
    schema = "main" if is_sqlite else connection.execute(text("SELECT current_schema()")).scalar_one()
    found = {(row.kind, row.name): _plain(row.definition, schema) for row in rows if _is_of_ledger(row)}
    return {named: _dumped(each) if named[0] == "constraint" else each for named, each in found.items()}


def _is_of_ledger(row: Any) -> bool:
    """True if an object belongs to a table of the ledger, or is a view or a function."""
    return row.kind not in (*_OF_TABLES, "table") or row.of_table in metadata.tables


def _plain(definition: str, schema: str) -> str:
    return " ".join(re.sub(rf'"?\b{re.escape(schema)}\b"?\.', "", definition).split())


def _dumped(constraint: str) -> str:
    """A constraint as PostgreSQL prints it once it was dumped and restored: the casts of a list of texts have moved
    from the list to each of them."""
    without = re.sub(r"::(character varying|text)(\[\])?", "", constraint)
    return re.sub(r"\(\((ARRAY\[[^\]]*\])\)\)", r"(\1)", re.sub(r"\(('[^']*')\)", r"\1", without))
