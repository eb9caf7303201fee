"""`make bench` in its smallest size: every figure is measured, and nothing fails. How fast is not for a test to say.

That the statement in DuckDB makes the rows of the transform, the benchmark checks itself, on the real events.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_figure_is_measured_in_the_smallest_size(tmp_path: Path) -> None:
    command = (sys.executable, PROJECT_ROOT / "benchmarks" / "bench.py", "--size", "small", "--results", tmp_path)
    done = subprocess.run(
        command,
        cwd=PROJECT_ROOT,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT), **SPARK_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    benches = ("B1", "B2", "B3", "B4", "B5", "B5-driver", "B7", "B8", "B10", "B11", "B12", "B13")
    assert tuple(found) == benches
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert [line.split(":")[0] for line in page.splitlines() if line.startswith("## ")] == [f"## {n}" for n in benches]
    figures = [figure for result in found.values() for figure in result["figures"]]
    # Of the step that does nothing when nothing differs, the share may be none.
    assert all(value >= 0 for figure in figures for value in figure["measured"])
    assert all(figure["minimum"] > 0 for figure in figures if figure["name"] != "B6")
