"""Twenty runs at once over one ledger in PostgreSQL: none waits for ever, each is published or refused in words."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backfill_assets.core.clock import Clock, system_clock
from backfill_assets.core.errors import BackfillError, Refused, Retryable
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.ledger_examples import DAYS
from backfill_assets_tests.support.number_examples import (
    NUMBERS,
    gated,
    must_agree,
    numbers_seen,
    publish_numbers,
    workspace_of_numbers,
)

RUNS = 20
SHARED = "silver.shared"
SECONDS = 240
"""A deadlock would last for ever; a busy machine takes a while."""


@pytest.fixture
def ws(tmp_path: Path, postgres_url: str) -> Iterator[Workspace]:
    opened = workspace_of_numbers(tmp_path / "home", postgres_url, system_clock)
    yield opened
    opened.ledger.close()


def table_of(number: int) -> str:
    """Every other run has a table of its own; the others share one, and days of it."""
    return SHARED if number % 2 else f"silver.own_{number}"


def one_run(home: Path, url: str, number: int) -> str:
    """What one process does from plan to publication; returns how it ended, in words when it was refused."""
    chance = random.Random(number)
    ws = workspace_of_numbers(home, url, system_clock)
    try:
        days = sorted(chance.sample(DAYS, 2))
        candidates = gated(ws, f"run-{number}", table_of(number), days, number)
        said = ""
        for _ in range(60):
            try:
                return str(publish_numbers(ws, candidates).state)
            except (Refused, Retryable) as error:
                said = str(error)
                time.sleep(chance.uniform(0.01, 0.1))
        return said
    finally:
        ws.ledger.close()


@pytest.mark.timeout(SECONDS)
def test_twenty_runs_at_once_end_published_or_refused_in_words(ws: Workspace, tmp_path: Path) -> None:
    tables = {table_of(number) for number in range(RUNS)}
    for table in tables:
        ws.lake.ensure(table, NUMBERS, "day")
    # The first process also creates the tables of the ledger.
    with ThreadPoolExecutor(RUNS) as pool:
        waiting = [pool.submit(one_run, tmp_path / "home", ws.settings.ledger_url, number) for number in range(RUNS)]
        ended = [future.result(timeout=SECONDS) for future in waiting]
    assert all(said == "PUBLISHED" or said.endswith(".") for said in ended), ended
    assert [ended[number] for number in range(0, RUNS, 2)] == ["PUBLISHED"] * (RUNS // 2)
    assert "PUBLISHED" in ended[1::2]
    must_agree(ws, tables)
    with ws.ledger.read() as reader:
        states = {run.run_id: run.state for run in reader.runs.records()}
    assert set(states.values()) <= {RunState.PUBLISHED, RunState.SUPERSEDED, RunState.PASSED}
    for number, said in enumerate(ended):
        assert (states[f"run-{number}"] is RunState.PASSED) == (said != "PUBLISHED")
    for number in range(0, RUNS, 2):
        assert set(numbers_seen(ws, table_of(number)).values()) == {number}


@pytest.mark.timeout(SECONDS)
def test_twenty_threads_share_one_ledger(postgres_url: str, clock: Clock) -> None:
    ledger = Ledger.open(postgres_url, clock=clock)

    def writes(name: int) -> None:
        for number in range(10):
            with ledger.write() as writer:
                writer.events.record(actor=str(name), entity="test", entity_id=str(number), action="wrote")
            with ledger.read() as reader:
                reader.events.head()

    with ThreadPoolExecutor(RUNS) as pool:
        for future in [pool.submit(writes, name) for name in range(RUNS)]:
            future.result(timeout=SECONDS)
    with ledger.read() as reader:
        assert sum(1 for _ in reader.events.entries()) == RUNS * 10
        assert reader.events.violations() == ()
    ledger.close()


@pytest.mark.timeout(SECONDS)
def test_a_thread_that_finds_no_free_connection_may_try_again(
    postgres_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backfill_assets.ledger.connection.WAIT_SECONDS", 1)
    ledger = Ledger.open(postgres_url, clock=clock)
    taken = []
    with pytest.raises(BackfillError, match="kept all its connections") as refusal:
        for _ in range(100):
            reading = ledger.read()
            reading.__enter__()
            taken.append(reading)
    assert isinstance(refusal.value, Retryable)
    for reading in taken:
        reading.__exit__(None, None, None)
    with ledger.read() as reader:
        assert reader.events.violations() == ()
    ledger.close()
