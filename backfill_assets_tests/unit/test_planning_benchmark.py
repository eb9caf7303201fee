"""The benchmark of planning runs, and what it measures is what it says; how fast is not for a test to say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.core.settings import PROJECT_ROOT


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("planning_benchmark", PROJECT_ROOT / "benchmarks" / "planning.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    monkeypatch.syspath_prepend(str(PROJECT_ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_benchmark_of_planning_runs_with_small_sizes(benchmark: ModuleType, tmp_path: Path) -> None:
    size = benchmark.Size(layers=3, days=40, window_days=5, runs_per_table=4, runs_with_small_ones=13)
    found = {(each.what, each.where): each.found for each in benchmark.timings(size, tmp_path)}
    # The day, the five after it in three tables but one that does not read it, and the ten after it in the last three.
    assert found["closure of a changed day", "memory"] == "45 partitions"
    for what in ("closure of a changed day", "closure of a changed year", "staleness, 4 runs, one source day"):
        assert found[what, "memory"] == found[what, "SQLite"] != "0 partitions"
    for runs in (4, 13):
        assert found[f"staleness, {runs} runs, nothing changed", "SQLite"] == "0 partitions in 0 ranges"
        assert found[f"staleness, {runs} runs, one source day", "SQLite"] == "12 partitions in 2 ranges"
