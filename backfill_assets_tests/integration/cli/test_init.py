"""The projects that `backfill init` writes run at once: the commands of their READMEs, their tests, and Dagster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from deltalake import DeltaTable

from backfill_assets.application.new_project import new_project, project_of_file
from backfill_assets.core.clock import system_clock
from backfill_assets.report.server import Example
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.public_files import SHAPES

BIN = Path(sys.executable).parent
TABLES: Mapping[Example, str] = {
    "orders": "silver/orders_of_the_week",
    "permits": "gold/late_decisions",
    "change-feed": "silver/deliveries",
}
ROWS: Mapping[Example, tuple[int, int]] = {"orders": (86, 87), "permits": (19, 19), "change-feed": (14, 17)}
"""How many rows the source has, before and after the correction."""


@pytest.fixture(scope="module", params=get_args(Example))
def example(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def shop(example: Example, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    new_project("my_shop", example, into=folder)
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


def readme(shop: Path) -> list[str]:
    """The commands that its README publishes and corrects with; RUN and SET are the ids that are planned."""
    publish, correct, _ = re.findall(r"```sh\n(.*?)```", (shop / "README.md").read_text(), flags=re.DOTALL)
    return [
        with_ids(publish, "plan", "RUN", '["run_id"]'),
        with_ids(correct, "propose", "SET", '["proposed"][0]["set_id"]'),
    ]


def with_ids(commands: str, command: str, name: str, field: str) -> str:
    printed = f"python -c 'import json, sys; print(json.load(sys.stdin){field})'"
    plan = re.compile(rf"^(backfill {command}\b.*?)(?: +#.*)?$", flags=re.MULTILINE)
    used = re.sub(rf"\b{name}\b", f"${name}", commands)
    return plan.sub(lambda found: f"{name}=$({found[1]} --json | {printed})", used)


def numbers(shop: Path, example: Example) -> Any:
    """The number of each example that its README speaks of."""
    rows = DeltaTable(shop / "data" / "lake" / TABLES[example]).to_pyarrow_table().to_pylist()
    match example:
        case "orders":
            return {row["day"]: row["amount"] for row in rows}[date(2026, 1, 15)]
        case "permits":
            march = [row for row in rows if row["month"] == date(2026, 3, 1)]
            return {row["municipality"]: (row["decided"], row["late"]) for row in march}
        case "change-feed":
            (moved,) = [row["due_on"] for row in rows if row["order_id"] == "o-07"]
            return moved.day, sum(row["parcels"] for row in rows)


NUMBERS: Mapping[Example, tuple[Any, Any]] = {
    "orders": (336, 406),
    "permits": ({"north": (3, 2), "south": (2, 1)}, {"north": (3, 1), "south": (1, 1)}),
    "change-feed": ((12, 20), (14, 23)),
}


@pytest.mark.long
def test_the_commands_of_its_readme_publish_a_number_and_correct_it(shop: Path, example: Example) -> None:
    typed(shop, "backfill doctor || true")
    typed(shop, "backfill up")
    try:
        for commands, number, landed in zip(readme(shop), NUMBERS[example], ROWS[example], strict=True):
            typed(shop, commands)
            assert numbers(shop, example) == number
            found = {each["table"]: each for each in json.loads(typed(shop, "backfill status --json"))["tables"]}
            (source,) = [each for name, each in found.items() if name.startswith("bronze.")]
            assert source["accepted_rows"] == landed
    finally:
        typed(shop, "backfill down")
    assert not json.loads(typed(shop, "backfill stale --json"))["is_stale"]
    assert json.loads(typed(shop, "backfill audit --json"))["agrees"]


@pytest.mark.long
def test_its_own_tests_pass(shop: Path) -> None:
    assert re.match(r"\.+ ", typed(shop, "pytest -q -p no:cacheprovider"))


@pytest.mark.long
def test_dagster_loads_it(shop: Path, example: Example) -> None:
    typed(shop, "DAGSTER_HOME=$PWD dagster definitions validate -w workspace.yaml")
    keys = "from my_shop.definitions import defs; print(defs.resolve_asset_graph().get_all_asset_keys())"
    assert str(TABLES[example].split("/")) in typed(shop, f'python -c "{keys}"')


@pytest.mark.long
@pytest.mark.parametrize("name", ["stocks", "disasters", "flights", "frame", "workbook", "titles"])
def test_a_file_of_a_stranger_becomes_a_published_table_by_the_readme(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    (tmp_path / shape.file).write_bytes(shape.write())
    project_of_file("my_file", tmp_path / shape.file, into=tmp_path, clock=system_clock)
    shop = tmp_path / "my_file"
    publish = re.findall(r"```sh\n(.*?)```", (shop / "README.md").read_text(), flags=re.DOTALL)[0]
    typed(shop, "backfill doctor || true")
    typed(shop, "backfill up")
    try:
        typed(shop, with_ids(publish, "plan", "RUN", '["run_id"]'))
    finally:
        typed(shop, "backfill down")
    (published,) = (shop / "data" / "lake" / "silver").iterdir()
    rows = DeltaTable(published).to_pyarrow_table().to_pylist()
    day = next(column for column in rows[0] if column.endswith("day"))
    expected = pd.to_datetime(shape.pandas(tmp_path / shape.file)[shape.event_time])
    assert {row[day]: row["records"] for row in rows} == expected.dt.date.value_counts().to_dict()
    assert re.match(r"\.+ ", typed(shop, "pytest -q -p no:cacheprovider"))
