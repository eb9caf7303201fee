"""Records what Debezium writes of a table, with `Feed.java`: for a test that lands it, or by hand, into a new folder.

tools/setup.sh debezium
python -m backfill_assets_tests.support.debezium.record FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from backfill_assets.examples.kafka_broker import cache
from backfill_assets_tests.support.source_database import PASSWORD, SourceDatabase, running_source

WITHIN_S = 500
FEEDS = ("plain", "wrapped")
TABLE = """CREATE TABLE public.orders (order_id integer PRIMARY KEY, ordered_at timestamptz NOT NULL,
    amount numeric(12,2), placed timestamp, placed_ms timestamp(3), due date, paid boolean, weight double precision,
    photo bytea, extra jsonb, note text)"""
ORDER = """INSERT INTO orders VALUES (%s, %s, %s, '2026-07-01 08:30:00.123456', '2026-07-01 08:30:00.123',
    '2026-08-01', true, 0.1, '\\x00ff10', '{"a": [1, 2.50]}', %s)"""


class NoDebezium(Exception):
    """Its engine is not there."""


def record(folder: Path) -> None:
    """Records both feeds and the states of the table into a new folder.

    Raises:
        NoDebezium: Its engine is not there.
        NoPostgres: There is no server to start.
    """
    jars = cache() / "debezium"
    if not list(jars.glob("debezium-embedded-*.jar")):
        raise NoDebezium("Debezium is not there; `tools/setup.sh debezium` fetches it, for which it needs Maven")
    folder.mkdir()
    with running_source(timezone="UTC") as server:
        database = server.create_database()
        with connected(server, database) as own, connected(server, database) as other:
            own.execute(TABLE)
            own.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
            insert(own, 1)
            insert(own, 2, "-0.01")
            insert(own, 3, "9999999999.99", "a long note " * 180)
            java = ["java", "-cp", f"{jars}/*", str(Path(__file__).with_name("Feed.java"))]
            told = [str(server.port), database, PASSWORD, str(folder)]
            feed = subprocess.Popen([*java, *told], stdin=subprocess.PIPE)
            try:
                states = list(story(own, other, folder))
            finally:
                assert feed.stdin is not None
                feed.stdin.close()
                feed.wait(60)
    (folder / "states.jsonl").write_text("".join(f"{json.dumps(state)}\n" for state in states))


def story(own: Connection[Any], other: Connection[Any], folder: Path) -> Any:
    """Changes the table, and gives its rows each time when both feeds have what was changed."""
    records = 0

    def seen(after: str, more: int) -> Any:
        nonlocal records
        records += more
        until = time.monotonic() + WITHIN_S
        while min(map(many, FEEDS)) < records:
            assert time.monotonic() < until, f"{after}: the feeds do not have {records} records"
            time.sleep(0.2)
        time.sleep(1.5)
        assert set(map(many, FEEDS)) == {records}, after
        rows = own.execute("SELECT to_jsonb(o)::text FROM orders o ORDER BY order_id").fetchall()
        return {"after": after, "records": records, "rows": [json.loads(row[0], parse_float=str) for row in rows]}

    def many(feed: str) -> int:
        path = folder / f"{feed}.jsonl"
        return len(path.read_text("utf-8").splitlines()) if path.exists() else 0

    yield seen("snapshot", 3)
    insert(own, 4, "128.00")
    yield seen("insert of 4", 1)
    own.execute("UPDATE orders SET amount = -128.00, weight = 'NaN' WHERE order_id = 2")
    yield seen("update of 2", 1)
    with own.transaction():
        own.execute("UPDATE orders SET paid = NULL, photo = NULL, extra = NULL, due = NULL WHERE order_id = 1")
        insert(own, 5, None)
        own.execute("DELETE FROM orders WHERE order_id = 2")
    yield seen("update of 1, insert of 5, delete of 2", 4)
    own.execute("UPDATE orders SET order_id = 40 WHERE order_id = 4")
    yield seen("key of 4 becomes 40", 3)
    insert(own, 2, "2.00")
    yield seen("insert of 2", 1)
    with own.transaction(force_rollback=True):
        insert(own, 6)
    with other.transaction():
        insert(other, 8)
        insert(own, 9)
        other.execute("UPDATE orders SET amount = 9.99 WHERE order_id = 9")
    yield seen("two transactions that overlap", 3)
    own.execute("UPDATE orders SET amount = 3.33 WHERE order_id = 3")
    yield seen("update of 3 that leaves its long note", 1)
    own.execute("ALTER TABLE orders ADD COLUMN channel text")
    insert(own, 6)
    own.execute("UPDATE orders SET channel = 'web' WHERE order_id = 6")
    yield seen("a column is added", 2)
    own.execute("TRUNCATE orders")
    yield seen("truncate", 1)
    insert(own, 3, "3.00", "another note " * 170)
    insert(own, 7)
    yield seen("inserts of 3 and 7", 2)
    own.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    own.execute("UPDATE orders SET amount = 4.00 WHERE order_id = 3")
    yield seen("update of 3 with REPLICA IDENTITY FULL", 1)
    own.execute("DELETE FROM orders WHERE order_id = 7")
    yield seen("delete of 7 with REPLICA IDENTITY FULL", 2)


def connected(server: SourceDatabase, database: str) -> Connection[Any]:
    """A connection of the user who owns the table."""
    return psycopg.connect(
        host="127.0.0.1", port=server.port, user="capture", password=PASSWORD, dbname=database, autocommit=True
    )


def insert(connection: Connection[Any], number: int, amount: str | None = "1.25", note: str = "short") -> None:
    """Inserts an order."""
    ordered_at = f"2026-07-{number % 9 + 1:02} 10:00:00.123456+02"
    connection.execute(ORDER, (number, ordered_at, amount, note))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
