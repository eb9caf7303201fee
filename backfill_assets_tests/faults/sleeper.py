"""A process that stops with SIGSTOP at a point of an operation, and goes on when it is told to.

    python -m backfill_assets_tests.faults.sleeper 'publish backfill' SWAP_INTENDED

It works in the home of `BACKFILL_HOME` and ends with one line of JSON: what it did, or why not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from backfill_assets.application.recover import recover
from backfill_assets.crash_points import Point
from backfill_assets.errors import BackfillError
from backfill_assets.lake import swap as swapping
from backfill_assets.publication.publish import publish_run, rollback_run
from backfill_assets.settings import Settings
from backfill_assets.upkeep.vacuum import vacuum_lake
from backfill_assets.workspace import Workspace
from backfill_assets_tests.advice import advised

BEFORE_COMMIT = "BEFORE_COMMIT"
"""Between compare and commit, for which the code has no name."""


def main(action: str, where: str) -> int:
    """Acts, and sleeps once on the way."""
    slept = False

    def sleep_at(point: str) -> None:
        nonlocal slept
        if point == where and not slept:
            slept = True
            os.kill(os.getpid(), signal.SIGSTOP)

    commit = swapping._commit

    def sleepy(handle: Any, order: swapping.SwapOrder) -> None:
        sleep_at(BEFORE_COMMIT)
        commit(handle, order)

    def reached(point: Point) -> None:
        sleep_at(point.name)

    swapping._commit = sleepy
    ws = Workspace.open(Settings.from_environment(), reached=reached)
    try:
        match action.split():
            case ["publish", run_id]:
                publish_run(ws, run_id, by="ben")
            case ["rollback", run_id]:
                rollback_run(ws, run_id, by="ben", reason="was wrong")
            case ["recover"]:
                recover(ws, by="ops")
            case _:
                vacuum_lake(ws, by="vic")
    except BackfillError as error:
        said = {"error": type(error).__name__, "message": error.message, "next_step": advised(error)}
        sys.stdout.write(json.dumps(said))
        return 1
    sys.stdout.write(json.dumps({"done": action}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
