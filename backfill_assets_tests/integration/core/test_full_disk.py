"""On a full disk everything that is there can be read, and what has to write says what is missing: space."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import DiskFull
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.ledger import connection
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import plan
from backfill_assets_tests.support.ledgers import only_with_sqlite

FREE_SOME = "next: free some, then give the same command again"


def _in_a_namespace() -> list[str] | None:
    """How a process may mount a file system that nobody else sees; None where this is not permitted."""
    unshare = shutil.which("unshare")
    for how in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        if unshare and subprocess.run([unshare, *how, "true"], check=False, capture_output=True).returncode == 0:
            return [unshare, *how]
    return None


@pytest.mark.long
def test_a_home_on_a_full_disk_is_read_and_refuses_what_has_to_write(tmp_path: Path) -> None:
    only_with_sqlite("it is about that file")
    how = _in_a_namespace()
    if how is None:
        pytest.skip("NOT TRIED: a real disk without room; this process may not mount one (unshare --mount)")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        [*how, sys.executable, "-m", "backfill_assets_tests.support.full_disk", str(folder)],
        cwd=PROJECT_ROOT,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # SQLite leaves the file that it could not extend, and opens it the next time.
    assert set(found.pop("changed")) <= {"ledger.db-shm 3", "logs/spark.log 0"}
    ledger = folder / "home" / "ledger.db"
    for what, (code, said) in found.items():
        match what.split()[0]:
            case "read" | "again":
                assert code == 0, (what, said)
            case "page":
                assert code == 200, what
            case _:
                assert code == 1, (what, said)
                places = {"write landed": folder / "home", "write publish": folder / "home" / "lake"}
                holds = places.get(what, f"the ledger {ledger}")
                assert f"stopped: no space is left on the disk that holds {holds}" in said
                assert FREE_SOME in said
                assert "Traceback" not in said


@contextmanager
def _no_file_grows() -> Iterator[None]:
    """No process of this one may write beyond 3 bytes of a file: SQLite cannot make the memory that it shares."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_ledger_is_read_where_nothing_can_be_written(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, clock=clock)) as ledger:
        plan(ledger, "bf-1")
    with _no_file_grows(), closing(Ledger.open(url, clock=clock)) as ledger:
        for _ in range(2):
            with ledger.read() as reader:
                assert [run.run_id for run in reader.runs.records()] == ["bf-1"]
    with closing(Ledger.open(url, clock=clock)) as ledger:
        plan(ledger, "bf-2")


def test_what_a_killed_process_left_in_the_log_is_read_as_well(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, clock=clock)) as ledger:
        plan(ledger, "bf-1")
        shutil.copytree(tmp_path, tmp_path / "killed")
        (tmp_path / "killed" / "ledger.db-shm").unlink()
        assert (tmp_path / "killed" / "ledger.db-wal").stat().st_size
    killed = f"sqlite:///{tmp_path / 'killed' / 'ledger.db'}"
    with _no_file_grows(), closing(Ledger.open(killed, clock=clock)) as ledger, ledger.read() as reader:
        assert [run.run_id for run in reader.runs.records()] == ["bf-1"]


def test_who_reads_a_full_disk_keeps_nobody_out(tmp_path: Path, clock: Clock) -> None:
    """Such a connection has the file for itself: it is not kept when nothing is read."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.open(url, clock=clock).close()
    with _no_file_grows():
        reading = Ledger.open(url, clock=clock)
        with reading.read() as reader:
            assert list(reader.runs.records()) == []
    with closing(Ledger.open(url, clock=clock)) as other:
        plan(other, "bf-1")
    with closing(reading), reading.read() as reader:
        assert [run.run_id for run in reader.runs.records()] == ["bf-1"]


def test_many_read_a_ledger_on_a_full_disk_at_once(tmp_path: Path, clock: Clock) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, clock=clock)) as ledger:
        plan(ledger, "bf-1")

    def reads(of: Ledger) -> None:
        for _ in range(5):
            with of.read() as reader:
                assert len(list(reader.runs.records())) == 1

    with _no_file_grows(), ThreadPoolExecutor(6) as threads:
        opened = [Ledger.open(url, clock=clock) for _ in range(2)]
        for done in [threads.submit(reads, of) for of in opened * 3]:
            done.result(timeout=connection.WAIT_SECONDS / 2)
    for each in opened:
        each.close()


def test_a_ledger_that_cannot_grow_speaks_of_space(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ledger.db"
    Ledger.open(f"sqlite:///{file}", clock=clock).close()
    monkeypatch.setattr(connection, "SQLITE_PRAGMAS", (*connection.SQLITE_PRAGMAS, "PRAGMA max_page_count = 1"))
    with closing(Ledger.open(f"sqlite:///{file}", clock=clock)) as ledger:
        with pytest.raises(DiskFull) as full:
            for number in range(100):
                plan(ledger, f"bf-{number}")
        assert full.value.message == f"no space is left on the disk that holds the ledger {file}."
        assert advised(full.value) == "free some, then give the same command again"
        with ledger.read() as reader:
            assert len(list(reader.runs.records())) == number
    monkeypatch.setattr(connection, "SQLITE_PRAGMAS", (*connection.SQLITE_PRAGMAS, "PRAGMA max_page_count = 1"))
    with pytest.raises(DiskFull, match="no space is left"):
        Ledger.open(f"sqlite:///{tmp_path / 'new.db'}", clock=clock)
