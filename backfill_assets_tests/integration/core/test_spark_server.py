"""A real Spark server that stays: started once, used by commands, noticed when it is gone, and without leftovers."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.lease import mark_of
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark_server import FOLDER
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.s3_server import Store

BACKFILL = Path(sys.executable).with_name("backfill")
DOMAIN = "backfill_assets_tests.domains.story"
EVENTS = [(f"o-{day}", f"2024-01-{day:02d}T12:00:00Z", day * 10, day) for day in range(1, 6)]


class Home:
    """A home of the story, and the commands that a person types there."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            **SPARK_ENVIRONMENT,
            "BACKFILL_HOME": str(folder),
            "BACKFILL_DOMAIN": DOMAIN,
            "BACKFILL_FIRST_DAY": "2024-01-01",
            **more,
        }
        with Workspace.open(Settings.from_environment(self.environment)).ledger.read():
            pass  # The first command of a home has made its ledger.

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BACKFILL, *words], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str, code: int = 0) -> tuple[Any, str]:
        """The JSON that a command answers, and what it said on the way."""
        command = self.begin(*words)
        out, said = command.communicate(timeout=900)
        assert command.returncode == code, f"{words}: {out}{said}"
        return (json.loads(out) if "--json" in words else out), said

    def landed(self) -> None:
        path = self.folder.with_suffix(".jsonl")
        names = ("order_id", "ordered_at", "amount", "colour")
        path.write_text("\n".join(json.dumps(dict(zip(names, event, strict=True))) for event in EVENTS))
        self.run("land", "orders", str(path), "--by", "ana", "--json")

    def planned(self) -> str:
        days = ("--from", "2024-01-01", "--to", "2024-01-04")
        of = ("plan", "table", "silver.turnover", *days, "--reason", "first", "--by", "ana", "--json")
        return str(self.run(*of)[0]["run_id"])

    def recorded(self) -> list[str]:
        """How the runs ended that Dagster's record has."""
        with sqlite3.connect(self.folder / "dagster" / "history" / "runs.db") as runs:
            return [status for (status,) in runs.execute("select status from runs order by id")]

    @property
    def state(self) -> Any:
        return json.loads((self.folder / FOLDER / "server.json").read_text())

    @property
    def server(self) -> int:
        return int(self.state["machine"].rpartition(":")[2])

    @property
    def sessions(self) -> list[Path]:
        return list((self.folder / FOLDER / "sessions").glob("*"))


@contextmanager
def home_with_a_server(folder: Path, **more: str) -> Iterator[Home]:
    home = Home(folder, **more)
    home.run("up")
    try:
        yield home
    finally:
        home.run("down")


def is_there(number: int) -> bool:
    return bool(mark_of(f"{socket.gethostname()}:{number}"))


def words_of_processes() -> bytes:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return b"".join(found)


