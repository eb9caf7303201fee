"""How long do the everyday questions take on a ledger with a long history?

    .venv/bin/python benchmarks/ledger.py
    .venv/bin/python benchmarks/ledger.py --database sqlite --runs 400 --publications 1000 --days 50

Fills a ledger on SQLite and one on PostgreSQL with 4,000 runs in each of four tables and 10,000 publications, verifies
its event chain, and measures: a publication without its swap (the transactions before and after it, and what they ask),
a tick of the sensor (with nothing to follow, and with one publication that is followed), `status`, `history TABLE`,
`stale` and pages of the desk. Each is done several times with a workspace of its own, as a command does it; the median
is printed, and how much processor time of this process is in it, which says more on a machine that does other work.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from unittest.mock import patch

import psycopg
from long_history import FIRST, NOW, Length, files_of, fill

from backfill_assets.application import look
from backfill_assets.application.follow import plan_follow_ups, unfinished
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.desk.app import create_app
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.requests import publish as publishing
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.desk_reader import get
from backfill_assets_tests.support.postgres_server import running_server

MOST_SECONDS = 0.5
TABLE = "silver.turnover"
_numbers = count(1)


def main() -> int:
    """Measures, prints a line per figure, and says with its status whether each is fast enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--publications", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    asked = parser.parse_args()
    length = Length(runs=asked.runs, publications=asked.publications, days=asked.days)
    names = ["sqlite", "postgresql"] if asked.database == "both" else [asked.database]
    slow = [line for name in names for line in measured(name, length, asked.repeat)]
    return 1 if slow else 0


def measured(database: str, length: Length, repeat: int) -> list[str]:
    """The names of the figures that are too high on one database."""
    slow = []
    with tempfile.TemporaryDirectory(prefix="backfill-ledger-") as folder, ledger_url(database) as url:
        environment = {
            "BACKFILL_HOME": folder,
            "BACKFILL_DOMAIN": "backfill_assets_tests.domains.story",
            "BACKFILL_FIRST_DAY": FIRST.isoformat(),
            **({"BACKFILL_LEDGER_URL": url} if url else {}),
        }
        settings = Settings.from_environment(environment)
        began = time.monotonic()
        with workspace(settings) as ws:
            fill(ws, length)
        print(f"{database}: filled in {time.monotonic() - began:.0f} s")
        with workspace(settings) as ws, ws.ledger.read() as tx:
            assert tx.events.violations() == ()
            assert list(tx.row_checks.violations()) == []
        for name, (prepare, act) in FIGURES.items():
            wall, processor = zip(*(timed(settings, prepare, act) for _ in range(repeat)), strict=True)
            median = statistics.median(wall)
            own = statistics.median(processor)
            print(
                f"{database}: {name}: {median:.3f} s (slowest {max(wall):.3f} s), {own:.3f} s of its own processor time"
            )
            slow += [name] if median >= MOST_SECONDS else []
    return slow


@contextmanager
def ledger_url(database: str) -> Iterator[str | None]:
    """The URL of a PostgreSQL database of one's own; None for a SQLite file in the home."""
    if database == "sqlite":
        yield None
        return
    with running_server() as url:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("CREATE DATABASE long_history")
        yield url.replace("/postgres?", "/long_history?")


@contextmanager
def workspace(settings: Settings) -> Iterator[Workspace]:
    """A workspace as a command opens it."""
    ws = Workspace.open(settings, clock=lambda: NOW + timedelta(seconds=next(_numbers)))
    try:
        yield ws
    finally:
        ws.close()


def timed(
    settings: Settings, prepare: Callable[[Workspace], str], act: Callable[[Workspace, str], object]
) -> tuple[float, float]:
    """How many seconds an act takes, and how many of the processor, after what has to be there for it was made."""
    with workspace(settings) as ws:
        prepared = prepare(ws)
    with workspace(settings) as ws:
        began, began_processor = time.monotonic(), time.process_time()
        act(ws, prepared)
        return time.monotonic() - began, time.process_time() - began_processor


def nothing(_ws: Workspace) -> str:
    """Nothing has to be there."""
    return ""


def passed(ws: Workspace) -> str:
    """A run of one day that has passed its gates and is approved."""
    day = FIRST + timedelta(days=10 + next(_numbers) % 20)
    request = PlanRequest(table=TABLE, days=DayRange.inclusive(day, day), reason="a day came late", by="ana")
    manifest = operations.plan(ws, request).manifest
    run_id, files = manifest.run_id, files_of(manifest.run_id, day)
    with ws.ledger.write() as tx:
        tx.runs.take(run_id, RunState.STAGING, actor="ana", attempt="a1")
        tx.candidates.start_chunk(run_id, 1, [day], attempt="a1")
        staged = CandidatePartition(run_id=run_id, partition=day, files=files, rows=100)
        tx.candidates.finish_chunk(
            run_id, 1, input_rows=100, output_rows=100, candidates=[staged], attempt="a1", checksum="xx64:1"
        )
        tx.runs.move(run_id, RunState.STAGED, actor="ana", attempt="a1")
        tx.runs.take(run_id, RunState.GATING, actor="ana", attempt="a1")
        accepted = tx.versions.accepted(TABLE, [day])[day]
        measured = replace(
            staged,
            checksum=f"xx64:{run_id}",
            compared_version=accepted.version,
            compared_digest=accepted.files.digest,
            compared_checksum=accepted.checksum,
        )
        results = [
            GateResult(
                run_id=run_id,
                partition=day,
                gate=term.name,
                blocking=term.blocking,
                passed=True,
                digest=files.digest,
                verdict="100 rows, as they should be",
            )
            for term in manifest.gates
        ]
        tx.candidates.record_gates(run_id, [measured], results, actor="ana", attempt="a1")
        tx.runs.move(run_id, RunState.PASSED, actor="ana", attempt="a1")
        tx.requests.approve(run_id, by="ben")
    return run_id


def publish(ws: Workspace, run_id: str) -> None:
    """Everything that a publication does but its swap."""
    with patch.object(publishing, "swap", lambda *_, **__: 100_000 + next(_numbers)):
        publishing.publish_run(ws, run_id, by="ben")


def published(ws: Workspace) -> str:
    """A publication that its dependents have not followed yet."""
    publish(ws, passed(ws))
    return ""


def tick(ws: Workspace, _prepared: str) -> None:
    """What the sensor does every thirty seconds, but for asking Dagster."""
    plan_follow_ups(ws, by="sensor")
    list(unfinished(ws))


DESK_PAGES = ("/", "/runs", "/runs?person=none", "/sets", "/calendar", "/publications")


def page(address: str, ws: Workspace, _prepared: str) -> None:
    """A page of a desk that has just been started."""
    assert get(create_app(ws), address).status == 200


FIGURES: Mapping[str, tuple[Callable[[Workspace], str], Callable[[Workspace, str], object]]] = {
    "sensor tick with nothing to follow": (nothing, tick),
    "status": (nothing, lambda ws, _: look.status(ws, None)),
    "history TABLE": (nothing, lambda ws, _: look.history(ws, TABLE, None)),
    "stale": (nothing, lambda ws, _: look.stale(ws, None, None)),
    **{f"desk {address}": (nothing, partial(page, address)) for address in DESK_PAGES},
    "publish without its swap": (passed, publish),
    "sensor tick with one publication to follow": (published, tick),
}
"""What is measured: what is prepared, and what is timed."""


if __name__ == "__main__":
    sys.exit(main())
