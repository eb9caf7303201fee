from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from backfill_assets.core.clock import Clock
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.partial_indexes import PARTIAL_INDEXES
from backfill_assets.ledger.schema import HEAD_REVISION, metadata
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.upgrade import MIGRATIONS

SQLITE_SCHEMA = """
SELECT 'column' AS kind, m.name || '.' || c.name AS name,
       c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk AS definition
FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table' AND m.name <> 'alembic_version'
UNION ALL
SELECT 'reference', m.name || '.' || f."from", f."table" || '.' || f."to"
FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table'
UNION ALL
SELECT type, name, sql FROM sqlite_master WHERE tbl_name <> 'alembic_version'
ORDER BY 1, 2
"""

POSTGRES_SCHEMA = """
SELECT 'column' AS kind, table_name || '.' || column_name AS name,
       concat_ws(' ', data_type, character_maximum_length, is_nullable, column_default) AS definition
FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
UNION ALL
SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 'alembic_version'::regclass
UNION ALL
SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
UNION ALL
SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'function', proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY 1, 2
"""


def schema_of(connection: Connection) -> list[tuple[str, ...]]:
    query = SQLITE_SCHEMA if connection.dialect.name == "sqlite" else POSTGRES_SCHEMA
    return [tuple(" ".join(str(part).split()) for part in row) for row in connection.execute(text(query))]


def test_the_migrations_build_exactly_the_declared_schema(ledger_url: str, clock: Clock) -> None:
    Ledger.open(ledger_url, clock=clock).close()
    engine = connect_engine(ledger_url)
    with engine.begin() as connection:
        migrated = schema_of(connection)
        for table in ("manifests", "events"):
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"DROP FUNCTION {table}_refuse CASCADE"))
        metadata.drop_all(connection)
        assert [row for row in schema_of(connection) if row[0] in ("table", "column", "trigger")] == []
        metadata.create_all(connection)
        declared = schema_of(connection)
    engine.dispose()
    assert len(declared) > 25
    assert {index.name for index in PARTIAL_INDEXES} <= {row[1] for row in declared}
    assert migrated == declared


def test_the_declared_head_is_the_last_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD_REVISION
    assert Path(MIGRATIONS, "script.py.mako").exists()
