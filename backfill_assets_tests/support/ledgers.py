"""Where do the homes of tests keep their ledgers?

In a file of the home; or, when a server is named in the environment, each in a PostgreSQL database of its own. Copies
of homes and processes that a test starts find the database by the path of the home.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from backfill_assets_tests.support.lakes import copy_lake, lake_environment

SERVER = "BACKFILL_TEST_SERVER"
"""The URL of the server's database `postgres`; set by the fixture that starts it, and inherited by processes."""

_connections: list[psycopg.Connection] = []
"""Those of workspaces that tests open and drop; they are closed with their databases."""

_made: dict[str, Path] = {}
"""The databases that this process has made, with their homes."""


def in_postgresql() -> bool:
    """Whether homes keep their ledgers in PostgreSQL."""
    return bool(os.environ.get(SERVER))


def home_environment(home: Path) -> Mapping[str, str]:
    """What tells a process where ledger and lake of a home are; a database and a bucket are made if needed."""
    return {**_CLOCKS, **_ledger_environment(home), **lake_environment(home)}


_CLOCKS = {"BACKFILL_CLOCK_BEHIND_HOURS": "100000"}
"""Tests stop their clocks, and processes that they start have the time of day: each is behind the other."""


def _ledger_environment(home: Path) -> Mapping[str, str]:
    if not in_postgresql():
        return {}
    name = database_of(home)
    if name not in _made:
        with psycopg.connect(os.environ[SERVER], autocommit=True) as server:
            if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                server.execute(f"CREATE DATABASE {name}".encode())
                _made[name] = home.resolve()
    return {"BACKFILL_LEDGER_URL": url_of(os.environ[SERVER], name)}


def copy_home(template: Path, home: Path) -> Path:
    """A home of one's own, like the template, ledger included. No process may work in the template."""
    shutil.copytree(template, home)
    copy_lake(template, home)
    if in_postgresql():
        copy = database_of(home)
        # Workspaces that tests open and drop keep theirs, and PostgreSQL copies no database that is in use.
        _close_connections_to({database_of(template)})
        with psycopg.connect(os.environ[SERVER], autocommit=True) as server:
            server.execute(f"CREATE DATABASE {copy} TEMPLATE {database_of(template)}".encode())
        _made[copy] = home.resolve()
    return home


@event.listens_for(Pool, "connect")
def _remember(connection: object, _record: object) -> None:
    if in_postgresql() and isinstance(connection, psycopg.Connection):
        _connections.append(connection)


def forget_ledgers_below(folder: Path) -> None:
    """Drops the databases of the homes in a folder, and ends the connections to them."""
    gone = {name for name, home in _made.items() if home.is_relative_to(folder.resolve())}
    _close_connections_to(gone)
    if gone:
        with psycopg.connect(os.environ[SERVER], autocommit=True) as server:
            for name in gone:
                server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
                del _made[name]


def _close_connections_to(databases: Collection[str]) -> None:
    for connection in [each for each in _connections if each.closed or each.info.dbname in databases]:
        connection.close()
        _connections.remove(connection)


def database_of(home: Path) -> str:
    """The name of a home's database."""
    return "home_" + hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]


def url_of(server: str, database: str) -> str:
    """The URL of a database on the tests' server."""
    return server.replace("/postgres?", f"/{database}?")


def only_with_sqlite(why: str) -> None:
    """Skips a test that is about the file of a SQLite ledger."""
    if in_postgresql():
        pytest.skip(f"only with the ledger in SQLite: {why}")
