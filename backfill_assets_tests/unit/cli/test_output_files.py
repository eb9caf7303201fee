"""A file that a person names is written in a folder that exists, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backfill_assets.core.settings import Settings
from backfill_assets.main import app
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import ledger_examples as examples

DOMAIN = "backfill_assets_tests.domains.example"
WRITES = [("report", "bf-1", "--html", "out.html"), ("export", "runs", "out.csv"), ("export", "runs", "out.parquet")]


def typed(settings: Settings, file: Path, *words: str) -> Result:
    ws = Workspace.open(replace(settings, domain=DOMAIN))
    examples.plan(ws.ledger, "bf-1", table="silver.recent_sales")
    ws.close()
    environment = {"BACKFILL_HOME": str(settings.home), "BACKFILL_DOMAIN": DOMAIN}
    return CliRunner().invoke(app, [*words[:-1], str(file)], env=environment)


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_a_file_in_a_folder_that_does_not_exist_is_refused_and_no_folder_is_made(
    settings: Settings, tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "missing" / "folder"
    refused = typed(settings, folder / words[-1], *words)
    said = " ".join(refused.stderr.split())
    assert refused.exit_code == 1
    assert f"refused: the file {folder / words[-1]} cannot be used: the folder {folder} does not exist." in said
    assert said.endswith("next: choose a file in a folder that exists")
    assert not folder.parent.exists()


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_what_cannot_be_replaced_is_refused_and_nothing_is_left_beside_it(
    settings: Settings, tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "reports"
    (folder / words[-1]).mkdir(parents=True)
    refused = typed(settings, folder / words[-1], *words)
    assert refused.exit_code == 1
    assert "cannot be used: Is a directory" in " ".join(refused.stderr.split())
    assert [path.name for path in folder.iterdir()] == [words[-1]]


def test_the_page_of_a_report_has_a_folder_in_the_home(settings: Settings) -> None:
    written = typed(settings, Path("--page"), "report", "bf-1", "--page")
    assert written.exit_code == 0
    assert (settings.home / "reports" / "bf-1.html").exists()
