"""What does governing cost? Every figure is a ratio against what is measured in the same run, in turns.

    .venv/bin/python benchmarks/bench.py [--size small|full] [--only B1,B2] [--traffic-fines PATH]

B1 compares a governed restatement with the bare script: the same transform, the same files read, the same days
overwritten; with a release that changes no row, one in a hundred, and all of them. B6 says where its time goes. B2
compares a publication and a rollback with a Delta overwrite of the same days, B3 a governed run with stock Dagster,
which has a run for every day. B5 shows how time grows with rows, B8 how long the first task takes, B10 what one
corrected event costs. B9, with the traffic fines, compares the bare script with DuckDB. B4 is `planning.py`, B7
`landing.py`.

The small size shows that everything still runs; only a larger one says how fast it is. Results are written to
`results.json` and `RESULTS.md` in the folder of `--results`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import commands
import everyday
import growth
import per_partition
import publications
import restatements
import traffic_fines
from figures import Figure, as_table, results, write
from small_world import World, opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured.

    Attributes:
        days: Days of the restatement.
        items: Rows of each of them.
        partitions: The numbers of partitions that are published.
        growth: By what the rows of a day are multiplied.
        rounds: How often each pair is measured.
        stock_runs: How many days are computed by a run of stock Dagster of their own.
        cases: The cases of the demo, in one of which an event is corrected.
    """

    days: int
    items: int
    partitions: tuple[int, ...]
    growth: tuple[int, ...]
    rounds: int
    stock_runs: int
    cases: int


MOST_OF_A_SMALL_DAY = 1_000
"""Rows of a day for what is about the number of runs, not of rows."""

SIZES = {
    "small": Size(days=4, items=500, partitions=(30,), growth=(1, 3), rounds=1, stock_runs=1, cases=50),
    "medium": Size(days=30, items=20_000, partitions=(30, 365), growth=(1, 3, 10), rounds=3, stock_runs=5, cases=400),
    "full": Size(
        days=365, items=137_000, partitions=(30, 365, 3_650), growth=(1, 3, 10, 30), rounds=3, stock_runs=10, cases=400
    ),
}

BENCHES: Mapping[str, Callable[[World, Size], Sequence[Figure]]] = {
    "B1": lambda world, size: restatements.measure(world, days=size.days, items=size.items, rounds=size.rounds),
    "B2": lambda world, size: publications.measure(world, partitions=size.partitions, rounds=size.rounds),
    "B3": lambda world, size: per_partition.measure(
        world, days=size.days, items=min(size.items, MOST_OF_A_SMALL_DAY), runs=size.stock_runs
    ),
    "B5": lambda world, size: growth.measure(world, items=size.items, times=size.growth),
    "B8": lambda world, size: commands.first_tasks(world, rounds=size.rounds),
    "B10": lambda world, size: commands.small_restatements(world.folder, cases=size.cases, rounds=size.rounds),
    "B11": lambda world, size: everyday.measure(world, days=max(size.partitions), rounds=size.rounds),
}


def main() -> None:
    """Measures, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", default=",".join(BENCHES), help="such as B1,B2")
    parser.add_argument("--traffic-fines", type=Path, help="the folder of the log, to restate a quarter of it as well")
    parser.add_argument("--results", type=Path, help="where the results are written; only printed without it")
    asked = parser.parse_args()
    size, figures = SIZES[asked.size], []
    home = Path(tempfile.mkdtemp(prefix="backfill-bench-"))
    try:
        with opened(home / "made-up") as world:
            if asked.traffic_fines:
                figures += traffic_fines.measure(home / "fines", asked.traffic_fines, rounds=size.rounds)
            for name in asked.only.split(","):
                figures += BENCHES[name](world, size)
            found = results(figures, size=asked.size, rounds=size.rounds, spark=world.ws.spark())
    finally:
        shutil.rmtree(home)
    print(as_table(found))
    if asked.results:
        write(found, asked.results)


if __name__ == "__main__":
    main()
