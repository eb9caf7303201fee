"""Does a home stay in order over a long story? Thirty steps that people take, in an order that a seed decides.

Orders are corrected; runs and sets are planned, run, approved, published, rolled back and cancelled; dependents follow;
processes die between any two durable steps, and `recover` comes later or much later. After every step every document
that a command prints is asked for and shown, and the tables are compared with the ledger; at the end nothing is stuck.
Real files, ledger, planning, staging, gating and publication; only what Spark computes is computed on `paper`.

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
from backfill_assets_tests.faults.paper import Paper, without_spark
from backfill_assets_tests.faults.teller import (
    BUILT,
    DAYS,
    SILVER,
    STEPS,
    Step,
    Story,
    Teller,
)
from backfill_assets_tests.support import operations


@contextmanager
def begun(folder: Path) -> Iterator[tuple[Path, Paper]]:
    """A home in which every day has landed and all three tables are published; copied for each story."""
    home = folder / "begun"
    teller = Teller(home=home, chance=random.Random(0))
    with without_spark(teller.paper):
        teller.paper.land(teller.ws, dict.fromkeys(DAYS, (10, 1)), by="ana")
        teller.load(teller.ws)
        for table in SILVER:
            request = PlanRequest(table=table, days=DayRange.inclusive(BUILT[0], BUILT[-1]), reason="first", by="ana")
            run_id = operations.plan(teller.ws, request).manifest.run_id
            teller._carry(teller.ws, run_id)
            operations.approve(teller.ws, run_id, by="ben")
            operations.publish(teller.ws, run_id, by="ben")
        teller.follow(teller.ws)
    teller.ws.close()
    yield home, teller.paper


def tell(seed: int, start: Path, paper: Paper, folder: Path, steps: int = STEPS) -> Story:
    """The story of a seed, up to the first step after which something is found_violations."""
    home = folder / "home"
    shutil.copytree(start, home)
    teller = Teller(home=home, chance=random.Random(seed), paper=Paper(files=dict(paper.files)))
    taken: list[Step] = []
    found_violations: list[str] = []
    try:
        with without_spark(teller.paper):
            for number in range(1, steps + 1):
                step, found_violations = teller.step(number)
                taken.append(step)
                found_violations += list(teller.look())
                if found_violations:
                    break
            else:
                found_violations = list(teller.end())
    finally:
        teller.ws.close()
        shutil.rmtree(home)
    return Story(seed=seed, steps=tuple(taken), violations=tuple(dict.fromkeys(found_violations)))


def tell_all(seeds: Iterable[int], steps: int = STEPS, *, progress: bool = False) -> list[Story]:
    """The stories of some seeds, in memory if the machine has a folder there."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="backfill-stories-", dir=place) as name:
        folder = Path(name)
        with begun(folder) as (start, paper):
            stories: list[Story] = []
            for seed in seeds:
                story = tell(seed, start, paper, folder, steps)
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
