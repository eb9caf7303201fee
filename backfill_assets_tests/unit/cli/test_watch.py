"""Watching: the status that is shown again and again, until Ctrl-C."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from backfill_assets.application import look
from backfill_assets.cli.watch import EVERY_S, watch_status
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import UnknownName
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.errors import Unavailable
from backfill_assets.ledger.states import RunState
from backfill_assets.report.status import at_work
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import ledger_examples as examples
from backfill_assets_tests.support.ledger_examples import DAYS, TABLE


@pytest.fixture
def ws(settings: Settings, clock: Clock) -> Iterator[Workspace]:
    opened = Workspace.open(replace(settings, domain="backfill_assets_tests.domains.example"), clock=clock)
    yield opened
    opened.close()


def watched(ws: Workspace, *between: Any, name: str | None = None) -> str:
    """What is printed where there is no terminal, while these things happen between two pictures; then Ctrl-C."""
    happening = iter(between)
    out = io.StringIO()

    def wait(seconds: float) -> None:
        assert seconds == EVERY_S
        act = next(happening, None)
        if act is None:
            raise KeyboardInterrupt
        act()

    watch_status(ws, name, Console(file=out, width=160), wait=wait)
    return out.getvalue()


def test_a_picture_is_shown_whenever_something_has_changed(ws: Workspace) -> None:
    examples.plan(ws.ledger, "a")

    def nothing() -> None:
        pass

    def cancel() -> None:
        with ws.ledger.write() as tx:
            tx.requests.cancel("a", by="ben", reason="not wanted")

    text = watched(ws, nothing, cancel, nothing)
    assert text.count("Runs, newest first") == 2
    assert text.index("PLANNED") < text.index("CANCELLED")


def test_what_is_at_work_is_shown_until_its_lease_is_gone(ws: Workspace) -> None:
    examples.plan(ws.ledger, "a")
    with ws.ledger.write() as tx:
        tx.runs.take("a", RunState.STAGING, actor="ana", attempt="a1", lease=timedelta(seconds=120))
        tx.candidates.start_chunk("a", 1, DAYS, attempt="a1")
    (work,) = at_work(ws)
    assert (work.work, work.table, work.state, work.lease.holder) == ("a", TABLE, "STAGING", "ana")
    assert (work.chunks_done, work.chunks_begun, work.overdue_seconds) == (0, 1, 0)
    text = watched(ws, name="a")
    assert "0 staged, 1 begun" in text and "alive" in text
    later = replace(ws, clock=lambda: ws.clock() + timedelta(seconds=600))
    assert "no sign of life for 480 s" in watched(later)


def test_a_file_that_is_landed_is_shown_with_its_source(ws: Workspace) -> None:
    with ws.ledger.write() as tx:
        lease = LeaseTerms(attempt="a1", length=timedelta(seconds=120))
        import_id = tx.imports.begin(
            examples.an_offered_file(source="bronze.sales"), actor="olga", lease=lease
        ).import_id
    (work,) = at_work(ws)
    assert (work.work, work.table, work.state, work.lease.holder) == (import_id, "bronze.sales", "LANDING", "olga")


def test_a_name_that_does_not_exist_ends_the_watching(ws: Workspace) -> None:
    with pytest.raises(UnknownName, match="there is no run 'nothing'"):
        watched(ws, name="nothing")


def test_a_database_that_is_away_for_a_moment_does_not_end_the_watching(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = look.status

    def status(*_: object) -> Any:
        raise Unavailable(why="it is away")

    away = lambda: monkeypatch.setattr(look, "status", status)  # noqa: E731
    text = watched(ws, away, lambda: monkeypatch.setattr(look, "status", real))
    assert "the ledger could not be used, and nothing was changed in it: it is away Next: check that" in text
    assert text.count("no process is at work") == 2


def test_ctrl_c_ends_the_watching_on_a_terminal(ws: Workspace, tmp_path: Path) -> None:
    examples.plan(ws.ledger, "a")
    own = {"BACKFILL_HOME": str(ws.settings.home), "BACKFILL_DOMAIN": ws.settings.domain}
    ours, theirs = pty.openpty()
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from backfill_assets.main import main; main()"
    )
    watching = subprocess.Popen(
        [sys.executable, "-c", script, "status", "--watch"],
        env={**os.environ, **own, "TERM": "xterm", "COLUMNS": "160"},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        seen, until = b"", time.monotonic() + 60
        while b"PLANNED" not in seen and time.monotonic() < until:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65_536)
        assert b"no process is at work" in seen and b"PLANNED" in seen
    finally:
        watching.send_signal(signal.SIGINT)
        try:
            while os.read(ours, 65_536):
                pass
        except OSError:
            pass  # the other end is closed
        _, errors = watching.communicate(timeout=30)
        os.close(ours)
    assert (watching.returncode, errors) == (0, "")
