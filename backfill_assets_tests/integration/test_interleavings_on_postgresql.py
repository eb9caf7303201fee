"""The same races with the ledger in PostgreSQL: its transactions are other ones than SQLite's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from backfill_assets_tests.faults.interleavings import Races, Report, races

SEEDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """A database and the template that it is made from again."""

    server: str

    @property
    def url(self) -> str:
        return self.server.replace("/postgres?", "/raced?")

    def remember(self) -> None:
        self._execute("CREATE DATABASE unraced TEMPLATE raced")

    def bring_back(self) -> None:
        self._execute("DROP DATABASE raced WITH (FORCE)", "CREATE DATABASE raced TEMPLATE unraced")

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self.server, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@pytest.fixture(scope="module")
def game(postgres_server: str) -> Iterator[Races]:
    copies = Copies(server=postgres_server)
    copies._execute("CREATE DATABASE raced")
    with races(server=copies) as opened:
        yield opened
    copies._execute("DROP DATABASE raced WITH (FORCE)", "DROP DATABASE unraced")


@pytest.mark.long
def test_in_random_orders_nothing_is_amiss_with_the_ledger_in_postgresql(game: Races) -> None:
    report = Report()
    for seed in range(SEEDS):
        report.add(game.by_chance(seed))
    assert not report.failed, "\n".join(run.story for run in report.failed[:3])
    assert report.total == SEEDS


@pytest.mark.long
@pytest.mark.parametrize("pair", [("backfill", "recover")], ids=" x ".join)
def test_in_every_order_of_the_phases_nothing_is_amiss_with_the_ledger_in_postgresql(
    game: Races, pair: tuple[str, str]
) -> None:
    report = Report()
    for run in game.all_orders(pair):
        report.add(run)
    assert not report.failed, "\n".join(run.story for run in report.failed[:3])
