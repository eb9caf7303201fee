"""Dagster's own command `dg` works in a checkout, with the settings of pyproject.toml alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.core.spark_server import free_port
from backfill_assets_tests.support.orchestration_examples import environment
from backfill_assets_tests.support.servers import ask, dagster

DG = str(Path(sys.executable).parent / "dg")
REPOSITORY = """
{
  repositoriesOrError {
    ... on RepositoryConnection {
      nodes { location { name } sensors { name } jobs { name } assetNodes { assetKey { path } } }
    }
  }
}
"""
SILENT = {"DAGSTER_DG_CLI_TELEMETRY_ENABLED": "false"}


def dg(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DG, *arguments],
        cwd=PROJECT_ROOT,
        env={**os.environ, **environment(home), **SILENT, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_dg_lists_the_definitions_of_the_settings_domain(tmp_path: Path) -> None:
    listed = dg(tmp_path / "home", "list", "defs", "--json")
    assert listed.returncode == 0, listed.stderr
    document = json.loads(listed.stdout)
    found = {
        kind: {each[name] for each in document[kind]}
        for kind, name in (("assets", "asset_key"), ("asset_checks", "key"), ("jobs", "name"), ("sensors", "name"))
    }
    assert {"bronze/sales", "candidate/recent_sales", "gold/sales_monthly"} <= found["assets"]
    assert {"validation/recent_sales:schema", "bronze/sales:unique_key"} <= found["asset_checks"]
    assert {"backfill_plan", "backfill_decide", "backfill_daily_tables"} <= found["jobs"]
    assert {"backfill_follow", "backfill_propose"} <= found["sensors"]
    assert "virtual environment" not in listed.stderr


@pytest.mark.long
def test_dg_checks_the_definitions(tmp_path: Path) -> None:
    checked = dg(tmp_path / "home", "check", "defs")
    assert (checked.returncode, "All definitions loaded successfully." in checked.stdout) == (0, True), checked.stderr


@pytest.mark.long
def test_dg_check_fails_with_the_sentence_of_a_domain_that_cannot_be_loaded(tmp_path: Path) -> None:
    refused = dg(tmp_path, "check", "defs", BACKFILL_DOMAIN="no_such_domain")
    assert refused.returncode != 0
    assert "no_such_domain" in refused.stdout + refused.stderr


@pytest.mark.long
def test_dg_dev_serves_the_code_location_under_the_name_that_runs_of_commands_have(tmp_path: Path) -> None:
    program, port, given = (DG, "dev"), free_port(), {**environment(tmp_path / "home"), **SILENT}
    with dagster(*program, port=port, environment=given, folder=tmp_path / "dagster", workspace=False) as address:
        (repository,) = ask(address, REPOSITORY)["repositoriesOrError"]["nodes"]
    assert repository["location"] == {"name": "backfill_assets"}
    assert {"name": "backfill_plan"} in repository["jobs"]
    assert {"assetKey": {"path": ["gold", "sales_monthly"]}} in repository["assetNodes"]
    assert {"name": "backfill_follow"} in repository["sensors"]
