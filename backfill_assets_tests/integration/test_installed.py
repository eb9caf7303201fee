"""The wheel, installed in a fresh environment: its commands and the demo work in an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zipfile import ZipFile

import pytest

from backfill_assets import __version__
from backfill_assets.core.settings import EXAMPLE, PROJECT_ROOT
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.kafka_broker import Broker

UV = Path(sys.executable).parent / "uv"
OPTIONAL = ("dagster_webserver", "starlette", "uvicorn", "psycopg", "pytest")


@dataclass(frozen=True, kw_only=True)
class Installed:
    """The wheel in an environment of its own, without extras."""

    wheel: Path  #: The file.
    python: Path  #: The environment's interpreter.
    folder: Path  #: The empty folder in which commands are typed.
    index: Mapping[str, str]  #: Where packages come from.

    def installs(self, what: str) -> None:
        """Installs the wheel, or an extra of it, with the locked versions of what it needs."""
        versions = ("--constraints", str(PROJECT_ROOT / "requirements.lock"))
        command = [str(UV), "pip", "install", "--quiet", "-p", str(self.python), *versions, what]
        subprocess.run(command, check=True, env={**os.environ, **self.index})

    def types(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Types a command in the empty folder."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "DAGSTER_"))}
        environment = {**kept, **SPARK_ENVIRONMENT, **more}
        command = [str(self.python.parent / "backfill"), *words]
        return subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)

    def runs(self, code: str) -> str:
        """What some Python prints."""
        return subprocess.run(
            [str(self.python), "-c", code], cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout.strip()


def of_pip() -> Mapping[str, str]:
    """The index and the certificates of pip, as variables that uv reads."""
    found = {}
    for setting, given, variable in (
        ("global.index-url", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("global.cert", "PIP_CERT", "SSL_CERT_FILE"),
    ):
        asked = [sys.executable, "-m", "pip", "config", "get", setting]
        configured = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if value := os.environ.get(variable) or os.environ.get(given) or configured:
            found[variable] = value
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "empty").mkdir()
    building = ["--wheel", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder)]
    subprocess.run([str(UV), "build", *building, str(PROJECT_ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(folder / "fresh")], check=True)
    found = Installed(wheel=wheel, python=folder / "fresh" / "bin" / "python", folder=folder / "empty", index=of_pip())
    found.installs(str(wheel))
    return found


@pytest.mark.long
def test_the_wheel_has_types_and_the_example_and_nothing_of_the_tests(installed: Installed) -> None:
    names = ZipFile(installed.wheel).namelist()
    assert "backfill_assets/py.typed" in names
    assert "backfill_assets/examples/enforcement_sla/reference/sla_policy.yaml" in names
    assert [name for name in names if not name.startswith(("backfill_assets/", "backfill_assets-"))] == []
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    described = ZipFile(installed.wheel).read(metadata).decode()
    assert re.findall(r"\]\((?!https://)([^)]*)\)", described) == [], "a link that leads nowhere outside of a checkout"
    shown = re.sub(r"\s+", "", installed.types("--help").stdout)
    assert "backfill_assets/documentation/README.md" in shown and "backfill_assets/documentation/README.md" in names
    assert installed.types("--version").stdout == f"backfill-assets {__version__}\n"
    assert installed.runs("import backfill_assets; print(backfill_assets.__version__)") == __version__


@pytest.mark.long
def test_what_is_optional_is_asked_for_in_one_sentence(installed: Installed) -> None:
    there = f"from importlib.util import find_spec; print([name for name in {OPTIONAL} if find_spec(name)])"
    assert installed.runs(there) == "[]"
    home = {"BACKFILL_HOME": str(installed.folder / "asked"), "BACKFILL_DOMAIN": EXAMPLE}
    (installed.folder / "asked").mkdir()
    desk = installed.types("desk", **home)
    assert desk.returncode == 1
    assert desk.stderr.splitlines() == [
        "refused: the desk needs the package uvicorn, which is not installed.",
        "next: pip install 'backfill-assets[desk]'",
    ]
    ledger = installed.types("status", **home, BACKFILL_LEDGER_URL="postgresql://nobody@127.0.0.1/backfill")
    assert ledger.returncode == 1
    assert ledger.stderr.splitlines() == [
        "refused: BACKFILL_LEDGER_URL, unless it names SQLite, needs the package psycopg, which is not installed.",
        "next: pip install 'backfill-assets[postgres]'",
    ]


@pytest.mark.long
def test_without_a_domain_it_says_what_to_set_and_writes_nothing(installed: Installed, tmp_path: Path) -> None:
    assert installed.types("--help").returncode == 0
    ended = installed.types("status", BACKFILL_HOME=str(tmp_path / "home"))
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "refused: BACKFILL_DOMAIN is not set, and there is no domain without it.",
        "next: set BACKFILL_DOMAIN to the module that declares DOMAIN; to begin one: backfill init my_shop; "
        "to see one: backfill demo",
    ]
    assert not (tmp_path / "home").exists()


@pytest.mark.long
def test_a_project_is_begun_from_the_wheel_and_its_kit_needs_no_pytest(installed: Installed) -> None:
    ended = installed.types("init", "my_shop")
    assert ended.returncode == 0, ended.stderr
    written = {path.relative_to(installed.folder).as_posix() for path in (installed.folder / "my_shop").rglob("*.*")}
    assert {"my_shop/.env", "my_shop/my_shop/__init__.py", "my_shop/sample_data/orders.jsonl"} < written
    assert installed.runs("import backfill_assets.testing as kit; print(len(kit.CHECKS))") == "5"


@pytest.mark.long
def test_the_demo_works_in_an_empty_folder_and_says_where_everything_is(installed: Installed) -> None:
    ended = installed.types("demo", "--cases", "200", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    assert Path(told["home"]).name == "backfill_demo"
    answers = {step["command"].split()[1]: step["answer"] for step in told["steps"]}
    assert answers["audit"]["agrees"]
    assert [step["command"] for step in told["steps"] if step["exit_code"]] == [
        step["command"] for step in told["steps"] if "# refused" in step["command"]
    ]
    shown = installed.types("status", "--json", BACKFILL_HOME=told["home"], BACKFILL_DOMAIN=EXAMPLE)
    assert json.loads(shown.stdout) == answers["status"]


@pytest.mark.long
def test_the_story_of_a_topic_disturbs_no_consumer_and_is_proven_after_the_topic_is_gone(
    installed: Installed,
    broker: Broker,
) -> None:
    installed.installs(f"backfill-assets[kafka] @ {installed.wheel.as_uri()}")
    ended = installed.types("demo", "--source", "kafka", "--cases", "200", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answers = {step["command"]: step["answer"] for step in json.loads(ended.stdout)["steps"]}
    written = sum(answer["written"] for command, answer in answers.items() if command.startswith("topic write"))
    captures = [answer for command, answer in answers.items() if command.startswith("backfill capture")]
    captured = sum(answer.get("captured", 0) for answer in captures)
    assert written == captured > 0
    for answer in captures:
        if answer.get("captured"):  # at least ten times as fast as the records came in
            times = [datetime.fromisoformat(each[name]) for each in answer["files"] for name in ("first_at", "last_at")]
            assert (max(times) - min(times)).total_seconds() >= 10 * answer["seconds"]
    live = answers["topic application"]
    assert live["alerts"] > 0
    assert live == {
        "group": "case-alerts",
        "read": written,
        "of": written,
        "began_again": 0,
        "groups_of_the_cluster": ["case-alerts"],
        "alerts": live["alerts"],
    }
    # It is filled again by the same code, from a topic that is gone afterwards, and alerts nobody.
    filled = answers["topic application --from case-events.backfill"]
    assert filled == {"read": written, "of": written, "cases": filled["cases"], "as_before": True, "alerts": 0}
    (closed,) = (answer for command, answer in answers.items() if command.startswith("backfill replay close"))
    assert (closed["deleted"], closed["sent"]) == (True, written)
    commands = list(answers)
    (again,) = (command for command in commands if command.startswith("backfill reproduce"))
    assert commands.index("topic delete") < commands.index(again)
    assert answers[again]["identical"]
    assert answers["backfill audit"]["agrees"]


@pytest.mark.long
def test_the_extras_bring_the_desk_and_the_pages_of_dagster(installed: Installed) -> None:
    installed.installs(f"backfill-assets[web] @ {installed.wheel.as_uri()}")
    assert installed.runs("import backfill_assets.desk.serve, dagster_webserver; print('there')") == "there"
