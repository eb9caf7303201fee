from __future__ import annotations

import json

from backfill_assets.ledger.states import (
    TRANSITIONS,
    ActState,
    ApprovalState,
    ChunkState,
    ImportState,
    PublicationState,
    ReplayState,
    RunState,
    SetState,
    VersionState,
    may_follow,
)

KINDS = (
    RunState,
    ApprovalState,
    PublicationState,
    VersionState,
    ImportState,
    ChunkState,
    SetState,
    ReplayState,
    ActState,
)
EVERY = [state for kind in KINDS for state in kind]


def test_every_state_has_its_own_transitions() -> None:
    assert len(TRANSITIONS) == len(EVERY)
    assert list(TRANSITIONS) == EVERY


def test_a_step_stays_within_one_kind() -> None:
    assert all(type(present) is type(after) for present, following in TRANSITIONS.items() for after in following)


def test_states_of_one_name_and_two_kinds_are_two_states() -> None:
    assert RunState.PUBLISHED != PublicationState.PUBLISHED
    assert may_follow(RunState.PUBLISHED, RunState.SUPERSEDED)
    assert not may_follow(PublicationState.PUBLISHED, PublicationState.ABANDONED)
    assert may_follow(RunState.FAILED, RunState.STAGING)


def test_a_state_is_its_name_as_a_text() -> None:
    assert RunState.PUBLISHED == "PUBLISHED"
    assert f"{RunState.PUBLISHED}" == "PUBLISHED"
    assert json.dumps({RunState.PUBLISHED: RunState.FAILED}) == '{"PUBLISHED": "FAILED"}'
