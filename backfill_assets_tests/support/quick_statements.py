"""How does a test avoid writing the same SQL again for every ledger that it opens?

An engine writes every statement as SQL once. A process of tests opens thousands of engines, all for the same SQLite and
with the same settings, so that what one has written serves the others as well.
"""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

MOST_STATEMENTS = 2_000


def remember_statements() -> None:
    """From now on, in this process: engines of one kind of database share what they have written."""
    written: LRUCache[object, object] = LRUCache(MOST_STATEMENTS)
    Engine._compiled_cache = property(lambda _engine: written, lambda _engine, _own: None)  # type: ignore[assignment]
    # Statements are remembered by their dialect, of which every engine has its own.
    SQLiteDialect_pysqlite.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]
    SQLiteDialect_pysqlite.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
