"""The wheel, installed in a folder that is no checkout: its commands and the demo work in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.core.settings import EXAMPLE, PROJECT_ROOT
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT

Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Typed:
    """Types a command in an empty folder; the libraries are those of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    site, empty = folder / "site", folder / "empty"
    empty.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    building = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*pip, "wheel", str(PROJECT_ROOT), *building], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], check=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "DAGSTER_"))}
    environment = {**inherited, **SPARK_ENVIRONMENT, "PYTHONPATH": str(site)}

    def typed(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [str(site / "bin" / "backfill"), *words]
        return subprocess.run(
            command, env={**environment, **more}, cwd=empty, capture_output=True, text=True, check=False
        )

    return typed


@pytest.mark.long
def test_without_a_domain_it_says_what_to_set_and_writes_nothing(installed: Typed, tmp_path: Path) -> None:
    assert installed("--help").returncode == 0
    ended = installed("status", BACKFILL_HOME=str(tmp_path / "home"))
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "refused: BACKFILL_DOMAIN is not set, and there is no domain without it.",
        "next: set BACKFILL_DOMAIN to the module that declares DOMAIN; to see an example: backfill demo",
    ]
    assert not (tmp_path / "home").exists()


@pytest.mark.long
def test_the_demo_works_in_an_empty_folder_and_says_where_everything_is(installed: Typed) -> None:
    ended = installed("demo", "--cases", "200", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    assert Path(told["home"]).name == "backfill_demo"
    answers = {step["command"].split()[1]: step["answer"] for step in told["steps"]}
    assert answers["audit"]["agrees"]
    assert [step["command"] for step in told["steps"] if step["exit_code"]] == [
        step["command"] for step in told["steps"] if "# refused" in step["command"]
    ]
    shown = installed("status", "--json", BACKFILL_HOME=told["home"], BACKFILL_DOMAIN=EXAMPLE)
    assert json.loads(shown.stdout) == answers["status"]
