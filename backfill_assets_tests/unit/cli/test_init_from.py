"""`backfill init --from FILE`: the project that begins with a file of its author."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backfill_assets.application.new_project import project_of_file
from backfill_assets.application.sniff import sniffed
from backfill_assets.capture.errors import NoFile
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain.domain import load_domain
from backfill_assets.main import app
from backfill_assets.report.errors import CannotUse
from backfill_assets.report.sniffed import FileProject
from backfill_assets_tests.support.commands import command_of
from backfill_assets_tests.support.public_files import SHAPES
from backfill_assets_tests.unit.test_docs import COMMANDS, typed

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)


def made(name: str, package: str, folder: Path) -> Path:
    shape = SHAPES[name]
    path = folder / shape.file
    path.write_bytes(shape.write())
    project_of_file(package, path, into=folder, clock=lambda: AS_OF)
    return folder / package


@pytest.mark.parametrize("name", SHAPES)
def test_its_domain_loads_and_its_commands_are_taken(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = made(name, f"of_{name}", tmp_path)
    monkeypatch.syspath_prepend(str(shop))
    domain = load_domain(f"of_{name}")
    assert [len(domain.sources), len(domain.derived)] == [1, 1]
    (shown,) = domain.derived
    commands = list(typed(shop / "README.md"))
    for words in commands:
        command, rest = command_of(words)
        COMMANDS[command].make_context(command, rest)
    assert {words[0] for words in commands} == {"land", "plan", "run", "report", "approve", "publish", "trace"}
    assert {words[2] for words in commands if words[0] == "plan"} == {shown.short_name}
    assert (shop / "sample_data" / SHAPES[name].file).read_bytes() == (tmp_path / SHAPES[name].file).read_bytes()


@pytest.mark.long
def test_the_code_of_all_of_them_is_formatted(tmp_path: Path) -> None:
    for name in SHAPES:
        made(name, f"formatted_{name}", tmp_path)
    for check in (["format", "--check"], ["check", "--ignore", "ARG001,D,I001"]):
        config = ["--config", str(PROJECT_ROOT / "pyproject.toml"), "--no-cache"]
        asked = [sys.executable, "-m", "ruff", *check, *config, str(tmp_path)]
        ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("name", "first_day", "days", "has_gaps"),
    [
        ("weather", date(2012, 1, 1), (date(2012, 1, 1), date(2012, 2, 9)), False),
        ("disasters", date(1900, 1, 1), (date(1900, 1, 1), date(1919, 1, 1)), True),
        ("stocks", date(2000, 1, 1), (date(2000, 1, 1), date(2001, 8, 1)), False),
    ],
)
def test_it_publishes_the_whole_file(
    name: str, first_day: date, days: tuple[date, date], has_gaps: bool, tmp_path: Path
) -> None:
    path = tmp_path / SHAPES[name].file
    path.write_bytes(SHAPES[name].write())
    project = FileProject(package="p", proposal=sniffed([path], clock=lambda: AS_OF), data="sample_data/x")
    assert (project.first_day, project.days, project.has_gaps) == (first_day, days, has_gaps)
    readme = (made(name, "published", tmp_path) / "README.md").read_text()
    assert (f"--from {days[0]} --to {days[1]}" in readme, "--partial" in readme) == (True, has_gaps)
    assert all("--by" in line for line in readme.splitlines() if line.startswith(("backfill run", "backfill plan")))


def test_the_command_line_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather.csv").write_bytes(SHAPES["weather"].write())
    ended = CliRunner().invoke(app, ["init", "my_weather", "--from", "weather.csv", "--json"])
    assert ended.exit_code == 0, ended.output
    assert "sample_data/weather.csv" in json.loads(ended.stdout)["files"]
    for file, sentence in (("no.csv", "there is no file no.csv"), ("words.csv", "is a date or a time")):
        (tmp_path / "words.csv").write_text("name,colour\nana,red\nben,blue\n")
        refused = CliRunner().invoke(app, ["init", "my_words", "--from", file])
        assert refused.exit_code == 1
        assert sentence in refused.stderr.replace("\n", " ")
    assert not (tmp_path / "my_words").exists()


def test_what_is_printed_is_python_and_the_rest_goes_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "umsatz.csv").write_bytes(SHAPES["turnover"].write())
    ended = CliRunner().invoke(app, ["sniff", "umsatz.csv", "--as", "bronze.sales"])
    assert ended.exit_code == 0, ended.output
    compile(ended.stdout, "sales.py", "exec")
    assert 'name="bronze.sales"' in ended.stdout
    assert "backfill land sales --by NAME umsatz.csv" in ended.stderr
    document = json.loads(CliRunner().invoke(app, ["sniff", "umsatz.csv", "--json"]).stdout)
    assert (document["table"], document["key"], document["event_time"]) == (
        "bronze.umsatz",
        ["Stadt", "Datum"],
        "Datum",
    )
    assert [each["kind"] for each in document["columns"]] == ["DATE", "STRING", "DOUBLE", "DOUBLE"]
    refused = CliRunner().invoke(app, ["sniff", "umsatz.csv", "--as", "Sales"])
    assert refused.exit_code == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoFile, match="there is no file"):
        sniffed([tmp_path / "gone.csv"], clock=lambda: AS_OF)


def test_a_taken_name_is_refused_before_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(CannotUse, match="cannot be used"):
        project_of_file("class", tmp_path / "gone.csv", into=tmp_path, clock=lambda: AS_OF)
