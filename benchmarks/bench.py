"""What governing costs. Every ratio is of what is measured in the same run, in turns.

    .venv/bin/python benchmarks/bench.py [--size small|medium|full] [--only B1,B2] [--rounds N] [--results FOLDER]

The small size shows that everything still runs; only a larger one says how fast it is. With `--results`, what each
benchmark finds is written as soon as it has ended, into `results.json` and `RESULTS.md` of that folder, in place of
what it found before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import captures
import commands
import days
import everyday
import growth
import landing
import memory
import per_partition
import planning
import publications
import restatements
import traffic_fines
from figures import Figure, as_page, kept, results, write
from made_up import Size as History
from small_world import World, opened

OF_TEN_YEARS = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    days: int  #: Days of the restatement.
    items: int  #: Rows of each of them.
    partitions: tuple[int, ...]  #: The numbers of partitions that are published.
    growth: tuple[int, ...]  #: By what the rows of a day are multiplied.
    rounds: int  #: How often each pair is measured.
    warm_ups: int = 1  #: How often commands are given before they are measured.
    stock_runs: int  #: How many days are computed by a run of stock Dagster of their own.
    cases: int  #: The cases of the demo, in one of which an event is corrected.
    history: History = OF_TEN_YEARS  #: The made-up history that is planned over.
    files: int = 3_650  #: Small files that land in one call.
    records: int  #: Records of a large file that lands.
    captured: int  #: Records of a topic that is captured.
    many_days: tuple[int, ...]  #: Days of a home.


MOST_OF_A_SMALL_DAY = 1_000
"""Rows of a day for what is about the number of runs, not of rows."""

MOST_OF_A_DAY = 20_000
"""Rows of a day that are multiplied, for what executors and a driver share two cores for."""

SIZES = {
    "small": Size(
        days=4,
        items=500,
        partitions=(5,),
        growth=(1, 2),
        rounds=1,
        warm_ups=0,
        stock_runs=1,
        cases=50,
        history=History(layers=3, days=40, window_days=5, runs_per_table=4, runs_with_small_ones=13),
        files=20,
        records=2_000,
        captured=20_000,
        many_days=(2, 4),
    ),
    "medium": Size(
        days=30,
        items=20_000,
        partitions=(30, 365),
        growth=(1, 3, 10),
        rounds=3,
        stock_runs=5,
        cases=400,
        files=365,
        records=1_000_000,
        captured=1_000_000,
        many_days=(1_000, 3_000),
    ),
    "full": Size(
        days=365,
        items=137_000,
        partitions=(30, 365, 3_650),
        growth=(1, 3, 10, 30),
        rounds=3,
        stock_runs=10,
        cases=400,
        records=3_000_000,
        captured=3_000_000,
        many_days=(1_000, 3_000, 10_000),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A benchmark."""

    title: str  #: What it is about.
    measure: Callable[[Path, Size, Path | None], Sequence[Figure]]  #: Its figures, in a folder of its own.
    log: bool = False  #: Whether it needs the log of traffic fines.


def in_a_world(
    measure: Callable[[World, Size], Sequence[Figure]],
) -> Callable[[Path, Size, Path | None], Sequence[Figure]]:
    """A benchmark of made-up homes that share one Spark session."""

    def measured(folder: Path, size: Size, _: Path | None) -> Sequence[Figure]:
        with opened(folder) as world:
            return measure(world, size)

    return measured


