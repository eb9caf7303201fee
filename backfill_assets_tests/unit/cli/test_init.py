"""`backfill init`: what it writes, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from backfill_assets import __version__
from backfill_assets.application.new_project import new_project
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.main import app
from backfill_assets.report.errors import CannotUse
from backfill_assets.report.server import Example
from backfill_assets_tests.support.commands import command_of
from backfill_assets_tests.unit.test_docs import COMMANDS, own_domain, typed


def test_it_writes_the_files_and_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["init", "my_shop", "--json"])
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout) == {
        "folder": str(tmp_path / "my_shop"),
        "package": "my_shop",
        "files": [
            *(".env", ".gitignore", "README.md", "dagster.yaml", "my_shop/__init__.py", "my_shop/definitions.py"),
            *("pyproject.toml", "sample_data/late.jsonl", "sample_data/orders.jsonl", "tests/test_my_shop.py"),
            "workspace.yaml",
        ],
    }
    assert [each.name for each in tmp_path.iterdir()] == ["my_shop"]
    texts = "".join(path.read_text() for path in (tmp_path / "my_shop").rglob("*") if path.is_file())
    assert not re.search("my.project|VERSION|template", texts)
    assert f"backfill-assets[web]>={__version__}" in texts
    again = CliRunner().invoke(app, ["init", "my_shop"])
    assert again.exit_code == 1
    assert "my_shop cannot be used: it is there, and not empty" in again.stderr.replace("\n", " ")
    (tmp_path / "empty").mkdir()
    said = CliRunner().invoke(app, ["init", "empty"]).stdout
    assert "next: cd empty && set -a && . ./.env && set +a" in said


@pytest.mark.parametrize("name", ["My_Shop", "my-shop", "1shop", "../shop", "", "class", "json", "backfill_assets"])
def test_a_name_that_no_new_package_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotUse, match="cannot be used"):
        new_project(name, into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "my_shop").write_text("mine")
    with pytest.raises(CannotUse, match="it is there"):
        new_project("my_shop", into=tmp_path)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("my_shop", "mine")]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(CannotUse, match=f"{tmp_path} cannot be used: nothing can be written there: Permission denied"):
        new_project("my_shop", into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_of_a_folder_that_python_finds_too_it_is_said_that_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_shop").mkdir()
    new_project("my_shop", into=tmp_path)
    with pytest.raises(CannotUse, match="it is there, and not empty"):
        new_project("my_shop", into=tmp_path)


@pytest.fixture(params=get_args(Example))
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["init", "my_shop", "--example", request.param])
    assert ended.exit_code == 0, ended.output
    return tmp_path / "my_shop"


def test_its_domain_is_the_one_of_the_tutorial(tmp_path: Path) -> None:
    new_project("my_shop", into=tmp_path)
    assert (tmp_path / "my_shop" / "my_shop" / "__init__.py").read_text() == own_domain()


def test_its_readme_is_short_and_has_commands_that_the_command_line_takes(shop: Path) -> None:
    assert len((shop / "README.md").read_text().splitlines()) <= 40
    commands = list(typed(shop / "README.md"))
    for words in commands:
        name, rest = command_of(words)
        COMMANDS[name].make_context(name, rest)
    assert {words[0] for words in commands} >= {"land", "plan", "run", "report", "approve", "publish", "propose"}


def test_its_settings_can_be_read_by_a_shell_and_dagster_records_where_they_say(shop: Path) -> None:
    asked = "set -a && . ./.env && set +a && env"
    shown = subprocess.run(["bash", "-c", asked], cwd=shop, capture_output=True, text=True, check=True).stdout
    settings = Settings.from_environment(dict(line.split("=", 1) for line in shown.splitlines() if "=" in line))
    assert (settings.domain, settings.home) == ("my_shop", shop / "data")
    first = settings.first_day
    assert f"date({first.year}, {first.month}, {first.day})" in (shop / "tests" / "test_my_shop.py").read_text()
    instance = yaml.safe_load((shop / "dagster.yaml").read_text())
    assert instance == yaml.safe_load((PROJECT_ROOT / "dagster.yaml").read_text())
    assert "make dev" not in (shop / "dagster.yaml").read_text()


def test_its_code_is_formatted_and_without_complaints(shop: Path) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    # Comments of the domain stand in a column, and every function takes ctx; nothing is of the first party here.
    for check in (["format", "--check", "--exclude", "__init__.py"], ["check", "--ignore", "ARG001,D,I001"]):
        asked = [str(ruff), *check, "--config", str(PROJECT_ROOT / "pyproject.toml"), "--no-cache", str(shop)]
        ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout
