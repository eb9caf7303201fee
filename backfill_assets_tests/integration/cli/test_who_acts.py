"""Without a name, a command acts in that of the account its process belongs to, and never in that of a requester."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.main import app
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import Shop, WorkIn, open_shop, ticking_clock


@pytest.fixture
def shop(tmp_path: Path, published_home: Path, spark: SparkSession, work_in: WorkIn) -> Iterator[Shop]:
    home = copy_home(published_home, tmp_path / "home")
    work_in(home)
    opened = open_shop(home, clock=ticking_clock(NOON), spark=spark)
    yield opened
    opened.ws.close()


@pytest.fixture(autouse=True)
def _nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKFILL_USER", raising=False)


def belongs_to(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of this process has another name."""
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((account, "x", os.geteuid(), 0, "", "/", "/sh")))


@pytest.mark.long
def test_who_runs_a_run_of_another_person_is_recorded_by_the_name_of_the_account(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.planned()
    belongs_to("cleo", monkeypatch)
    result = CliRunner().invoke(app, ["run", run_id], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    # What it has come to, and not its report.
    assert f"backfill report {run_id}, and then backfill approve {run_id}" in " ".join(result.stdout.split())
    assert "every blocking gate passed" in result.stdout and "Totals" not in result.stdout
    with shop.ws.ledger.read() as reader:
        assert reader.runs.get(run_id).manifest.requested_by == "ana"
        moved = [each for each in reader.events.entries(entity_id=run_id) if each.action == "moved"]
    assert {each.actor for each in moved} == {"cleo"}


@pytest.mark.parametrize("account", ["backfill", "publish"])
def test_an_account_with_a_name_of_the_system_has_to_say_who_acts(
    shop: Shop, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.planned()
    belongs_to(account, monkeypatch)
    result = CliRunner().invoke(app, ["run", run_id], catch_exceptions=False)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert said == "refused: it is not stated who is acting. next: add --by NAME, or set BACKFILL_USER", said


def test_nobody_runs_in_the_name_of_a_part_of_the_system(shop: Shop) -> None:
    result = CliRunner().invoke(app, ["run", shop.planned(), "--by", "publish"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "that name is reserved for the system" in " ".join(result.stderr.split())
