"""What integration tests may ask for: a PostgreSQL server, and a ledger on either database."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from backfill_assets.clock import Clock
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.integration.postgres_server import NoPostgres, running_server

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL, without a database of its own for anybody."""
    try:
        with running_server() as url:
            yield url
    except NoPostgres as reason:
        pytest.skip(f"POSTGRESQL IS NOT TESTED: {reason}")


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield postgres_server.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that nobody has opened yet, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'deep' / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def ledger(ledger_url: str, clock: Clock) -> Iterator[Ledger]:
    opened = Ledger.open(ledger_url, clock=clock)
    yield opened
    opened.close()
