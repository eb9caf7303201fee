"""How large does Dagster's history grow by long runs, how long does writing it take, and what does pruning give back?

    .venv/bin/python benchmarks/history.py

Three assets as the project makes them (staged, gated, published) are materialized over 2,000 days with ten gates, into
Dagster's SQLite files in a folder of its own, twice; then the first run, of which no page shows anything any more, is
pruned. What they report is made up: nothing is computed, no Spark is started.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dagster import DagsterInstance

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.instance import open_instance
from backfill_assets.orchestration.recorder import prune
from backfill_assets_tests.support.dagster_history import days, gates, record_run, size_of


def main() -> None:
    """Measures, and prints a line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--gates", type=int, default=10)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--stock", action="store_true", help="Dagster's own SQLite storage, which is not pruned")
    asked = parser.parse_args()
    os.environ.pop("DAGSTER_HOME", None)
    with tempfile.TemporaryDirectory(prefix="backfill-history-") as folder:
        settings = Settings.from_environment({"BACKFILL_HOME": folder})
        if asked.stock:
            Path(folder, "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
        with DagsterInstance.from_config(folder) if asked.stock else open_instance(settings) as instance:
            for number in range(asked.runs):
                began = time.monotonic()
                record_run(instance, days(asked.partitions), gates(asked.gates))
                took, size = time.monotonic() - began, size_of(Path(folder))
                each = size / asked.partitions / (number + 1)
                print(f"run {number + 1}: {took:.1f} s; {size / 1e6:.1f} MB, {each / 1e3:.1f} KB per partition and run")
            if asked.stock:
                return
            began = time.monotonic()
            pruned = prune(instance, days=90, as_of=datetime.now(UTC) + timedelta(days=91), dry_run=False)
            took, size = time.monotonic() - began, size_of(Path(folder))
            print(
                f"pruned: {pruned.runs} of {asked.runs} runs in {took:.1f} s; {size / 1e6:.1f} MB, "
                f"{pruned.size_bytes / 1e6:.1f} MB given back"
            )


if __name__ == "__main__":
    main()
