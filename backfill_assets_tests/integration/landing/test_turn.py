"""One process at a time has the turn to land files of a source, on whatever machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import NamedTuple

import pytest

from backfill_assets.core import progress
from backfill_assets.core.clock import system_clock
from backfill_assets.core.errors import Retryable, TakenOver
from backfill_assets.core.lease import LeaseTerms, this_process
from backfill_assets.core.settings import Settings
from backfill_assets.landing.attempt import TurnTaken, landing_turn
from backfill_assets.ledger import connection
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.landing_examples import EVENTS

LONG = timedelta(minutes=2)


class Room(NamedTuple):
    """A ledger, and turns in it by the name of an attempt."""

    ledger: Ledger

    def turn(self, attempt: str = "other", *, machine: str = "", length: timedelta = LONG) -> LeaseTerms:
        return LeaseTerms(attempt=attempt, length=length, machine=machine or this_process())

    def takes(self, terms: LeaseTerms) -> bool:
        with self.ledger.write() as tx:
            return tx.turns.take(EVENTS.name, terms, holder="ada")

    def can_be_taken(self) -> bool:
        try:
            with landing_turn(self.ledger, EVENTS, self.turn("looks"), by="ben", wait=False):
                return True
        except TurnTaken:
            return False


@pytest.fixture
def room(settings: Settings) -> Iterator[Room]:
    settings.home.mkdir(parents=True)
    with closing(Ledger.open(settings.ledger_url, clock=system_clock)) as ledger:
        yield Room(ledger)


def test_the_turn_is_given_back_at_the_end_and_after_an_error(room: Room) -> None:
    with landing_turn(room.ledger, EVENTS, room.turn(), by="ada"):
        assert not room.can_be_taken()
    assert room.can_be_taken()
    with pytest.raises(KeyboardInterrupt), landing_turn(room.ledger, EVENTS, room.turn(), by="ada"):
        raise KeyboardInterrupt
    assert room.can_be_taken()


def test_the_turn_of_a_process_of_another_machine_holds_until_its_lease_ends(room: Room) -> None:
    assert room.takes(room.turn(machine="elsewhere:1"))
    assert not room.can_be_taken()
    assert room.takes(room.turn()) is False
    with room.ledger.write() as tx:
        tx.turns.give_back(EVENTS.name, room.turn("a third one"))  # which does not have it
    assert not room.can_be_taken()


def test_a_turn_that_is_not_renewed_ends(room: Room) -> None:
    assert room.takes(room.turn(machine="elsewhere:1", length=timedelta(milliseconds=300)))
    began = time.monotonic()
    with landing_turn(room.ledger, EVENTS, room.turn(), by="ben"):
        assert time.monotonic() - began > 0.2


def test_a_turn_is_renewed_while_it_is_held(room: Room) -> None:
    with landing_turn(room.ledger, EVENTS, room.turn(length=timedelta(seconds=1)), by="ada"):
        time.sleep(1.5)
        assert not room.can_be_taken()


def test_the_turn_of_a_killed_process_of_this_machine_is_free_at_once(room: Room) -> None:
    host = this_process().rpartition(":")[0]
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert room.takes(room.turn(machine=f"{host}:{process.pid}"))
        assert not room.can_be_taken()
        process.kill()
    assert room.can_be_taken()


def test_who_waits_comes_next(room: Room) -> None:
    order: list[str] = []

    def wait() -> None:
        with landing_turn(room.ledger, EVENTS, room.turn("second"), by="ben"):
            order.append("second")

    with landing_turn(room.ledger, EVENTS, room.turn("first"), by="ada"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.5)
        order.append("first")
    waiting.join(timeout=20)
    assert order == ["first", "second"]


def test_who_waits_for_the_turn_or_the_ledger_says_for_whom(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SAID_AFTER_S", 0.1)
    heard: list[str] = []
    host, told = this_process().rpartition(":")[0], threading.Event()

    def hear(sentence: str) -> None:
        heard.append(sentence)
        told.set()

    def waits(act: Callable[[], object]) -> str:
        told.clear()
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        assert told.wait(20)
        waiters.append(thread)
        return heard[-1]

    def land() -> None:
        with landing_turn(room.ledger, EVENTS, room.turn("second"), by="ben"):
            pass

    waiters: list[threading.Thread] = []
    with progress.hearing_waits(hear):
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "land"]) as process:
            assert room.takes(room.turn(machine=f"{host}:{process.pid}"))
            said = waits(land)
            process.kill()
        assert said.startswith(
            f"waiting for the turn to land files of {EVENTS.name}, which has: ada, {host}:{process.pid}"
        )
        assert "sleep(60) land), since 20" in said

        with another_writer(room.ledger) as number:
            said = waits(room.ledger.try_writing)
        assert said.startswith("waiting for the turn to write the ledger, which has: ")
        assert re.search(rf":{number} \(.*\), since 20", said)
        for each in waiters:
            each.join(timeout=20)


@pytest.mark.long
def test_who_waited_too_long_for_the_ledger_is_told_which_process_has_it_and_since_when(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WAIT_SECONDS", 1)
    monkeypatch.setattr(connection, "SQLITE_PRAGMAS", (*connection.SQLITE_PRAGMAS, "PRAGMA busy_timeout = 300"))
    url = room.ledger._engine.url.render_as_string(hide_password=False)
    with another_writer(room.ledger) as number:
        os.kill(number, signal.SIGSTOP)
        said = rf"did not end its turn to write: .*:{number} \(.*\), since 20"
        try:
            with (
                closing(Ledger.open(url, clock=system_clock)) as impatient,
                pytest.raises(Retryable, match=said) as failed,
            ):
                impatient.try_writing()
        finally:
            os.kill(number, signal.SIGCONT)
        assert "end it if it stands still" in advised(failed.value)


def test_another_program_that_has_the_turn_of_sqlite_is_not_said_to_have_it_since_an_earlier_turn(room: Room) -> None:
    database = room.ledger._engine.url.database
    if room.ledger._engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL says of any program since when it writes")
    room.ledger.try_writing()
    script = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('BEGIN IMMEDIATE'); print(1, flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        said = connection.who_writes(room.ledger._engine)
    assert f":{process.pid} (" in said and "since" not in said


@contextmanager
def another_writer(ledger: Ledger) -> Iterator[int]:
    """Another process in its writing transaction; its number."""
    url = ledger._engine.url.render_as_string(hide_password=False)
    script = f"""
import sys
from backfill_assets.core import progress
from backfill_assets.core.clock import system_clock
from backfill_assets.ledger.store import Ledger
with Ledger.open({url!r}, clock=system_clock).write() as tx:
    print("writing", flush=True)
    sys.stdin.read()
    sys.exit()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process.pid


def test_who_lost_the_turn_can_record_nothing(room: Room) -> None:
    lost = room.turn("lost", length=timedelta(0))
    assert room.takes(lost)
    with (
        landing_turn(room.ledger, EVENTS, room.turn(), by="ben"),
        pytest.raises(TakenOver, match="turn to land"),
        room.ledger.write() as tx,
    ):
        tx.turns.require(EVENTS.name, lost)
    with room.ledger.read() as reader:
        assert reader.leases.every() == {}
