"""The publication protocol holds in every state that it can reach, and needs each of its guards for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from backfill_assets_tests.protocol.model import Guard, Model, Process, State, history
from backfill_assets_tests.protocol.search import Found, search

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


def damaged(state: State) -> State:
    """A staged file is gone before anybody acts."""
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
    "two rollbacks": history(ROLLBACK, replace(ROLLBACK, name="rollback too"), RECOVER),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_no_reachable_state_is_wrong(name: str) -> None:
    found = search(Model(), INSTANCES[name])
    assert found.wrong is None, (found.wrong, found.way)
    assert found.states > 10


@pytest.mark.parametrize("guard", Guard)
def test_without_any_one_guard_a_wrong_state_can_be_reached(guard: Guard) -> None:
    assert first_wrong(guard).wrong, f"nothing needs {guard}"


def first_wrong(guard: Guard) -> Found:
    model = Model(without=frozenset({guard}))
    found = Found(states=0, wrong=None, way=())
    for state in INSTANCES.values():
        found = search(model, state)
        if found.wrong:
            return found
    return found
