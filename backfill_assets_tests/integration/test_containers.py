"""Every command of the compose file runs, outside a container, with the environment that it has in one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.core.spark_server import free_port
from backfill_assets_tests.support.containers import Outside, services
from backfill_assets_tests.support.postgres_server import programs
from backfill_assets_tests.support.s3_server import NoStore, program, spark_jars
from backfill_assets_tests.support.servers import ask

WITHIN_S = 180
LAUNCH = """
mutation($job: String!) {
  launchRun(executionParams: {
    selector: {repositoryLocationName: "backfill_assets", repositoryName: "__repository__", jobName: $job},
    runConfigData: {}
  }) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } }
}
"""
STATUS = "query($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"


@pytest.fixture
def outside(tmp_path: Path, postgres_url: str) -> Outside:
    try:
        store, jars = program(), spark_jars()
    except NoStore as reason:
        pytest.skip(f"CONTAINERS ARE NOT TESTED: {reason}")
    ports = {name: str(free_port()) for name in ("store", "code", "pages")}
    for folder in ("home", "store/lake", "dagster"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(PROJECT_ROOT / "dagster.yaml", tmp_path / "dagster")
    variables = {"POSTGRES_PASSWORD": "word", "STORE_SECRET": "secret-of-the-store", "BACKFILL_USER": ""}
    return Outside(
        variables={**variables, "BACKFILL_SPARK_MEMORY": "1g"},
        replaced={
            "postgresql://backfill:word@postgres/backfill": postgres_url,
            "http://store:7070": f"http://127.0.0.1:{ports['store']}",
            ":7070": f"127.0.0.1:{ports['store']}",
            "versitygw": str(store),
            "/opt/spark-s3": str(jars),
            "/opt/dagster": str(tmp_path / "dagster"),
            "/var/lib/backfill": str(tmp_path / "home"),
            "/app/": f"{PROJECT_ROOT}/",
            "/store": str(tmp_path / "store"),
            "host: code": "host: 127.0.0.1",
            "0.0.0.0": "127.0.0.1",
            "4000": ports["code"],
            "3000": ports["pages"],
            "workspace.yaml": str(tmp_path / "workspace.yaml"),
        },
    )


def given(outside: Outside, service: str) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "AWS_"))}
    # The programs of .venv are found as those of the image are.
    return {**found, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **outside.environment(service)}


def ran(outside: Outside, service: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=given(outside, service), cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )


@contextmanager
def running(outside: Outside, service: str, log: Path, is_ready: Callable[[], bool]) -> Iterator[None]:
    """A service while the block lasts, once it is ready."""
    with (log / f"{service}.log").open("wb") as output:
        process = subprocess.Popen(
            outside.command(service), env=given(outside, service), cwd=PROJECT_ROOT, stdout=output, stderr=output
        )
        try:
            until(is_ready, f"{service} is ready", lambda: process.poll() is None)
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def until(is_so: Callable[[], bool], what: str, may_wait: Callable[[], bool] = lambda: True) -> None:
    end = time.monotonic() + WITHIN_S
    while not is_so():
        assert may_wait(), f"it ended before {what}"
        assert time.monotonic() < end, f"not within {WITHIN_S} s: {what}"
        time.sleep(0.5)


@pytest.mark.long
def test_every_command_of_the_compose_file_runs_and_a_run_is_executed_where_the_code_is(
    outside: Outside, tmp_path: Path, postgres_url: str
) -> None:
    probe, host = services()["postgres"]["healthcheck"]["test"], make_url(postgres_url)
    assert probe[:2] == ["CMD", "pg_isready"]
    found = [str(programs() / "pg_isready"), *probe[2:], "--host", str(host.query["host"])]
    assert subprocess.run(found, check=False).returncode == 0

    workspace = outside.workspace(tmp_path)
    port = outside.text("3000")
    pages, healthy = f"http://127.0.0.1:{port}", services()["code"]["healthcheck"]["test"][1:]

    def stored() -> bool:
        return ran(outside, "doctor", ["backfill", "doctor", "--json"]).returncode == 0

    def code_is_healthy() -> bool:
        return ran(outside, "code", [outside.text(word) for word in healthy]).returncode == 0

    def daemon_is_alive() -> bool:
        return ran(outside, "daemon", ["dagster-daemon", "liveness-check"]).returncode == 0

    def pages_answer() -> bool:
        try:
            entries = ask(pages, "{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus } } } }")
        except OSError:
            return False
        (entry,) = entries["workspaceOrError"]["locationEntries"]
        return bool(entry == {"name": "backfill_assets", "loadStatus": "LOADED"})

    with running(outside, "store", tmp_path, stored):
        doctor = ran(outside, "doctor", outside.command("doctor"))
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert "secret-of-the-store" not in doctor.stdout + doctor.stderr
        with (
            running(outside, "code", tmp_path, code_is_healthy),
            running(outside, "webserver", tmp_path, pages_answer),
            running(outside, "daemon", tmp_path, daemon_is_alive),
        ):
            assert workspace.exists()
            launched = ask(pages, LAUNCH, job="backfill_recover_stopped")["launchRun"]
            assert launched["__typename"] == "LaunchRunSuccess", launched
            run = launched["run"]["runId"]
            until(lambda: ask(pages, STATUS, run=run)["runOrError"]["status"] == "SUCCESS", "the run has succeeded")
        said = ran(outside, "code", ["backfill", "status", "--json"])
        assert said.returncode == 0, said.stderr
        assert json.loads(said.stdout)["tables"]
