"""A Spark server is used when it is exactly the one that was started; nothing else is used, or ended."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.application.spark_server import up
from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import document_digest
from backfill_assets.core.lease import mark_of
from backfill_assets.core.progress import Progress
from backfill_assets.core.session_settings import client_versions
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import spark_conf
from backfill_assets.core.spark_server import FOLDER, Found, NotOfThisMachine, Unfit, look, start, stop
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.advice import has_code

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONF = {"spark.driver.memory": "4g"}
LISTENS = """
import socket, sys, time
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
time.sleep(600)
"""


@contextmanager
def listening() -> Iterator[tuple[int, int]]:
    """A process that listens: its number and its port."""
    with subprocess.Popen([sys.executable, "-c", LISTENS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def settings_of(home: Path) -> Settings:
    return Settings.from_environment({"BACKFILL_HOME": str(home), **SPARK_ENVIRONMENT})


def write(own: Settings, number: int, port: int, **other: Any) -> None:
    """The state of a server that was started by these settings, with some values changed."""
    machine = f"{socket.gethostname()}:{number}"
    state = {
        "name": "0123456789abcdef",
        "home": str(own.home),
        "machine": machine,
        "mark": mark_of(machine),
        "port": port,
        "token": "a secret",
        "since_at": NOW.isoformat(),
        "versions": client_versions(),
        "settings": document_digest(CONF),
    }
    folder = own.home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.json").write_text(json.dumps({**state, **other}), encoding="utf-8")


def found(settings: Settings) -> Found:
    there = look(settings, CONF)
    assert there is not None
    return there


def test_a_server_that_is_alive_and_of_this_version_is_used(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    assert look(settings, CONF) is None
    with listening() as (number, port):
        write(settings, number, port)
        server = found(settings).fit
        assert server is not None and server.address == f"127.0.0.1:{port}"
        assert "a secret" not in repr(server)
    assert found(settings).unfit is Unfit.ENDED


@pytest.mark.parametrize(
    ("changed", "unfit"),
    [
        ({"home": "/another/home"}, Unfit.OTHER_HOME),
        ({"versions": {"backfill_assets": "0.0.1"}}, Unfit.OTHER_VERSIONS),
        ({"settings": document_digest({**CONF, "spark.driver.memory": "5g"})}, Unfit.OTHER_SETTINGS),
        ({"mark": "another boot/pid:[1]/77"}, Unfit.ENDED),
        ({"machine": "another-machine:1"}, Unfit.ENDED),
        ({"machine": "no number"}, Unfit.UNREADABLE),
        ({"more": "than there is"}, Unfit.UNREADABLE),
    ],
)
def test_a_server_of_another_home_version_setting_or_process_is_not_used_and_not_ended(
    tmp_path: Path, changed: dict[str, Any], unfit: Unfit
) -> None:
    settings = settings_of(tmp_path)
    with listening() as (number, port):
        write(settings, number, port, **changed)
        assert found(settings).unfit is unfit and found(settings).fit is None
        if unfit not in (Unfit.OTHER_VERSIONS, Unfit.OTHER_SETTINGS):
            left = stop(settings)
            assert left is not None and left.unfit is unfit
            assert mark_of(f"{socket.gethostname()}:{number}"), "a process was ended that is not the server"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the system does not say who listens")
def test_a_port_that_another_process_has_taken_is_noticed(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with listening() as (number, _), listening() as (_, port_of_another):
        write(settings, number, port_of_another)
        assert found(settings).unfit is Unfit.SILENT


def test_up_does_not_replace_a_server_with_other_settings_that_commands_may_be_using(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with listening() as (number, port):
        write(settings, number, port, settings="another")
        with pytest.raises(Refused, check=has_code("other_server_runs"), match="OTHER_SETTINGS"):
            start(settings, CONF, clock=lambda: NOW)
        ended = stop(settings)
        assert ended is not None and ended.unfit is None
        assert ended.server is not None and ended.server.number == number
        assert look(settings, CONF) is None and not mark_of(ended.server.machine)
        assert stop(settings) is None


@pytest.mark.parametrize(
    "elsewhere",
    [{"BACKFILL_SPARK_REMOTE": "sc://host:1;token=x"}, {"BACKFILL_SPARK_MASTER": "spark://host:7077"}],
)
def test_up_starts_no_server_in_place_of_a_cluster(tmp_path: Path, elsewhere: dict[str, str]) -> None:
    settings = Settings.from_environment({"BACKFILL_HOME": str(tmp_path), **elsewhere})
    with pytest.raises(NotOfThisMachine) as refused:
        start(settings, CONF, clock=lambda: NOW)
    assert "token" not in str(refused.value)


def test_a_server_that_runs_already_is_not_announced_as_starting(tmp_path: Path) -> None:
    own, heard = settings_of(tmp_path), list[Progress]()
    with listening() as (number, port):
        write(own, number, port, settings=document_digest(dict(spark_conf(own))))
        answer = up(own, clock=lambda: NOW, listener=heard.append)
    assert (answer.is_new, heard) == (False, [])