@pytest.mark.long
def test_two_that_start_it_at_once_have_one_server_whose_token_nobody_sees_and_which_ends(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    both = [home.begin("up", "--json") for _ in range(2)]
    answers = [json.loads(each.communicate(timeout=900)[0]) for each in both]
    try:
        assert sorted(each["is_new"] for each in answers) == [False, True]
        assert answers[0]["server"] == answers[1]["server"]
        folder = home.folder / FOLDER
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        token, number = home.state["token"], home.server
        assert token.encode() not in words_of_processes()
        shown, _ = home.run("status")
        assert answers[0]["server"]["address"] in shown and token not in shown
        # Each transform is computed over no rows: with the server nothing has to be started for it.
        checked, said = home.run("check")
        assert "silver.turnover" in checked and "Spark" not in said
        assert home.sessions == []
    finally:
        ended, _ = home.run("down", "--json")
    assert ended["server"]["process"].endswith(f":{number}") and not is_there(number)
    assert home.run("down", "--json")[0] == {"server": None}
    assert home.run("status", "--json")[0]["spark_server"] is None


@pytest.fixture(params=["folder", "store"])
def places(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """Where a home keeps its lake and its landed files."""
    if request.param == "folder":
        return {}
    store: Store = request.getfixturevalue("store")
    bucket = store.make_bucket("served")
    return {**store.environment, "BACKFILL_LAKE": f"s3://{bucket}/lake", "BACKFILL_LANDING": f"s3://{bucket}/landing"}


@pytest.mark.long
def test_a_run_has_the_same_rows_with_the_server_and_without(tmp_path: Path, places: Mapping[str, str]) -> None:
    alone = Home(tmp_path / "alone")
    alone.landed()
    _, said = alone.run("run", alone.planned(), "--by", "ana")
    assert "starting Spark" in said and "backfill up" in said
    with home_with_a_server(tmp_path / "served", **places) as served:
        served.landed()
        run_id = served.planned()
        _, said = served.run("run", run_id, "--by", "ana")
        assert "Spark" not in said
        assert checksums(served) == checksums(alone)
        served.run("approve", run_id, "--by", "ben")
        served.run("publish", run_id, "--by", "ana")
        assert served.run("audit", "--json")[0]["agrees"]
        doctor, _ = served.run("doctor", "--json")
        assert doctor["is_sound"]
        (spark,) = (part["found"] for part in doctor["parts"] if part["part"] == "spark")
        assert spark.endswith("at the server of this home")


def checksums(home: Home) -> list[tuple[str, str]]:
    with sqlite3.connect(home.folder / "ledger.db") as ledger:
        return ledger.execute("select partition_date, checksum from candidate_partitions order by 1, 2").fetchall()


@pytest.mark.long
def test_a_server_that_was_killed_is_noticed_and_the_command_starts_spark(tmp_path: Path) -> None:
    with home_with_a_server(tmp_path / "home") as home:
        os.kill(home.server, signal.SIGKILL)
        while is_there(home.server):
            time.sleep(0.05)
        shown, _ = home.run("status")
        assert "is not used: its process has ended" in shown
        _, said = home.run("check")
        assert "is not used: its process has ended" in said and "starting Spark" in said
        assert home.run("up", "--json")[0]["is_new"]


@pytest.mark.long
def test_a_command_whose_server_is_killed_stops_with_a_sentence_and_goes_on_when_it_is_repeated(
    tmp_path: Path,
) -> None:
    with home_with_a_server(tmp_path / "home") as home:
        home.landed()
        run_id = home.planned()
        command = home.begin("run", run_id, "--by", "ana")
        while not home.sessions:
            assert command.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        os.kill(home.server, signal.SIGKILL)
        began = time.monotonic()
        _, said = command.communicate(timeout=600)
        assert command.returncode == 1 and "Traceback" not in said, said
        assert time.monotonic() - began < 120
        home.run("run", run_id, "--by", "ana")
        assert home.run("audit", "--json")[0]["agrees"]


@pytest.mark.long
def test_the_session_of_a_killed_command_is_ended_by_the_next_one(tmp_path: Path) -> None:
    with home_with_a_server(tmp_path / "home") as home:
        home.landed()
        run_id = home.planned()
        command = home.begin("run", run_id, "--by", "ana")
        while not home.sessions:
            assert command.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        command.kill()
        command.communicate()
        (left,) = home.sessions
        written = left.read_text(encoding="utf-8")
        home.run("run", run_id, "--by", "ana")
        assert home.sessions == []
        # Also a process that is killed after its session has ended leaves its file.
        left.write_text(written, encoding="utf-8")
        home.run("check")
        assert home.sessions == []
        # Of the killed command Dagster has a run that failed, or none, if it was killed before Dagster was imported.
        assert set(home.recorded()) <= {"SUCCESS", "FAILURE"} and home.recorded()[-1] == "SUCCESS"
        assert home.run("audit", "--json")[0]["agrees"]
