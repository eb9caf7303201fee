"""A PostgreSQL whose tables are captured: over loopback, with a user who needs a password."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from backfill_assets.core.spark_server import free_port
from backfill_assets_tests.support.postgres_server import running_server

USER, PASSWORD = "capture", "a-password-that-nothing-may-show"
_numbers = count(1)


@dataclass(frozen=True, kw_only=True)
class SourceDatabase:
    """A running server."""

    url: str  #: Of its superuser, over a socket.
    port: int  #: Where the user of captures connects.

    def connect(self, database: str = "postgres") -> Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url, autocommit=True, dbname=database)

    def kill(self) -> None:
        """Ends the server and its children at once, as a crash does, and returns when it is gone."""
        with self.connect() as connection:
            (folder,) = connection.execute("SHOW data_directory").fetchone() or ()
        its_file = Path(folder, "postmaster.pid")
        os.kill(int(its_file.read_text().split()[0]), signal.SIGQUIT)
        ends_by = time.monotonic() + 30
        while its_file.exists():  # removed as the last thing it does; who stops a cluster must not meet it half-ended
            assert time.monotonic() < ends_by, "the server that was killed does not end"
            time.sleep(0.02)

    def create_database(self, *, encoding: str = "UTF8") -> str:
        """A new database in which the user of captures owns what is made in it."""
        name = f"shop{next(_numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} OWNER {USER} ENCODING {encoding} TEMPLATE template0".encode())
        return name


@contextmanager
def running_source(**settings: str) -> Iterator[SourceDatabase]:
    """A server while the block lasts.

    Raises:
        NoPostgres: There is none, or it does not start.
    """
    port = free_port()
    wanted = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "wal_level": "logical",
        "max_replication_slots": "50",
        "max_wal_senders": "20",
        **settings,
    }
    with running_server(settings=wanted, host_auth="scram-sha-256") as url:
        server = SourceDatabase(url=f"{url}&port={port}", port=port)
        with server.connect() as connection:
            connection.execute(f"CREATE ROLE {USER} LOGIN REPLICATION PASSWORD '{PASSWORD}'".encode())
        yield server
