"""What could not be followed is tried, given up, listed and cleared, one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from dagster import DagsterRunStatus

from backfill_assets.application.sensor_work import clear
from backfill_assets.core.errors import Refused, UnknownName
from backfill_assets.core.people import Sensor
from backfill_assets.domain import Reference
from backfill_assets.planning.request import PlanRequest, TableSpec
from backfill_assets.report.status import status
from backfill_assets.transforms.errors import ReferenceNotRead
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.by_hand import JANUARY, Hand
from backfill_assets_tests.support.hand_made import GOLD
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.ticks import Ticks

FIFTH = date(2026, 1, 5)


@pytest.mark.long
def test_what_cannot_be_planned_is_given_up_shown_and_cleared(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_ws: Workspace, _name: str) -> TableSpec:
        raise ReferenceNotRead(reference="calendar", place="/references", is_named=False)

    publication = hand.published({FIFTH: 15})
    ticks = Ticks(hand.ws)
    with ticks.open(), monkeypatch.context() as patch:
        Seam.TERMS_OF_FOLLOW_UPS.put(patch, broken)
        for _ in range(4):
            assert ticks.asked("follow") == ()
        assert ticks.said == (
            f"follow has given up {publication} ({GOLD}: the reference calendar cannot be read from /references). "
            f"To try again: backfill clear {publication} --by NAME. To let dependents be as they are: "
            f"backfill follow --cancel {publication} --by NAME --reason WHY"
        )
        (stuck,) = status(hand.ws).stuck
        assert (stuck.work.subject, worded(stuck.clear)) == (publication, f"backfill clear {publication} --by NAME")
        with pytest.raises(Refused, match="reserved for the system"):
            clear(hand.ws, publication, by="sensor")
        # Cleared, it is tried three times more; nothing else can be cleared.
        assert clear(hand.ws, publication, by="ben").cleared_by == "ben"
        assert status(hand.ws).stuck == ()
        with pytest.raises(UnknownName, match="no sensor has given up"):
            clear(hand.ws, publication, by="ben")
        for _ in range(3):
            assert status(hand.ws).stuck == ()
            ticks.asked("follow")
        assert [each.work.subject for each in status(hand.ws).stuck] == [publication]
    with ticks.open():
        clear(hand.ws, publication, by="ben")
        assert [request.job_name for request in ticks.asked("follow")] == ["backfill_monthly_tables"]
    assert (status(hand.ws).stuck, audit(hand.ws).problems) == ((), ())


@pytest.mark.long
def test_what_was_tried_in_vain_is_listed_also_by_a_tick_that_cannot_plan(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_ws: Workspace, _name: str) -> TableSpec:
        raise ReferenceNotRead(reference="calendar", place="/references", is_named=False)

    publication = hand.published({FIFTH: 15})
    with monkeypatch.context() as patch:
        Seam.TERMS_OF_FOLLOW_UPS.put(patch, broken)
        for _ in range(3):
            assert operations.plan_follow_ups(hand.ws, by="ops").runs == ()
    holidays = Reference(name="holidays", parse=lambda content: content)
    ticks = Ticks(hand.ws)
    with ticks.open():
        ticks.ws = replace(hand.ws, domain=replace(hand.ws.domain, references=(holidays,)))
        assert ticks.asked("follow") == ()
        assert "the reference holidays cannot be read" in ticks.said
        assert f"follow has given up {publication}" in ticks.said
    with hand.ws.ledger.read() as reader:
        assert [work.subject for work in reader.stuck.work(Sensor.FOLLOW)] == [publication]
    assert [each.work.subject for each in status(hand.ws).stuck] == [publication]
    # A person has computed the month meanwhile: the next tick that can plan finds that nothing is asked for any more.
    run_id = operations.plan(hand.ws, PlanRequest(table=GOLD, days=JANUARY, reason="by hand", by="ana")).manifest.run_id
    operations.approve(hand.ws, run_id, by="ben")
    hand.publish(hand.month(run_id))
    with ticks.open():
        ticks.ws = hand.ws
        assert (ticks.asked("follow"), ticks.said) == ((), "Every publication has been followed.")
    assert (status(hand.ws).stuck, audit(hand.ws).problems) == ((), ())


def test_a_run_that_fails_three_times_is_given_up_until_it_is_cleared_and_launches_by_hand_do_not_count(
    hand: Hand,
) -> None:
    hand.published({FIFTH: 15})
    ticks = Ticks(hand.ws)
    with ticks.open():
        (first,) = ticks.asked("follow")
        run_id = first.tags["backfill/run_id"]
        for _ in range(5):
            ticks.recorded(first, DagsterRunStatus.FAILURE, by_hand=True)
        keys = []
        for _ in range(3):
            (request,) = ticks.asked("follow")
            keys.append(request.run_key)
            under_way = ticks.recorded(request, DagsterRunStatus.STARTED)
            assert ticks.asked("follow") == (), "while it is under way, it is not asked for again"
            ticks.fails(under_way)
        assert ticks.asked("follow") == ()
        assert ticks.said.startswith(f"follow has given up {run_id} (PLANNED). To try again: backfill clear {run_id}")
        assert f"backfill cancel {run_id} --by NAME --reason WHY" in ticks.said
        clear(hand.ws, run_id, by="ben")
        (request,) = ticks.asked("follow")
        # Dagster launches a key once.
        assert [*keys, request.run_key] == [f"{run_id}:{number}" for number in (1, 2, 3, 4)]
        operations.cancel(hand.ws, run_id, by="ana", reason="not wanted")
        assert (ticks.asked("follow"), ticks.said) == ((), "Every publication has been followed.")
    assert status(hand.ws).stuck == ()