BENCHES: Mapping[str, Bench] = {
    "B1": Bench(
        title="a governed restatement against the bare script: made-up rows",
        measure=in_a_world(
            lambda world, size: restatements.measure(world, days=size.days, items=size.items, rounds=size.rounds)
        ),
    ),
    **{
        f"B1-{span}": Bench(
            title=f"the same of a {span} of the traffic fines, and DuckDB by hand (B9)",
            measure=lambda folder, size, log, span=span: traffic_fines.measure(  # type: ignore[misc]
                folder, log, rounds=size.rounds, span=span
            ),
            log=True,
        )
        for span in traffic_fines.SPANS
    },
    "B2": Bench(
        title="publications and rollbacks of many partitions, against a Delta overwrite of the same days",
        measure=in_a_world(
            lambda world, size: publications.measure(world, partitions=size.partitions, rounds=size.rounds)
        ),
    ),
    "B3": Bench(
        title="one governed run of many days against stock Dagster, which has a run for every day",
        measure=in_a_world(
            lambda world, size: per_partition.measure(
                world, days=size.days, items=min(size.items, MOST_OF_A_SMALL_DAY), runs=size.stock_runs
            )
        ),
    ),
    "B4": Bench(
        title="planning, and finding what is stale, over ten years of days",
        measure=lambda folder, size, _: planning.measure(size.history, folder),
    ),
    "B5": Bench(
        title="how time and memory grow with rows",
        measure=in_a_world(lambda world, size: growth.measure(world, items=size.items, times=size.growth)),
    ),
    "B5-driver": Bench(
        title="the memory of the driver, with a cluster beside it",
        measure=lambda folder, size, _: memory.measure(folder, items=min(size.items, MOST_OF_A_DAY), times=size.growth),
    ),
    "B7": Bench(
        title="landing small files, and a large one against a bare load",
        measure=in_a_world(
            lambda world, size: landing.measure(
                world.ws.spark(), world.folder, files=size.files, records=size.records, rounds=size.rounds
            )
        ),
    ),
    "B8": Bench(
        title="from `backfill run` to the first task",
        measure=in_a_world(lambda world, size: commands.first_tasks(world, rounds=size.rounds, warm_ups=size.warm_ups)),
    ),
    "B10": Bench(
        title="one corrected event through three tables",
        measure=lambda folder, size, _: commands.small_restatements(
            folder, cases=size.cases, rounds=size.rounds, warm_ups=size.warm_ups
        ),
    ),
    "B11": Bench(
        title="everyday commands of a home with years of days",
        measure=in_a_world(
            lambda world, size: everyday.measure(
                world, days=max(size.partitions), rounds=size.rounds, warm_ups=size.warm_ups
            )
        ),
    ),
    "B12": Bench(
        title="the capture of a topic against the dump of a plain client",
        measure=lambda _folder, size, _: captures.measure(records=size.captured, rounds=size.rounds),
    ),
    "B13": Bench(
        title="how time and storage grow with the number of days",
        measure=in_a_world(lambda world, size: days.measure(world, counts=size.many_days)),
    ),
}


def main() -> None:
    """Measures, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", help="such as B1,B2", default=",".join(BENCHES))
    parser.add_argument(
        "--traffic-fines", type=Path, help="the folder of the log; without it its quarter and year are left out"
    )
    parser.add_argument("--rounds", type=int, help="how often each pair is measured, in place of the size's own number")
    parser.add_argument("--results", type=Path, help="where the results are written; only printed without it")
    asked = parser.parse_args()
    size = SIZES[asked.size]
    size = replace(size, rounds=asked.rounds or size.rounds)
    # Where Python keeps nothing that it compiles, commands would do that again every time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    titles = {name: bench.title for name, bench in BENCHES.items()}
    for name in asked.only.split(","):
        bench = BENCHES[name]
        if bench.log and not asked.traffic_fines:
            print(f"{name} IS NOT MEASURED: it needs --traffic-fines", flush=True)
            continue
        folder = Path(tempfile.mkdtemp(prefix="backfill-bench-"))
        try:
            figures = bench.measure(folder, size, asked.traffic_fines)
        finally:
            shutil.rmtree(folder)
        found = {name: results(figures, size=asked.size, rounds=size.rounds)}
        print(as_page(found, titles), flush=True)
        if asked.results:
            write({**kept(asked.results), **found}, asked.results, titles)


if __name__ == "__main__":
    main()
