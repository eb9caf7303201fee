from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from backfill_assets.core.clock import Clock
from backfill_assets.core.identity import document_digest
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.creation import PARTIAL_INDEXES
from backfill_assets.ledger.schema import HEAD_REVISION
from backfill_assets.ledger.store import MIGRATIONS, Ledger

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

SCHEMAS = {
    "0001": "b193aea4156eab334473c7648e57030f56fc6bf6ce58022d7e7bc3ef97a4b620",
}
"""The digest of the schema of each revision. After a release no digest changes: another schema is another revision."""


def schema_of(connection: Connection) -> list[tuple[str, ...]]:
    return [tuple(" ".join(str(part).split()) for part in row) for row in connection.execute(text(SQLITE_SCHEMA))]


def test_a_new_ledger_has_the_schema_of_the_newest_revision(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.open(url, clock=clock).close()
    engine = connect_engine(url)
    with engine.begin() as connection:
        found = schema_of(connection)
    engine.dispose()
    assert {index.name for index in PARTIAL_INDEXES} <= {name for kind, name, _ in found if kind == "index"}
    assert {"backfill_publications", "backfill_runs"} == {name for kind, name, _ in found if kind == "view"}
    assert document_digest(found) == SCHEMAS[HEAD_REVISION]


def test_the_declared_head_is_the_last_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD_REVISION
    assert Path(MIGRATIONS, "script.py.mako").exists()
