"""Whoever asks whether a run or a set may be published gets one answer: publication, sensor and next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta

import pytest

from backfill_assets.application.freeze import freeze
from backfill_assets.application.sensor_work import approved
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import BackfillError, TargetChanged
from backfill_assets.core.next_steps import Command, Invocation, NextStep
from backfill_assets.ledger import errors as ledger
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.report.runs import run_summary
from backfill_assets.report.what_next import next_step, next_step_of_set
from backfill_assets.requests import errors
from backfill_assets.requests.obstacles import (
    OF_RUNS_OF_SETS,
    REQUIREMENTS,
    Ends,
    Obstacle,
    Publishing,
    PublishingRestatement,
    Requirement,
    obstacles,
    obstacles_of,
)
from backfill_assets_tests.faults.obstacles import ask_all
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.hand_made import SILVER

FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)
URGENT = Limits(chunk_partitions=100, priority=5)


def of_run(hand: Hand, run_id: str) -> list[Obstacle]:
    with hand.ws.ledger.read() as tx:
        return list(obstacles(Publishing(ws=hand.ws, tx=tx, run=tx.runs.get(run_id))))


def of_set(hand: Hand, set_id: str) -> list[Obstacle]:
    with hand.ws.ledger.read() as tx:
        return list(obstacles_of(PublishingRestatement(ws=hand.ws, tx=tx, record=tx.sets.get(set_id))))


def publishes(following: NextStep | None) -> bool:
    """Whether a next step is to publish, and nothing else."""
    acts = [part.command for part in (following.parts if following else ()) if isinstance(part, Invocation)]
    return acts == [Command.PUBLISH]


def refusal(publish: Callable[[], object]) -> BackfillError | None:
    try:
        publish()
    except BackfillError as error:
        return error
    return None


def assert_alike(first: BackfillError | None, second: BackfillError | None) -> None:
    assert type(first) is type(second)
    assert (first and first.message) == (second and second.message)


def passed(hand: Hand) -> str:
    return hand.silver({FIFTH: 40})


def unapproved(hand: Hand) -> str:
    run_id = passed(hand)
    with hand.ws.ledger.write() as tx:
        tx.requests.withdraw_approval(run_id, by="ben", reason="not sure any more")
    return run_id


def frozen(hand: Hand) -> str:
    run_id, until = passed(hand), hand.ws.clock() + timedelta(hours=3)
    days = DayRange.inclusive(FIFTH, FIFTH)
    freeze(hand.ws, SILVER, days, until=until, only=hand.silver({SIXTH: 1}), reason="audit", by="ana")
    return run_id


def after_another(hand: Hand) -> str:
    run_id = passed(hand)
    hand.silver({FIFTH: 50}, limits=URGENT)
    return run_id


def overtaken(hand: Hand) -> str:
    run_id = passed(hand)
    hand.published({FIFTH: 50})
    return run_id


def undone(hand: Hand) -> str:
    run_id = passed(hand)
    hand.undo(hand.publish(run_id))
    return run_id


def cancelled(hand: Hand) -> str:
    run_id = passed(hand)
    operations.cancel(hand.ws, run_id, by="ana", reason="not wanted")
    return run_id


def shown(hand: Hand) -> str:
    run_id = passed(hand)
    hand.publish(run_id)
    return run_id


def of_a_set(hand: Hand) -> str:
    set_id = hand.set_of({FIFTH: 40})
    operations.approve(hand.ws, set_id, by="ben")
    with hand.ws.ledger.read() as tx:
        return tx.sets.get(set_id).manifest.members[0].run_id


SITUATIONS: Mapping[Callable[[Hand], str], type[BackfillError] | None] = {
    passed: None,
    unapproved: errors.NotAgreed,
    frozen: errors.Frozen,
    after_another: errors.ComesAfter,
    overtaken: errors.TableChanged,
    undone: errors.NotAgreed,
    cancelled: errors.NotPublishable,
    shown: errors.NotPublishable,
    of_a_set: ledger.PartOfSet,
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
def test_what_stands_in_the_way_of_a_run_is_what_publication_says_the_sensor_waits_for_and_comes_first(
    hand: Hand, situation: Callable[[Hand], str]
) -> None:
    run_id = situation(hand)
    found = of_run(hand, run_id)
    assert [type(each.error) for each in found[:1]] == [each for each in [SITUATIONS[situation]] if each]
    # What a person has to act on is tried, and given up with the reason.
    assert (run_id in approved(hand.ws)) == (situation in (passed, overtaken))
    with hand.ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        if run.is_alone and run.state is RunState.PASSED:
            assert publishes(next_step(hand.ws, tx, run)) == (not found)
            listed = [each.why for each in run_summary(hand.ws, tx, run).in_the_way]
            assert listed == [each.error.message for each in found if each.ends is not Ends.APPROVAL]
    assert_alike(refusal(lambda: hand.publish(run_id)), found[0].error if found else None)


def phased(hand: Hand) -> str:
    set_id = hand.phased({FIFTH: 40}, {SIXTH: 40})
    operations.approve(hand.ws, set_id, by="ben")
    return set_id


def of_both(hand: Hand) -> str:
    set_id = hand.set_of({FIFTH: 40})
    operations.approve(hand.ws, set_id, by="ben")
    return set_id


def unapproved_set(hand: Hand) -> str:
    return hand.set_of({FIFTH: 40})


@pytest.mark.parametrize("situation", [of_both, phased, unapproved_set])
def test_what_stands_in_the_way_of_a_set_is_what_publication_says_the_sensor_waits_for_and_comes_first(
    hand: Hand, situation: Callable[[Hand], str]
) -> None:
    set_id = situation(hand)
    found = of_set(hand, set_id)
    assert any(name.startswith((set_id, SILVER)) for name in approved(hand.ws)) == (not found)
    with hand.ws.ledger.read() as tx:
        record = tx.sets.get(set_id)
        runs = tx.runs.named(member.run_id for member in record.manifest.members)
        assert publishes(next_step_of_set(hand.ws, tx, record, runs)) == (not found)
    refused = refusal(lambda: operations.publish_set(hand.ws, set_id, by="ben"))
    assert_alike(refused, found[0].error if found else None)


def test_a_set_of_which_a_later_table_has_changed_is_not_begun(hand: Hand) -> None:
    set_id = of_both(hand)
    hand.published({SIXTH: 50})
    (follow_up,) = operations.plan_follow_ups(hand.ws, by="ops").runs
    hand.publish(hand.month(follow_up.run_id))
    (first,) = of_set(hand, set_id)
    assert first.run is not None
    assert first.run.manifest.table == follow_up.manifest.table
    with pytest.raises(TargetChanged) as refused:
        operations.publish_set(hand.ws, set_id, by="ben")
    assert_alike(refused.value, first.error)
    with hand.ws.ledger.read() as tx:
        record = tx.sets.get(set_id)
        states = {run.state for run in tx.runs.named(member.run_id for member in record.manifest.members)}
    assert (record.state, states) == (SetState.PENDING, {RunState.PASSED})


@pytest.mark.parametrize("each", REQUIREMENTS, ids=lambda each: each.find.__name__)
def test_a_requirement_says_what_it_requires(each: Requirement[Publishing]) -> None:
    assert (each.find.__doc__ or "").strip()
    assert each in OF_RUNS_OF_SETS or each.find.__name__ in ("published_with_its_set", "after_what_it_read")


@pytest.mark.long
def test_everybody_gives_one_answer_in_stories_of_many_steps() -> None:
    found = ask_all(range(1000, 1003), 15)
    assert found.others == []
    assert {"NotAgreed", "NotPublishable", "NoneType"} <= found.ways.keys()
