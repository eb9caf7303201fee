"""A home that is mistyped is refused, and not created: it would look as if nothing had ever happened."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backfill_assets.core.settings import Settings
from backfill_assets.main import app
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.ledger_examples import a_manifest

DOMAIN = "backfill_assets_tests.domains.example"


def typed(home: Path, *words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"BACKFILL_HOME": str(home), "BACKFILL_DOMAIN": DOMAIN})


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["stale"],
        ["history", "gold.sales_monthly"],
        ["audit"],
        ["follow", "--by", "ana"],
        ["recover"],
        ["up"],
        [
            "load",
            "sales",
            "--from",
            "2025-01-01",
            "--to",
            "2025-01-02",
            "--empty",
            "--reason",
            "nothing happened",
            "--by",
            "ana",
        ],
    ],
    ids=" ".join,
)
def test_a_home_that_does_not_exist_is_refused_and_not_created(tmp_path: Path, words: list[str]) -> None:
    home = tmp_path / "hmoe"
    result = typed(home, *words)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 1
    assert f"BACKFILL_HOME is {home}, and there is no such folder." in said
    wanted = "the folder that holds the ledger and the tables, or land a first file, which makes this one"
    assert f"next: set BACKFILL_HOME to {wanted}" in said
    assert not home.exists()


def test_a_folder_that_is_there_is_a_home(tmp_path: Path) -> None:
    assert typed(tmp_path, "status").exit_code == 0


def test_no_server_is_started_in_a_folder_that_is_no_home(tmp_path: Path) -> None:
    result = typed(tmp_path, "up")
    said = " ".join(result.stderr.split())
    assert result.exit_code == 1 and not any(tmp_path.iterdir())
    assert f"BACKFILL_HOME is {tmp_path}, and it holds no ledger. next: " in said
    assert "or land a first file, which makes this one" in said


def test_the_first_file_begins_a_home_and_says_so(tmp_path: Path) -> None:
    result = typed(tmp_path / "new", "land", "sales", str(tmp_path / "none.csv"), "--by", "ana")
    assert f"a new home: {tmp_path / 'new'}" in result.stderr


def test_a_ledger_that_is_a_database_of_its_own_has_new_homes_on_every_machine(tmp_path: Path) -> None:
    elsewhere = {"BACKFILL_HOME": str(tmp_path / "new"), "BACKFILL_LEDGER_URL": "postgresql://ledger"}
    Settings.from_environment(elsewhere).require_home()


@pytest.fixture
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a checkout, and no setting of this project in the environment."""
    for name in [name for name in os.environ if name.startswith("BACKFILL_")]:
        monkeypatch.delenv(name)
    checkout = tmp_path / "checkout"
    (checkout / "data").mkdir(parents=True)
    monkeypatch.setattr("backfill_assets.core.settings.PROJECT_ROOT", checkout)
    monkeypatch.chdir(tmp_path)
    return checkout


@pytest.mark.parametrize("words", [["status"], ["stale"], ["audit"], ["history", "silver.open_cases"], ["down"]])
def test_a_home_and_a_domain_that_nobody_named_are_named_beside_the_answer(nothing_set: Path, words: list[str]) -> None:
    example = "backfill_assets.examples.enforcement_sla"
    home = nothing_set / "data"
    both = f"note: BACKFILL_HOME and BACKFILL_DOMAIN are not set, so this is the home {home} and the domain {example}\n"
    answered = CliRunner().invoke(app, [*words, "--json"])
    assert both in answered.stderr
    json.loads(answered.stdout)
    one = CliRunner().invoke(app, words, env={"BACKFILL_HOME": str(home)})
    assert f"note: BACKFILL_DOMAIN is not set, so this is the domain {example}\n" in one.stderr
    named = CliRunner().invoke(app, words, env={"BACKFILL_HOME": str(home), "BACKFILL_DOMAIN": example})
    assert "note:" not in named.stderr


def with_a_run(home: Path, *, table: str, domain: str) -> None:
    """A home in which a run was planned."""
    settings = Settings.from_environment({"BACKFILL_HOME": str(home), "BACKFILL_DOMAIN": DOMAIN})
    ws = Workspace.open(settings)
    with ws.ledger.write() as tx:
        tx.runs.add(a_manifest("a-run", table=table, domain=domain), actor="ana")
    ws.close()


@pytest.mark.parametrize(
    "words", [["status"], ["stale"], ["check"], ["audit"], ["follow"], ["land", "sales", "sales.csv", "--by", "ana"]]
)
def test_the_home_of_another_domain_is_refused_and_named(tmp_path: Path, words: list[str]) -> None:
    with_a_run(tmp_path, table="silver.of_others", domain="cases")
    refused = typed(tmp_path, *words)
    said = " ".join(refused.stderr.split())
    assert refused.exit_code == 1
    assert f"BACKFILL_DOMAIN is {DOMAIN}, and the home {tmp_path} belongs to the domain cases." in said
    wanted = "the module that declares cases, or BACKFILL_HOME to a home of example"
    assert f"next: set BACKFILL_DOMAIN to {wanted}" in said


@pytest.mark.parametrize(("table", "domain"), [("gold.sales_monthly", "cases"), ("silver.renamed", "example")])
def test_a_domain_that_has_renamed_itself_or_its_tables_keeps_its_home(tmp_path: Path, table: str, domain: str) -> None:
    with_a_run(tmp_path, table=table, domain=domain)
    assert typed(tmp_path, "status").exit_code == 0


@pytest.mark.parametrize(("line", "is_said"), [("BACKFILL_DOMAIN=my_shop", True), ("OTHER=x", False)])
def test_settings_that_a_folder_has_and_nobody_has_read_are_named(nothing_set: Path, line: str, is_said: bool) -> None:
    Path(".env").write_text(f"{line}\n")
    answered = CliRunner().invoke(app, ["status"])
    assert ("The settings of .env in this folder are not read: set -a" in answered.stderr) is is_said
    given = CliRunner().invoke(app, ["status"], env={"BACKFILL_DOMAIN": DOMAIN})
    assert "The settings of .env" not in given.stderr
