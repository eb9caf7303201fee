"""The publication protocol holds in every state that it can reach, and needs each of its guards for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from backfill_assets_tests.protocol.model import Model
from backfill_assets_tests.protocol.search import search
from backfill_assets_tests.protocol.state import Guard, Process, State, history

BACKFILL = Process(name="backfill", kind="publish", run="a")
LIVE = Process(name="live", kind="publish", run="b")
TWIN = Process(name="twin", kind="publish", run="a")
ROLLBACK = Process(name="rollback", kind="rollback", run="z")
RECOVER = Process(name="recover", kind="recover")
OTHER_RECOVER = Process(name="other recover", kind="recover")
VACUUM = Process(name="vacuum", kind="vacuum")
APPEND = Process(name="stranger", kind="append")
RESTORE = Process(name="restorer", kind="restore")
WITHDRAW = Process(name="ben", kind="withdraw", run="a")
STAGE_AGAIN = Process(name="stager", kind="stage again", run="a")
AGREE_AGAIN = Process(name="cleo", kind="agree", run="z")
PUBLISH_AGAIN = Process(name="again", kind="publish", run="z")
EMPTY = Process(name="empty", kind="publish", run="e")
EMPTY_TOO = Process(name="empty too", kind="publish", run="f")
WORKER = Process(name="worker", kind="work", run="a")
OTHER_WORKER = Process(name="other worker", kind="work", run="a")
CANCEL = Process(name="ana", kind="cancel", run="a")
CANCEL_UNDONE = Process(name="ana", kind="cancel", run="z")
TAKE_OVER = Process(name="ops", kind="take over", run="a")
PAUSE = Process(name="the machine", kind="pause", run="worker")
TIME = Process(name="time", kind="time")


def planned(state: State) -> State:
    """Nothing of run `a` is staged."""
    return replace(state, runs={**state.runs, "a": replace(state.runs["a"], state="PLANNED", files={}, gated={})})


def damaged(state: State) -> State:
    """A staged file is gone before any actor acts."""
    return replace(state, files=state.files - {"a-0"})


def found_equal(state: State) -> State:
    """Run `z` had found everything equal: `earlier` changed nothing, and readers see `o`."""
    o = {0: frozenset({"o-0"}), 1: frozenset({"o-1"})}
    earlier = replace(state.publications["earlier"], expected={}, versions={}, new={}, equal=o)
    return replace(
        state,
        table=(o[0], o[1], state.table[2]),
        version=1,
        told={},
        publications={"earlier": earlier},
        accepted=((1, o[0]), (1, o[1]), state.accepted[2]),
        highest=(1, 1, 0),
        runs={
            **state.runs,
            "z": replace(state.runs["z"], is_equal=True),
            "b": replace(state.runs["b"], compared={1: o[1]}),
        },
        landed={},
    )


INSTANCES: Mapping[str, State] = {
    "two publishers and a recovery": history(BACKFILL, LIVE, RECOVER),
    "the same run twice and a recovery": history(BACKFILL, TWIN, RECOVER),
    "a rollback, a publisher and a recovery": history(ROLLBACK, BACKFILL, RECOVER),
    "a publisher and two recoveries": history(BACKFILL, RECOVER, OTHER_RECOVER),
    "a publisher, a stranger and a recovery": history(BACKFILL, APPEND, RECOVER),
    "a rollback, a restoring stranger and a recovery": history(ROLLBACK, RESTORE, RECOVER),
    "a publisher, vacuum and a recovery": history(BACKFILL, VACUUM, RECOVER),
    "a rollback, vacuum and a recovery": history(ROLLBACK, VACUUM, RECOVER),
    "vacuum and a restoring stranger": history(VACUUM, RESTORE, LIVE),
    "vacuum and a run that is staged again": history(VACUUM, STAGE_AGAIN, LIVE),
    "a publisher whose approval is withdrawn": history(BACKFILL, WITHDRAW, RECOVER),
    "a publisher whose run is staged again": history(BACKFILL, STAGE_AGAIN, RECOVER),
    "two publishers of an empty partition": history(EMPTY, EMPTY_TOO, RECOVER),
    "a staged file that is gone": history(BACKFILL, RECOVER, change=damaged),
    "what was rolled back is published again": history(ROLLBACK, AGREE_AGAIN, PUBLISH_AGAIN, RECOVER),
    "what had changed nothing is rolled back and published again": history(
        ROLLBACK, AGREE_AGAIN, PUBLISH_AGAIN, RECOVER, change=found_equal
    ),
    "what had changed nothing is rolled back beside a publisher": history(ROLLBACK, LIVE, RECOVER, change=found_equal),
    "a worker that sleeps and a recovery": history(WORKER, PAUSE, TIME, RECOVER, change=planned),
    "a worker that sleeps and another one": history(WORKER, PAUSE, TIME, OTHER_WORKER, change=planned),
    "a worker whose run is taken over, and another one": history(WORKER, TAKE_OVER, OTHER_WORKER, change=planned),
    "a worker that is cancelled, and a recovery": history(WORKER, CANCEL, RECOVER, change=planned),
    "a worker that is cancelled, and another one": history(WORKER, CANCEL, OTHER_WORKER, change=planned),
    "a run that is staged again, published and cancelled": history(WORKER, BACKFILL, CANCEL, RECOVER),
    "what was rolled back is cancelled and published again": history(
        ROLLBACK, AGREE_AGAIN, PUBLISH_AGAIN, CANCEL_UNDONE, RECOVER
    ),
    "a worker that is cancelled, and vacuum": history(WORKER, CANCEL, VACUUM, change=planned),
    "a worker whose run is taken over, and vacuum": history(WORKER, TAKE_OVER, VACUUM, change=planned),
    "two rollbacks": history(ROLLBACK, replace(ROLLBACK, name="rollback too"), RECOVER),
}


SHOWN_BY: Mapping[Guard, str] = {
    Guard.INTENT_FIRST: "two publishers and a recovery",
    Guard.ONE_OPEN: "two publishers of an empty partition",
    Guard.SAME_TARGET: "two publishers and a recovery",
    Guard.APPROVAL: "a publisher whose approval is withdrawn",
    Guard.GATED_FILES: "a publisher whose run is staged again",
    Guard.NOT_REMOVED: "a rollback, vacuum and a recovery",
    Guard.REQUIRE_FILES: "a staged file that is gone",
    Guard.COMPARE: "a publisher, a stranger and a recovery",
    Guard.ONE_HANDLE: "a publisher, a stranger and a recovery",
    Guard.ONE_COMMIT: "two publishers and a recovery",
    Guard.APPLICATION_TRANSACTION: "two publishers and a recovery",
    Guard.ASK_BEFORE_COMMIT: "a publisher whose approval is withdrawn",
    Guard.FENCE: "a publisher and two recoveries",
    Guard.FENCE_ONE_HANDLE: "a publisher, a stranger and a recovery",
    Guard.UNKNOWN_STAYS_OPEN: "two publishers and a recovery",
    Guard.CONDITIONAL_STEP: "a worker that is cancelled, and a recovery",
    Guard.FINISH_TWICE: "a publisher and two recoveries",
    Guard.RUN_HELD: "a publisher whose run is staged again",
    Guard.VACUUM_CANDIDATES: "a publisher, vacuum and a recovery",
    Guard.VACUUM_OPEN: "a rollback, vacuum and a recovery",
    Guard.VACUUM_LIVE: "vacuum and a restoring stranger",
    Guard.VACUUM_LISTS_FIRST: "vacuum and a run that is staged again",
    Guard.VACUUM_MOVED: "a rollback, vacuum and a recovery",
    Guard.VACUUM_LOOKS_AGAIN: "vacuum and a restoring stranger",
    Guard.VACUUM_BEING_WRITTEN: "a worker whose run is taken over, and vacuum",
    Guard.HOLDER: "a worker whose run is taken over, and another one",
    Guard.LEASE_LEFT_ALONE: "a worker that sleeps and a recovery",
    Guard.LEASE_RENEWED: "a worker that sleeps and a recovery",
    Guard.LEASE_GIVEN_UP: "a worker that sleeps and a recovery",
    Guard.CANCEL_UNSEEN: "a worker that is cancelled, and a recovery",
    Guard.CANCELLED_IS_FINAL: "a worker that is cancelled, and a recovery",
}
"""An instance that goes wrong without a guard."""


@pytest.mark.parametrize("name", INSTANCES)
def test_no_reachable_state_is_wrong(name: str) -> None:
    found = search(Model(), INSTANCES[name])
    assert found.wrong is None, (found.wrong, found.way)
    assert found.states > 10


@pytest.mark.parametrize("guard", Guard)
def test_without_any_one_guard_a_wrong_state_can_be_reached(guard: Guard) -> None:
    found = search(Model(without=frozenset({guard})), INSTANCES[SHOWN_BY[guard]])
    assert found.wrong, f"nothing needs {guard}"
