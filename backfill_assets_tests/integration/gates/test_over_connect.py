"""Gates find the same over Spark Connect: the same verdicts, rows, and values that were expected and found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.clusters import connect
from backfill_assets_tests.support.gated_there import gated
from backfill_assets_tests.support.ledgers import copy_home

OF_EACH: Mapping[str, set[str]] = {
    "wrong": {
        "as_ordered",
        "known_customer",
        "none_moved",
        "never_falls",
        "names_in_python",
        "complete_orders",
        "complete_active_orders",
        "references_customer_id",
        "known_on_the_day",
        "reconciles_amount_orders",
        "golden_known_rows",
        "monotonic_number",
        "totals_control_totals",
    },
    "far": {
        "none_moved",
        "known_customer",
        "known_on_the_day",
        "references_customer_id",
        "joins_once_orders",
        "totals_control_totals",
        "usual_rows",
    },
}
"""The gates that find something; no customer is known of the days themselves."""


@pytest.mark.long
def test_every_kind_of_gate_finds_the_same_over_spark_connect(home_of_orders: Path, tmp_path: Path) -> None:
    for name in ("here", "there"):
        copy_home(home_of_orders, tmp_path / name)
    here = json.loads(json.dumps(gated(tmp_path / "here")))
    assert {name: failed(found) for name, found in here.items()} == OF_EACH
    with connect(tmp_path, []) as settings:
        done = subprocess.run(
            [sys.executable, "-m", "backfill_assets_tests.support.gated_there", str(tmp_path / "there")],
            cwd=PROJECT_ROOT,
            env={**os.environ, **SPARK_ENVIRONMENT, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    there = json.loads(done.stdout.splitlines()[-1])
    for name, found in here.items():
        for part in ("verdicts", "rows", "read"):
            assert there[name][part] == found[part], (name, part)


def failed(found: Mapping[str, Any]) -> set[str]:
    return {gate for _, gate, passed, _ in found["verdicts"] if not passed}
