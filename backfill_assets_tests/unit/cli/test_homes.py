"""A home that is mistyped is refused, and not created: it would look as if nothing had ever happened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backfill_assets.core.settings import Settings
from backfill_assets.main import app

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
    assert "next: set BACKFILL_HOME to the folder that holds the ledger and the tables" in said
    assert not home.exists()


def test_a_folder_that_is_there_is_a_home(tmp_path: Path) -> None:
    assert typed(tmp_path, "status").exit_code == 0


def test_the_first_file_begins_a_home_and_says_so(tmp_path: Path) -> None:
    result = typed(tmp_path / "new", "land", "sales", str(tmp_path / "none.csv"), "--by", "ana")
    assert f"a new home: {tmp_path / 'new'}" in result.stderr


def test_a_ledger_that_is_a_database_of_its_own_has_new_homes_on_every_machine(tmp_path: Path) -> None:
    elsewhere = {"BACKFILL_HOME": str(tmp_path / "new"), "BACKFILL_LEDGER_URL": "postgresql://ledger"}
    Settings.from_environment(elsewhere).require_home()


@pytest.mark.parametrize(("line", "is_said"), [("BACKFILL_DOMAIN=my_shop", True), ("OTHER=x", False)])
def test_settings_that_a_folder_has_and_nobody_has_read_are_named_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, is_said: bool
) -> None:
    for name in [name for name in os.environ if name.startswith("BACKFILL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"{line}\n")
    asked = ["land", "orders", "orders.jsonl", "--by", "ana"]
    refused = CliRunner().invoke(app, asked, env={"HOME": str(tmp_path)})
    assert refused.exit_code == 1
    assert ("the settings of .env in this folder are not read" in refused.stderr) is is_said
    given = CliRunner().invoke(app, asked, env={"HOME": str(tmp_path), "BACKFILL_DOMAIN": DOMAIN})
    assert "the settings of .env" not in given.stderr
