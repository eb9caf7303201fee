"""A real PostgreSQL, and shops whose sales are a table of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets_tests.support.database_shop import (
    NEW,
    TABLE,
    DatabaseShop,
    ShopOf,
)
from backfill_assets_tests.support.postgres_server import NoPostgres
from backfill_assets_tests.support.source_database import PASSWORD, SourceDatabase, running_source


@pytest.fixture(autouse=True)
def the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SHOP_PASSWORD", PASSWORD)


@pytest.fixture(scope="module")
def server() -> Iterator[SourceDatabase]:
    try:
        with running_source() as started:
            yield started
    except NoPostgres as reason:
        pytest.skip(f"CAPTURES FROM POSTGRESQL ARE NOT TESTED: {reason}")


@pytest.fixture
def shop_of(server: SourceDatabase, tmp_path: Path) -> ShopOf:
    """A shop over a new database, with some sales unless said otherwise."""

    def opened(*statements: str, sales: int = 10, spark: SparkSession | None = None, **declared: Any) -> DatabaseShop:
        shop = DatabaseShop(
            home=tmp_path / "home", server=server, database=server.create_database(), spark=spark, declared=declared
        )
        shop.run(*(statements or (TABLE,)), f"{NEW} FROM generate_series(1, {sales}) i")
        return shop

    return opened


@pytest.fixture
def nothing_lands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is captured stays a file: these tests are about the files, and need no Spark."""
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)
