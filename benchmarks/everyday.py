"""B11: how long the commands that look after a home take when it has years of days.

Makes a home whose source and derived table have that many days, and asks each command as a person does: in a process of
its own, with a Spark server that stays, because `check` computes every transform over no rows. A figure of its own is
the processor time of that process, which says more on a machine that does other work.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from figures import Figure, Watch
from restatements import governed, planned
from small_world import FIRST_DAY, SILVER, World, output

BACKFILL = Path(sys.executable).with_name("backfill")
COMMANDS = (("status",), ("report",), ("check",), ("audit", "--quick"), ("vacuum", "--dry-run"))
GOAL_S = 2.0


def measure(world: World, *, days: int, rounds: int, warm_ups: int) -> Sequence[Figure]:
    """The figures of a home with two tables of so many days, published in one run each."""
    with world.home(f"everyday-{days}", days=days, items=lambda _: 1) as ws:
        governed(ws, Watch(), planned(ws, SILVER, output(days), "1.0.0"), "first publication")
        environment = environment_of(ws.settings.home, "bench_domain", FIRST_DAY.isoformat())
        return asked_of(environment, what=f"2 tables of {days:,} days", rounds=rounds, warm_ups=warm_ups)


def environment_of(home: Path, domain: str, first_day: str) -> Mapping[str, str]:
    """The settings of a command that is asked of a home."""
    return {
        **os.environ,
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": domain,
        "BACKFILL_FIRST_DAY": first_day,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }


def asked_of(environment: Mapping[str, str], *, what: str, rounds: int, warm_ups: int) -> Sequence[Figure]:
    """The figures of one home; every command is asked before, which warms the disk's cache."""
    wall, own = Watch(), Watch()
    with _server(environment):
        runs = json.loads(_answered(environment, ("status", "--json"), Watch(), Watch()))["runs"]
        for round_ in range(-warm_ups, rounds):
            for command in COMMANDS:
                words = (*command, runs[0]["run_id"]) if command == ("report",) else command
                _answered(environment, words, *((wall, own) if round_ >= 0 else (Watch(), Watch())))
    names = [" ".join(command) for command in COMMANDS]
    return [
        figure
        for name in names
        for figure in (
            Figure(name="B11", what=f"{name}, {what}", measured=wall.seconds[name], goal=GOAL_S),
            Figure(name="B11", what=f"{name}, {what}: its own processor time", measured=own.seconds[name]),
        )
    ]


@contextmanager
def _server(environment: Mapping[str, str]) -> Iterator[None]:
    started = subprocess.run([BACKFILL, "up", "--json"], env=environment, capture_output=True, text=True, check=True)
    try:
        yield
    finally:
        if json.loads(started.stdout)["is_new"]:
            subprocess.run([BACKFILL, "down"], env=environment, capture_output=True, check=True)


def _answered(environment: Mapping[str, str], words: Sequence[str], wall: Watch, own: Watch) -> str:
    name = "report" if words[0] == "report" else " ".join(words)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([BACKFILL, *words], env=environment, capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"backfill {' '.join(words)}: {done.stdout}{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall.seconds.setdefault(name, []).append(took)
    own.seconds.setdefault(name, []).append(used)
    print(f"{took:8.2f} s, {used:6.2f} s of the processor  {' '.join(words)}", flush=True)
    return done.stdout
