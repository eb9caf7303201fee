"""How is a process killed exactly between two durable steps?

One process imports everything and starts nothing; every victim is forked from it, which saves seconds each. A victim
acts, says at the wanted place that it is there, and waits; the harness kills it and its JVM from outside, with
SIGKILL, as the kernel or a cluster manager would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from backfill_assets.core.crash_points import Point
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.homes import opened
from backfill_assets_tests.faults.scenario import Notes
from backfill_assets_tests.faults.scenarios import SCENARIOS
from backfill_assets_tests.support import operations

RECOVER = "recover"
"""The act of a recovery, whatever the scenario."""


class Victims:
    """Where victims come from. Use it as a context; it ends with the block."""

    def __init__(self) -> None:
        self._source = subprocess.Popen(
            [sys.executable, "-m", "backfill_assets_tests.faults.dying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Victims:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._source.stdin is not None
        assert self._source.stdout is not None
        self._source.stdin.close()
        self._source.wait(timeout=60)
        self._source.stdout.close()

    def killed(self, home: Path, act: str, notes: Notes, *, visit: int, hours: int) -> Point | None:
        """Lets a victim act in a home until it has reached so many places, and kills it there.

        Args:
            home: The home.
            act: The name of a scenario, or `RECOVER`.
            notes: What the scenario's preparation left.
            visit: The number of the place, from 0.
            hours: When it acts, after the preparation.

        Returns:
            The place; None when it ended before it got there.
        """
        assert self._source.stdin is not None
        assert self._source.stdout is not None
        asked = {"home": str(home), "act": act, "notes": dict(notes), "visit": visit, "hours": hours}
        self._source.stdin.write(json.dumps(asked) + "\n")
        self._source.stdin.flush()
        found: Point | None = None
        failure: AssertionError | None = None
        while line := self._source.stdout.readline():
            if not line.startswith("{"):
                continue  # what Spark says while it starts
            said = json.loads(line)
            match said["what"]:
                case "reached":
                    os.killpg(said["pid"], signal.SIGKILL)
                    found = Point[said["point"]]
                case "failed":
                    failure = AssertionError(f"{act} in a process of its own: {said['error']}")
                case "gone" if failure is not None:
                    raise failure
                case "gone":
                    return found
                case _:
                    pass
        raise AssertionError("the process that victims come from has ended")


def _say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _act(asked: dict[str, Any]) -> None:
    visits = 0

    def reached(point: Point) -> None:
        nonlocal visits
        if visits == asked["visit"]:
            _say(what="reached", point=point.name, pid=os.getpid())
            while True:
                signal.pause()
        visits += 1

    shop = opened(Path(asked["home"]), hours=asked["hours"])
    ws = replace(shop.ws, reached=reached)
    act(ws, asked["act"], asked["notes"])
    _say(what="ended")


def act(ws: Workspace, name: str, notes: Notes) -> None:
    """Does what a scenario does, or recovers."""
    if name == RECOVER:
        operations.recover(ws, by="ops")
    else:
        SCENARIOS[name].act(ws, notes)


def main(lines: Sequence[str] | None = None) -> None:
    """Forks a victim for every line of standard input."""
    for line in lines or sys.stdin:
        pid = os.fork()
        if pid:
            # Until all of its threads are gone, a killed process still holds its locks.
            os.waitpid(pid, 0)
            _say(what="gone")
            continue
        os.setsid()  # so that it is killed together with its JVM
        try:
            _act(json.loads(line))
            sys.stdout.flush()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - it is reported, and the process ends
            _say(what="failed", error=traceback.format_exc())
            os._exit(1)


if __name__ == "__main__":
    main()
