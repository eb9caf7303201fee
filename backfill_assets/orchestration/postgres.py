"""Dagster's runs and events in PostgreSQL.

In a schema of its own, so that one database holds both the ledger and Dagster's tables; both have a table `runs`. The
module needs the extra `postgres`, so only `storage` imports it, and only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage

from backfill_assets.core.progress import waiting
from backfill_assets.ledger.errors import Unusable
from backfill_assets.orchestration.dagster_internals import ConfigurableClassData, DagsterStorage
from backfill_assets.orchestration.event_log import BatchedEventLog, LivePools, TableColours

SCHEMA = "dagster"
"""Where Dagster's tables are, unless the URL sets a `search_path` itself."""

SETUP_LOCK = 7_305_112_025
"""Any number that no other program takes as an advisory lock in the same PostgreSQL database."""


class PostgresEventLog(TableColours, LivePools, BatchedEventLog, PostgresEventLogStorage):
    """Dagster's PostgreSQL event log, able to put many events into one transaction."""

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        with self.shared("", self._one) as connection:
            yield connection

    @contextmanager
    def _one(self, _shard: str) -> Iterator[Any]:
        with super()._connect() as connection:
            if not self.is_in_batch():
                yield connection
                return
            # The engine commits every statement by itself; a batch is one transaction.
            with connection.execution_options(isolation_level="READ COMMITTED").begin():
                yield connection


class PostgresStorage(DagsterPostgresStorage):
    """Dagster's PostgreSQL storage with events in batches."""

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(postgres_url, inst_data=inst_data)
        self._event_log_storage = PostgresEventLog(postgres_url, inst_data=inst_data)


def open_storage(url: str, inst_data: ConfigurableClassData | None = None) -> DagsterStorage:
    """Dagster's storage in a database, its schema and tables made when they are not there.

    Raises:
        Refused: The database cannot be reached, or may not be written.
    """
    address = _in_schema(url)
    try:
        with psycopg.connect("postgresql" + address, autocommit=True, connect_timeout=10) as connection:
            # A webserver, a daemon and a command may come first at the same time.
            with waiting(lambda: "waiting for the turn to set up Dagster's database, which another process has"):
                connection.execute("SELECT pg_advisory_lock(%s)", [SETUP_LOCK])
            if connection.execute("SELECT current_schema()").fetchone() == (None,):
                connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
            # Dagster's statements are written for this driver.
            return PostgresStorage("postgresql+psycopg2" + address, inst_data)
    except psycopg.Error as error:
        # The URL may hold a password, so it is not repeated.
        raise Unusable(
            what="the PostgreSQL database of Dagster's runs",
            why=str(error).strip(),
            setting="BACKFILL_DAGSTER_URL (without it, BACKFILL_LEDGER_URL)",
        ) from error


def _in_schema(url: str) -> str:
    """The URL from `://` on, with our schema in its options when they name none."""
    place, _, query = url.partition("://")[2].partition("?")
    asked = parse_qsl(query, keep_blank_values=True)
    options = " ".join(value for name, value in asked if name == "options")
    if "search_path" not in options:
        options = f"{options} -c search_path={SCHEMA}".strip()
    others = [(name, value) for name, value in asked if name != "options"]
    return f"://{place}?{urlencode([*others, ('options', options)], quote_via=quote, safe='/')}"
