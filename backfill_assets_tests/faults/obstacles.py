"""Do all who ask whether a run may be published get one answer? Asked of every open run, after every step of a story.

What stands in the way of it is what publication says when it is tried, in a copy of the home; where nothing does, it is
published. The sensor waits for some of it, and the next step is to publish what nothing stands in the way of.

    python -m backfill_assets_tests.faults.obstacles --count 30
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from backfill_assets.application.freeze import freeze
from backfill_assets.application.sensor_work import approved
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Command, Invocation, NextStep
from backfill_assets.ledger.states import OPEN_STATES, ApprovalState, RunState
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.report.what_next import next_step
from backfill_assets.requests.authority import reads_approvers
from backfill_assets.requests.obstacles import Ends, Obstacle, Publishing, obstacles
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.spark_free_compute import SparkFreeCompute, without_spark
from backfill_assets_tests.faults.stories import begun
from backfill_assets_tests.faults.story_generator import DAYS, SILVER, STEPS, StoryGenerator, open_home
from backfill_assets_tests.support import operations

MOST = 6
"""So many of the newest runs are asked after each step."""


@dataclass(kw_only=True)
class Asked:
    """What was found in some stories.

    Attributes:
        ways: How often each error stood in the way, or nothing did.
        others: The answers that were not the same.
    """

    ways: Counter[str] = field(default_factory=Counter)
    others: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Asker(StoryGenerator):
    """A story generator whose stories also have freezes and runs of different priorities."""

    def step_aside(self) -> None:
        """Sometimes a freeze begins, or a run of another priority is planned."""
        chance = self.chance.random()
        table, day = self.chance.choice(SILVER), self.chance.choice(DAYS)
        days = DayRange.inclusive(day, day)
        try:
            if chance < 0.08:
                until = self.time.at + timedelta(minutes=self.chance.choice((1, 60)))
                freeze(self.ws, table, days, until=until, only=None, reason="audit", by="ana")
            elif chance < 0.2:
                request = PlanRequest(table=table, days=days, reason="urgent", by="ana", limits=AskedLimits(priority=3))
                operations.plan(self.ws, request)
        except BackfillError:
            return


@reads_approvers
def in_the_way(ws: Workspace, run_id: str) -> list[Obstacle]:
    with ws.ledger.read() as tx:
        return list(obstacles(Publishing(ws=ws, tx=tx, run=tx.runs.get(run_id))))


def published(generator: StoryGenerator, name: str) -> BackfillError | None:
    """What publication of a run or a set says in a copy of the home."""
    home = generator.home.with_name(f"copy-{random.getrandbits(48)}")
    shutil.copytree(generator.home, home)
    ws = open_home(home, generator.time)
    ws.__dict__.update({each: getattr(generator.ws, each) for each in ("references", "graph", "code")})
    try:
        (operations.publish_set if operations.is_set(name) else operations.publish)(ws, name, by="ben")
    except BackfillError as error:
        return error
    finally:
        ws.close()
        shutil.rmtree(home)
    return None


def said(error: BackfillError | None) -> str:
    return f"{type(error).__name__}: {error.message}" if error else "nothing"


def acts_of(following: NextStep | None) -> set[Command]:
    return {part.command for part in (following.parts if following else ()) if isinstance(part, Invocation)}


def ask(generator: StoryGenerator, found: Asked) -> None:
    """Asks everybody about the newest open runs."""
    ws = generator.ws
    with ws.ledger.read() as tx:
        runs = tx.runs.records(states=(*OPEN_STATES, RunState.ROLLED_BACK, RunState.CANCELLED), limit=MOST)
        by_sensor = set(approved(ws))
        steps = {run.run_id: next_step(ws, tx, run) for run in runs}
    for run in runs:
        run_id = run.run_id
        ways = in_the_way(ws, run_id)
        first = ways[0].error if ways else None
        found.ways[type(first).__name__] += 1
        if said(first) != (tried := said(published(generator, run_id))):
            found.others.append(f"{run_id} of {run.request_id}: {said(first)}, and publication says {tried}")
        if run.is_alone and run.state is RunState.PASSED:
            is_bens = run.approval is ApprovalState.APPROVED and run.approved_by == "ben"
            is_awaited = any(each.ends in (Ends.WAITING, Ends.APPROVAL) for each in ways)
            if (run_id in by_sensor) != (is_bens and not is_awaited):
                found.others.append(f"{run_id}: {said(first)}, and of the sensor {sorted(by_sensor)}")
            if (Command.PUBLISH in acts_of(steps[run_id])) != (not ways):
                found.others.append(f"{run_id}: {said(first)}, and next is {steps[run_id]}")


def tell(seed: int, start: Path, compute: SparkFreeCompute, folder: Path, found: Asked, steps: int) -> None:
    """The story of a seed, with everybody asked after every step."""
    home = folder / f"home-{seed}"
    shutil.copytree(start, home)
    generator = Asker(home=home, chance=random.Random(seed), compute=SparkFreeCompute(files=dict(compute.files)))
    before = len(found.others)
    try:
        with without_spark(generator.compute):
            for number in range(1, steps + 1):
                taken, _ = generator.step(number)
                generator.step_aside()
                ask(generator, found)
                if len(found.others) > before:
                    found.others[before] = f"seed {seed}, {taken}: {found.others[before]}"
                    return
    finally:
        generator.ws.close()
        shutil.rmtree(home)


def ask_all(seeds: Iterable[int], steps: int = STEPS) -> Asked:
    """What everybody says in the stories of some seeds."""
    memory, found = Path("/dev/shm"), Asked()
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="backfill-obstacles-", dir=place) as name:
        folder = Path(name)
        with begun(folder) as (start, compute):
            for seed in seeds:
                tell(seed, start, compute, folder, found, steps)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code is 1 when two answers differ."""
    parser = argparse.ArgumentParser(prog="python -m backfill_assets_tests.faults.obstacles")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args(arguments)
    found = ask_all(range(given.first_seed, given.first_seed + given.count))
    sys.stdout.write("".join(f"{way:<32}{many:>8,}\n" for way, many in sorted(found.ways.items())))
    sys.stdout.write("".join(f"{each}\n" for each in found.others))
    return bool(found.others)


if __name__ == "__main__":
    sys.exit(main())
