"""A process that stops with SIGSTOP at a point of an operation, and goes on after SIGCONT.

    python -m backfill_assets_tests.faults.sleeper 'publish backfill' SWAP_INTENDED

It works in the home of `BACKFILL_HOME` and ends with one line of JSON: what it did, or why not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import pytest

from backfill_assets.application.recover import recover
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.settings import Settings
from backfill_assets.lake.swap import SwapOrder
from backfill_assets.planning.sets import is_set
from backfill_assets.requests.publish import publish_run, rollback_run
from backfill_assets.requests.rollout import rollback_set, rollback_with_dependents
from backfill_assets.upkeep.vacuum import vacuum_lake
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.operations import publish_set
from backfill_assets_tests.support.seams import Seam

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

    commit = Seam.COMMIT.present

    def sleepy(handle: Any, order: SwapOrder) -> None:
        sleep_at(BEFORE_COMMIT)
        commit(handle, order)

    ws = Workspace.open(Settings.from_environment(), reached=lambda point: sleep_at(point.name))
    try:
        with pytest.MonkeyPatch.context() as patch:
            Seam.COMMIT.put(patch, sleepy)
            act(ws, action)
    except BackfillError as error:
        said = {"error": error.category.__name__, "message": error.message, "next_step": advised(error)}
        sys.stdout.write(json.dumps(said))
        return 1
    sys.stdout.write(json.dumps({"done": action}))
    return 0


def act(ws: Workspace, action: str) -> None:
    """Does what the words of an action say."""
    match action.split():
        case ["publish", name] if is_set(name):
            publish_set(ws, name, by="ben")
        case ["rollback", name] if is_set(name):
            rollback_set(ws, name, by="ben", reason="was wrong")
        case ["rollback", name, "with", "dependents"]:
            rollback_with_dependents(ws, name, by="ben", reason="was wrong")
        case ["publish", run_id]:
            publish_run(ws, run_id, by="ben")
        case ["rollback", run_id]:
            rollback_run(ws, run_id, by="ben", reason="was wrong")
        case ["recover", name]:
            recover(ws, by="ops", only=name, now=True)
        case _:
            vacuum_lake(ws, by="vic")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
