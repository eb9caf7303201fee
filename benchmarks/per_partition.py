"""B3: the days of a year in one governed run, against stock Dagster with a run for every day.

    .venv/bin/python benchmarks/bench.py --only B3

A run of stock Dagster is a process with a Spark of its own. A few are measured, and their median stands for every day.
The governed run is a process of `backfill run`, which starts a Spark as well, and one of `backfill publish`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, Watch
from restatements import planned
from small_world import FIRST_DAY, SILVER, World, output


def measure(world: World, *, days: int, items: int, runs: int) -> Sequence[Figure]:
    """The figure for so many days, of which so many are computed by a run of their own."""
    watch, bin_folder = Watch(), Path(sys.executable).parent
    with world.home("per-partition", days=days, items=lambda _: items) as ws:
        home = ws.settings.home
        environment = {
            **os.environ,
            "BACKFILL_HOME": str(home),
            "BACKFILL_DOMAIN": "bench_domain",
            "BACKFILL_FIRST_DAY": FIRST_DAY.isoformat(),
            "BENCH_HOME": str(home),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        }

        def run(what: str, *words: str, **more: str) -> None:
            with watch.on(what):
                done = subprocess.run(
                    [bin_folder / words[0], *words[1:]],
                    env={**environment, **more},
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")

        run_id = planned(ws, SILVER, output(days), "3.0.0")
        with watch.on("one governed run"):
            run("`backfill run`", "backfill", "run", run_id, "--by", "ana")
            run("`backfill publish`", "backfill", "publish", run_id, "--by", "ben")
        with tempfile.TemporaryDirectory() as dagster_home:
            for day in list(output(days))[:runs]:
                words = ("asset", "materialize", "-m", "stock_dagster", "--select", "items", "--partition", f"{day}")
                run("a run of stock Dagster", "dagster", *words, DAGSTER_HOME=dagster_home)
        left = len(list((home / "bare").glob("day=*")))
        if left != runs:
            raise RuntimeError(f"{runs} runs of stock Dagster left {left} days")
    governed = watch.seconds["one governed run"]
    stock = [statistics.median(watch.seconds["a run of stock Dagster"]) * days]
    return [
        Figure(
            name="B3",
            what=f"{days} days in runs of stock Dagster ({runs} of them measured)",
            against="one governed run",
            measured=stock,
            base=governed,
        ),
        Figure(name="B3", what=f"{days} days in one governed run, with two commands", measured=governed),
    ]
