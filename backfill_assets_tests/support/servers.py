"""Servers of a test: each listens on loopback, on a free port, and is stopped by the process that the test started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from backfill_assets.core.settings import PROJECT_ROOT

STARTS_WITHIN_S = 180
ENDS_WITHIN_S = 15
LOCATION = """
{ workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError { __typename } } } } }
"""


@contextmanager
def served(command: Sequence[str], *, environment: Mapping[str, str], answers: str, log: Path) -> Iterator[str]:
    """A server while the block lasts, in a process group of its own.

    Args:
        command: What starts it.
        environment: What it is given beside the environment of the test.
        answers: The address that answers as soon as it is ready.
        log: Where what it prints goes.
    """
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=PROJECT_ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for(answers, server, log)
            yield answers
        finally:
            _stop(server)


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until:
        assert server.poll() is None, f"the server ended:\n{log.read_text(errors='replace')[-4000:]}"
        try:
            urlopen(address, timeout=5).close()
        except (URLError, OSError):
            time.sleep(0.3)
        else:
            return
    raise TimeoutError(f"{address} did not answer:\n{log.read_text(errors='replace')[-4000:]}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Ends a server and the processes that it has started, which are in its group."""
    server.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        server.wait(timeout=ENDS_WITHIN_S)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(timeout=ENDS_WITHIN_S)


@contextmanager
def dagster(
    *command: str, port: int, environment: Mapping[str, str], folder: Path, workspace: bool = True
) -> Iterator[str]:
    """Dagster's web server with the settings of the checkout, once it has loaded the code location.

    Args:
        command: The program, such as `dagster-webserver`.
        port: Where it listens.
        environment: The settings of the home.
        folder: Of its own, so that it leaves nothing in the checkout.
        workspace: Whether it is given `workspace.yaml`.

    Returns:
        Its address.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROJECT_ROOT / "dagster.yaml", folder)
    given = [*command, "--host", "127.0.0.1", "--port", str(port), *(["-w", "workspace.yaml"] if workspace else [])]
    own = {**environment, "DAGSTER_HOME": str(folder)}
    address = f"http://127.0.0.1:{port}"
    with served(given, environment=own, answers=f"{address}/server_info", log=folder / "server.log"):
        until = time.monotonic() + STARTS_WITHIN_S
        while not all(each["locationOrLoadError"] for each in _locations(address)):
            assert time.monotonic() < until, "the code location was not loaded"
            time.sleep(0.3)
        yield address


def _locations(address: str) -> Sequence[Mapping[str, Any]]:
    entries: Sequence[Mapping[str, Any]] = ask(address, LOCATION)["workspaceOrError"]["locationEntries"]
    return entries


def ask(address: str, query: str, **variables: Any) -> Any:
    """What Dagster's web server answers to a query."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = Request(f"{address}/graphql", data=body, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        document = json.load(answer)
    assert "errors" not in document, document["errors"]
    return document["data"]
