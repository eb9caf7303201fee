"""The tables and indexes of the ledger, as both databases make them and as recorded (`support/recorded.py`)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement
from syrupy.assertion import SnapshotAssertion

from backfill_assets.ledger.creation import PARTIAL_INDEXES
from backfill_assets.ledger.schema import metadata

DIALECTS: Mapping[str, Dialect] = {"sqlite": SQLiteDialect(), "postgresql": PGDialect()}  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", DIALECTS)
def test_the_ledger_has_the_tables_that_are_recorded(name: str, recorded: SnapshotAssertion) -> None:
    statements: list[DDLElement] = []
    for table in sorted(metadata.tables.values(), key=lambda table: table.name):
        found = {*table.indexes, *(index for index in PARTIAL_INDEXES if index.table is table)}
        indexes = sorted(found, key=lambda index: str(index.name))
        statements += [CreateTable(table), *map(CreateIndex, indexes)]
    texts = [str(each.compile(dialect=DIALECTS[name])).strip() for each in statements]
    lines = "\n\n".join(f"{text};" for text in texts).splitlines()
    assert "".join(f"{line.rstrip()}\n" for line in lines) == recorded(name=f"ledger/{name}.sql")
