"""Does a home stay in order over a long story? Thirty steps that people take, in an order that a seed decides.

Orders are corrected; runs and sets are planned, run, approved, published, rolled back and cancelled; dependents follow;
processes die between any two durable steps, and `recover` comes later or much later. After every step every document
that a command prints is asked for and shown, and the tables are compared with the ledger; at the end nothing is stuck.
Real files, ledger, planning, staging, gating and publication; only what Spark computes is computed by
`spark_free_compute`.

    python -m backfill_assets_tests.faults.stories --count 200 --workers 2
    python -m backfill_assets_tests.faults.stories --seed 17
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.planning.request import PlanRequest
from backfill_assets_tests.faults.spark_free_compute import SparkFreeCompute, without_spark
from backfill_assets_tests.faults.story_generator import (
    BUILT,
    DAYS,
    SILVER,
    STEPS,
    Step,
    Story,
    StoryGenerator,
)
from backfill_assets_tests.support import operations


@contextmanager
def begun(folder: Path) -> Iterator[tuple[Path, SparkFreeCompute]]:
    """A home in which every day has landed and all three tables are published; copied for each story."""
    home = folder / "begun"
    generator = StoryGenerator(home=home, chance=random.Random(0))
    with without_spark(generator.compute):
        generator.compute.land(generator.ws, dict.fromkeys(DAYS, (10, 1)), by="ana")
        generator.load(generator.ws)
        for table in SILVER:
            request = PlanRequest(table=table, days=DayRange.inclusive(BUILT[0], BUILT[-1]), reason="first", by="ana")
            run_id = operations.plan(generator.ws, request).manifest.run_id
            generator._carry(generator.ws, run_id)
            operations.approve(generator.ws, run_id, by="ben")
            operations.publish(generator.ws, run_id, by="ben")
        generator.follow(generator.ws)
    generator.ws.close()
    yield home, generator.compute


def tell(seed: int, start: Path, compute: SparkFreeCompute, folder: Path, steps: int = STEPS) -> Story:
    """The story of a seed, up to the first step after which something is found_violations."""
    home = folder / "home"
    shutil.copytree(start, home)
    generator = StoryGenerator(
        home=home, chance=random.Random(seed), compute=SparkFreeCompute(files=dict(compute.files))
    )
    taken: list[Step] = []
    found_violations: list[str] = []
    try:
        with without_spark(generator.compute):
            for number in range(1, steps + 1):
                step, found_violations = generator.step(number)
                taken.append(step)
                found_violations += list(generator.look())
                if found_violations:
                    break
            else:
                found_violations = list(generator.end())
    finally:
        generator.ws.close()
        shutil.rmtree(home)
    return Story(seed=seed, steps=tuple(taken), violations=tuple(dict.fromkeys(found_violations)))


def tell_all(seeds: Iterable[int], steps: int = STEPS, *, progress: bool = False) -> list[Story]:
    """The stories of some seeds, in memory if the machine has a folder there."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="backfill-stories-", dir=place) as name:
        folder = Path(name)
        with begun(folder) as (start, compute):
            stories: list[Story] = []
            for seed in seeds:
                story = tell(seed, start, compute, folder, steps)
                stories.append(story)
                if progress:
                    sys.stderr.write(f"{story.text}\n" if story.violations else f"story {seed} is in order\n")
                    sys.stderr.flush()
            return stories


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code is 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m backfill_assets_tests.faults.stories")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one, and tell it")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        (story,) = tell_all([given.seed])
        sys.stdout.write(f"{story.text}\n")
        return bool(story.violations)
    began = time.monotonic()
    seeds = range(given.first_seed, given.first_seed + given.count)
    shares = [seeds[number :: given.workers] for number in range(given.workers)]
    with ProcessPoolExecutor(given.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        stories = [story for share in pool.map(partial(tell_all, progress=True), shares) for story in share]
    bad = [story for story in stories if story.violations]
    ended = Counter(f"{step.what.split()[0]} {step.ended.split(':')[0]}" for story in stories for step in story.steps)
    for what, times in sorted(ended.items()):
        sys.stdout.write(f"{what:<32}{times:>8,}\n")
    sys.stdout.write(f"{len(stories):,} stories, {len(bad)} violations, in {time.monotonic() - began:.0f} s\n")
    sys.stdout.write("\n".join(story.text for story in bad[:3]))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
