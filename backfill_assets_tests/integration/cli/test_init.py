"""The project that `backfill init` writes runs at once: the commands of its README, its tests, and Dagster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from backfill_assets.application.new_project import new_project
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    new_project("my_shop", into=folder)
    return folder / "my_shop"


def typed(shop: Path, script: str) -> str:
    """What a shell prints that has read the settings of the project."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "DAGSTER_", "PYTEST"))
    }
    environment: Mapping[str, str] = {**kept, **SPARK_ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}"}
    asked = ["bash", "-euc", f"set -a && . ./.env && set +a\n{script}"]
    ended = subprocess.run(asked, cwd=shop, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def readme(shop: Path) -> str:
    """The commands of its README, up to its tests; RUN is the id that is planned."""
    (commands, *_) = re.findall(r"```sh\n(.*?)```", (shop / "README.md").read_text(), flags=re.DOTALL)
    plan = re.compile(r"^backfill plan .*$", flags=re.MULTILINE)
    printed = "python -c 'import json, sys; print(json.load(sys.stdin)[\"run_id\"])'"
    planned = plan.sub(lambda found: f"RUN=$({found[0]} --json | {printed})", commands)
    return re.sub(r"\bRUN(?= )", "$RUN", planned).replace("$RUN=", "RUN=")


@pytest.mark.long
def test_the_commands_of_its_readme_publish_january(shop: Path) -> None:
    typed(shop, readme(shop))
    found = json.loads(typed(shop, "backfill status --json"))
    rows = {table["table"]: table["accepted_rows"] for table in found["tables"]}
    assert rows == {"bronze.orders": 86, "silver.orders_of_the_week": 31}
    assert json.loads(typed(shop, "backfill audit --json"))["agrees"]


@pytest.mark.long
def test_its_own_tests_pass(shop: Path) -> None:
    assert "7 passed" in typed(shop, "pytest -q -p no:cacheprovider")


@pytest.mark.long
def test_dagster_loads_it(shop: Path) -> None:
    typed(shop, "DAGSTER_HOME=$PWD dagster definitions validate -w workspace.yaml")
    keys = "from my_shop.definitions import defs; print(defs.resolve_asset_graph().get_all_asset_keys())"
    assert "['silver', 'orders_of_the_week']" in typed(shop, f'python -c "{keys}"')
