"""The ledger's database goes away in the middle: one sentence, nothing half done, and work goes on when it is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from backfill_assets.application.recover import recover
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import OutcomeUnknown, Refused, Retryable
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.ledger_examples import DAYS, a_manifest
from backfill_assets_tests.support.number_examples import (
    NUMBERS,
    gated,
    must_agree,
    numbers_seen,
    publish_numbers,
    workspace_of_numbers,
)
from backfill_assets_tests.support.seams import Seam

TABLE = "silver.recent_sales"


class Database:
    """The ledger's database, which a test can stop."""

    def __init__(self, server: str, url: str) -> None:
        self.server = server
        self.url = url
        self.name = url.partition("@/")[2].partition("?")[0]

    def cut(self) -> None:
        """Ends every connection; new ones can be made."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", [self.name]
            )

    def go_away(self) -> None:
        """Ends every connection and refuses new ones."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false".encode())
        self.cut()

    def come_back(self) -> None:
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true".encode())

    @contextmanager
    def gone(self) -> Iterator[None]:
        self.go_away()
        try:
            yield
        finally:
            self.come_back()


@pytest.fixture
def database(postgres_server: str, postgres_url: str) -> Database:
    return Database(postgres_server, postgres_url)


@pytest.fixture
def ledger(database: Database, clock: Clock) -> Iterator[Ledger]:
    opened = Ledger.open(database.url, clock=clock)
    yield opened
    opened.close()


def say(writer: WriteTransaction, what: str) -> None:
    writer.events.record(actor="ann", entity="test", entity_id="test", action=what)


def said(ledger: Ledger) -> list[str]:
    with ledger.read() as reader:
        assert reader.events.violations() == ()
        return [event.action for event in reader.events.entries()]


@pytest.mark.long
def test_a_connection_lost_in_the_middle_of_writing_changes_nothing(ledger: Ledger, database: Database) -> None:
    with ledger.write() as writer:
        say(writer, "before")
    with pytest.raises(Retryable, match="nothing was changed in it"), ledger.write() as writer:
        say(writer, "lost")
        writer.runs.add(a_manifest("lost"), actor="ann")
        database.cut()
        say(writer, "lost too")
    assert said(ledger) == ["before"]
    with ledger.write() as writer:
        say(writer, "after")
    assert said(ledger) == ["before", "after"]


def test_a_connection_lost_while_committing_may_have_changed_everything_or_nothing(
    ledger: Ledger, database: Database
) -> None:
    with refused(OutcomeUnknown, match=r"while it was committing.*backfill recover"), ledger.write() as writer:
        say(writer, "who knows")
        database.cut()
    assert said(ledger) in ([], ["who knows"])
    with ledger.write() as writer:
        say(writer, "after")
    assert said(ledger)[-1] == "after"


def test_a_connection_lost_while_reading_is_one_sentence(ledger: Ledger, database: Database) -> None:
    with pytest.raises(Retryable, match="could not be used"), ledger.read() as reader:
        reader.events.head()
        database.cut()
        reader.events.head()
    assert said(ledger) == []


def test_connections_that_were_lost_while_unused_are_replaced_silently(ledger: Ledger, database: Database) -> None:
    said(ledger)
    database.cut()
    with ledger.write() as writer:
        say(writer, "after")
    assert said(ledger) == ["after"]


def test_while_the_database_is_away_everything_is_refused_and_afterwards_nothing(
    ledger: Ledger, database: Database, clock: Clock
) -> None:
    with database.gone():
        with pytest.raises(Retryable, match="could not be used"), ledger.write() as writer:
            say(writer, "never")
        with pytest.raises(Retryable, match="could not be used"), ledger.read():
            pass
        with pytest.raises(Refused, match="cannot be used"):
            Ledger.open(database.url, clock=clock)
    with ledger.write() as writer:
        say(writer, "after")
    assert said(ledger) == ["after"]


def test_a_writer_whose_backend_was_asked_to_cancel_changes_nothing(ledger: Ledger) -> None:
    with pytest.raises(Retryable, match="nothing was changed in it"), ledger.write() as writer:
        say(writer, "lost")
        writer.events._connection.execute(text("SET LOCAL statement_timeout = 10"))
        writer.events._connection.execute(text("SELECT pg_sleep(10)"))
    assert said(ledger) == []


@pytest.fixture
def opened(tmp_path: Path, database: Database, clock: Clock) -> Iterator[Callable[..., Workspace]]:
    """Opens workspaces over the database, each with something that happens at one point."""
    made: list[Workspace] = []

    def open_with(when: Point | None = None, then: Callable[[], None] = lambda: None) -> Workspace:
        def reached(point: Point) -> None:
            if point is when:
                then()

        ws = workspace_of_numbers(tmp_path / "home", database.url, clock, reached)
        ws.lake.ensure(TABLE, NUMBERS, "day")
        made.append(ws)
        return ws

    yield open_with
    for ws in made:
        ws.ledger.close()


def test_a_ledger_that_is_away_when_the_swap_has_landed_is_updated_by_recover(
    opened: Callable[..., Workspace], database: Database
) -> None:
    ws = opened(Point.SWAP_COMMITTED, database.go_away)
    candidates = gated(ws, "bf-1", TABLE, DAYS, 1)
    try:
        with refused(OutcomeUnknown, match=r"readers see it.*backfill recover"):
            publish_numbers(ws, candidates)
    finally:
        database.come_back()
    assert numbers_seen(ws, TABLE) == dict.fromkeys(DAYS, 1)
    with ws.ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.PUBLISHING
    (found,) = recover(ws, by="ops")
    assert "had landed" in found.outcome
    with ws.ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.PUBLISHED
    must_agree(ws, [TABLE])


def test_a_ledger_that_is_away_when_the_swap_was_refused_is_updated_by_recover(
    opened: Callable[..., Workspace], database: Database
) -> None:
    ws = opened()
    candidates = gated(ws, "bf-1", TABLE, DAYS, 1)

    def refuse(*args: object, **more: object) -> int:
        database.go_away()
        raise Refused("a partition is not what it was.")

    said = r"a partition is not what it was.*nothing was published.*backfill recover"
    try:
        with pytest.MonkeyPatch.context() as patch, refused(OutcomeUnknown, match=said):
            Seam.SWAP_OF_PUBLICATIONS.put(patch, refuse)
            publish_numbers(ws, candidates)
    finally:
        database.come_back()
    assert numbers_seen(ws, TABLE) == {}
    recover(ws, by="ops")
    with ws.ledger.read() as reader:
        assert [record.state for record in reader.publications.records()] == [PublicationState.ABANDONED]
        assert reader.runs.get("bf-1").state is RunState.PASSED
    assert publish_numbers(ws, candidates).state is PublicationState.PUBLISHED
    must_agree(ws, [TABLE])
