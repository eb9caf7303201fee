"""Runs over the same partitions, of which one has priority: the other waits, and never overwrites it unseen."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.application.sensor_work import approved
from backfill_assets.core.errors import TargetChanged
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.report.what_next import next_step
from backfill_assets.requests.errors import ComesAfter
from backfill_assets.requests.obstacles import IN_ITS_TURN, Publishing, is_met
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.by_hand import Hand

FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)
URGENT = Limits(chunk_partitions=100, priority=5)


def test_a_run_waits_for_one_of_a_higher_priority_and_is_planned_again_when_that_is_published(hand: Hand) -> None:
    usual = hand.silver({FIFTH: 40, SIXTH: 40})
    urgent = hand.silver({SIXTH: 50}, limits=URGENT)
    with pytest.raises(
        ComesAfter, match=f"run {usual} waits for {urgent}, which has priority 5 over 2026-01-06"
    ) as waits:
        hand.publish(usual)
    assert advised(waits.value) == f"publish or cancel that one first: backfill status {urgent}"
    with hand.ws.ledger.read() as tx:
        assert worded(next_step(hand.ws, tx, tx.runs.get(usual))) == (
            f"{urgent} has priority and is PASSED; publish or cancel it first: backfill status {urgent}"
        )
        assert is_met(Publishing(ws=hand.ws, tx=tx, run=tx.runs.get(urgent)), *IN_ITS_TURN)
    assert approved(hand.ws) == (urgent,), "the sensor leaves it waiting as well"
    hand.publish(urgent)
    with pytest.raises(TargetChanged) as overtaken:
        hand.publish(usual)
    with hand.ws.ledger.read() as tx:
        assert worded(next_step(hand.ws, tx, tx.runs.get(usual))) == (
            f"silver.recent_sales changed since {usual} was compared with it: {advised(overtaken.value)}"
        )
        accepted = tx.versions.accepted("silver.recent_sales", [FIFTH, SIXTH])
        assert accepted[SIXTH].run_id == urgent
        assert tx.runs.get(usual).state is RunState.PASSED


@pytest.mark.parametrize("priority", [0, 4])
def test_a_cancelled_or_lower_run_and_one_over_other_days_is_waited_for_by_nobody(hand: Hand, priority: int) -> None:
    usual = hand.silver({FIFTH: 40}, limits=replace(URGENT, priority=4))
    hand.silver({FIFTH: 50}, limits=replace(URGENT, priority=priority))
    hand.silver({SIXTH: 50}, limits=URGENT)
    cancelled = hand.silver({FIFTH: 60}, limits=URGENT)
    with pytest.raises(ComesAfter):
        hand.publish(usual)
    operations.cancel(hand.ws, cancelled, by="ana", reason="not urgent after all")
    assert hand.publish(usual)


def test_a_set_waits_as_a_whole_and_is_not_stopped_when_it_is_half_way(hand: Hand) -> None:
    set_id = hand.set_of({FIFTH: 40})
    operations.approve(hand.ws, set_id, by="ben")
    urgent = hand.silver({FIFTH: 50}, limits=URGENT)
    with pytest.raises(ComesAfter, match=urgent):
        operations.publish_set(hand.ws, set_id, by="ben")
    with hand.ws.ledger.write() as tx:
        tx.sets.move(set_id, SetState.PUBLISHING, actor="ben")
    with hand.ws.ledger.read() as tx:
        member = tx.runs.get(tx.sets.get(set_id).manifest.members[0].run_id)
        assert is_met(Publishing(ws=hand.ws, tx=tx, run=member), *IN_ITS_TURN)
