"""Sensors do what the ledger asks for and nothing else, whoever switches them on and off, and whatever is typed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from dagster import DefaultSensorStatus, ExecuteInProcessResult

from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.sensor_work import approved, clear, stopped
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.people import Sensor
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Reference
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import ImportState, RunState, SetState
from backfill_assets.orchestration import tags
from backfill_assets.planning.sets import is_set
from backfill_assets.report.runs import set_document
from backfill_assets.report.status import status
from backfill_assets.requests.rollout import rollback_set, rollback_with_dependents
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.ledger_examples import an_offered_file
from backfill_assets_tests.support.orchestration_examples import PUBLISHED, failures
from backfill_assets_tests.support.shop import SALES, shop_environment
from backfill_assets_tests.support.ticks import Ticks

FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)


class KilledThere(BaseException):
    """Ends an operation at a place, as a kill would."""


def run_of(hand: Hand, run_id: str) -> RunRecord:
    return operations.run_named(hand.ws, run_id)


def carried_out(ticks: Ticks, sensor: str) -> list[ExecuteInProcessResult]:
    """What a tick asks for, launched as the daemon launches it."""
    return [ticks.launched(request) for request in ticks.asked(sensor)]


def test_what_a_person_has_approved_is_published_once_in_the_name_of_no_person(hand: Hand, ticks: Ticks) -> None:
    first, second = hand.silver({FIFTH: 15}), hand.silver({SIXTH: 20})
    unapproved = hand.silver({SIXTH: 30})
    with hand.ws.ledger.write() as tx:
        tx.requests.withdraw_approval(unapproved, by="ben", reason="not yet")
    assert approved(hand.ws) == (first, second)
    assert [request.tags[tags.ON] for request in ticks.asked("publish")] == [first, second]
    assert all(result.success for result in carried_out(ticks, "publish"))
    with hand.ws.ledger.read() as tx:
        by = [tx.publications.records(run_id=run_id)[0].by for run_id in (first, second)]
    assert by == ["publish", "publish"]
    assert run_of(hand, unapproved).state is RunState.PASSED
    assert (ticks.asked("publish"), ticks.said) == ((), "Nothing that is approved waits to be published.")
    assert audit(hand.ws).problems == ()


@pytest.mark.long
def test_whoever_launches_the_job_of_a_sensor_with_whatever_tags_gets_what_the_ledger_asks_for(
    hand: Hand, ticks: Ticks
) -> None:
    waiting, ready = hand.silver({SIXTH: 30}), hand.silver({FIFTH: 15})
    with hand.ws.ledger.write() as tx:
        tx.requests.withdraw_approval(waiting, by="ben", reason="not yet")
    for given in (
        {tags.ON: waiting},
        {tags.ON: "nonsense"},
        {tags.ON: waiting, tags.BY: "publish", tags.RUN_ID: ready},
    ):
        assert ticks.job("publish_approved", given).success
        assert (run_of(hand, waiting).state, run_of(hand, ready).state) == (RunState.PASSED, RunState.PASSED)
    # Nor does the name of the sensor publish anything from the launch dialog of an asset, approved or not.
    for run_id, day in ((waiting, SIXTH), (ready, FIFTH)):
        typed = {**tags.partition_range((day,)), tags.RUN_ID: run_id, tags.BY: "publish"}
        (said,) = failures(ticks.job("daily_tables", typed, only=[PUBLISHED]))
        assert "the requester cannot be 'publish': that name is reserved for the system." in said
    with pytest.raises(Refused, match="is not approved"):
        operations.publish(hand.ws, waiting, by="publish")
    assert ticks.job("publish_approved", {}).success
    assert (run_of(hand, waiting).state, run_of(hand, ready).state) == (RunState.PASSED, RunState.PUBLISHED)


@pytest.mark.long
def test_what_cannot_be_published_is_given_up_with_the_reason_and_tried_again_when_it_is_cleared(
    hand: Hand, ticks: Ticks
) -> None:
    early, late = hand.silver({FIFTH: 15}), hand.silver({FIFTH: 16})
    hand.publish(late)
    for _ in range(3):
        (result,) = carried_out(ticks, "publish")
        assert not result.success
    assert carried_out(ticks, "publish") == []
    (stuck,) = status(hand.ws).stuck
    assert (stuck.work.sensor, stuck.work.subject) == ("publish", early)
    assert f"changed since run {early} was compared with it" in stuck.work.why
    assert ticks.said.startswith(f"publish has given up {early} (")
    clear(hand.ws, early, by="ben")
    assert len(ticks.asked("publish")) == 1
    operations.cancel(hand.ws, early, by="ben", reason="outdated")
    assert (ticks.asked("publish"), status(hand.ws).stuck) == ((), ())


def test_what_a_killed_process_left_is_recovered_when_its_lease_has_ended_and_not_before(
    hand: Hand, ticks: Ticks
) -> None:
    def dies(point: Point) -> None:
        if point is Point.SWAP_COMMITTED:
            raise KilledThere

    run_id = hand.silver({FIFTH: 15})
    with suppress(KilledThere):
        Hand(ws=replace(hand.ws, reached=dies)).publish(run_id)
    assert run_of(hand, run_id).state is RunState.PUBLISHING
    with hand.ws.ledger.read() as tx:
        (open_one,) = (each.publication_id for each in tx.publications.records(run_id=run_id))
    assert (ticks.asked("recover"), stopped(hand.ws)) == ((), ())
    later = replace(hand.ws, clock=lambda: hand.ws.clock() + timedelta(minutes=5))
    assert stopped(later) == (open_one,)
    after = Ticks(later)
    with after.open(ticks.instance):
        (result,) = carried_out(after, "recover")
        assert result.success
        assert (after.asked("recover"), after.said) == ((), "Nothing was left unfinished.")
    assert run_of(hand, run_id).state is RunState.PUBLISHED
    assert audit(hand.ws).problems == ()


def killed_at(hand: Hand, point: Point, does: Callable[[Hand], object]) -> None:
    """Something that is done by a process that is killed at a place."""

    def dies(reached: Point) -> None:
        if reached is point:
            raise KilledThere

    with pytest.raises(KilledThere):
        does(Hand(ws=replace(hand.ws, reached=dies)))


def killed_staging(hand: Hand) -> str:
    run_id = hand.silver({FIFTH: 15})
    with hand.ws.ledger.write() as tx:
        tx.runs.take(run_id, RunState.STAGING, actor="ana", attempt="killed", lease=hand.ws.settings.lease)
    return run_id


def killed_landing(hand: Hand) -> str:
    lease = LeaseTerms(attempt="killed", length=hand.ws.settings.lease)
    with hand.ws.ledger.write() as tx:
        return tx.imports.begin(an_offered_file(source=SALES), actor="ana", lease=lease).import_id


def killed_rollback(hand: Hand) -> str:
    publication_id = hand.published({FIFTH: 15})
    killed_at(hand, Point.SWAP_COMMITTED, lambda dying: dying.undo(publication_id))
    with hand.ws.ledger.read() as tx:
        return tx.publications.get(publication_id).run_id


def killed_rollback_with_dependents(hand: Hand) -> str:
    with hand.ws.ledger.read() as tx:
        run_id = tx.versions.claims(SILVER, [FIFTH])[FIFTH].run_id
    killed_at(
        hand,
        Point.ROLLBACK_ORDERED,
        lambda dying: rollback_with_dependents(dying.ws, run_id, by="ben", reason="was right before"),
    )
    return run_id


def killed_set(hand: Hand) -> str:
    set_id = hand.set_of({FIFTH: 15})
    operations.approve(hand.ws, set_id, by="ben")
    killed_at(hand, Point.SET_TABLE_PUBLISHED, lambda dying: operations.publish_set(dying.ws, set_id, by="ben"))
    return set_id


def killed_rollback_of_a_set(hand: Hand) -> str:
    set_id = hand.set_of({FIFTH: 15})
    operations.approve(hand.ws, set_id, by="ben")
    operations.publish_set(hand.ws, set_id, by="ben")
    killed_at(
        hand,
        Point.SET_TABLE_BROUGHT_BACK,
        lambda dying: rollback_set(dying.ws, set_id, by="ben", reason="was right before"),
    )
    return set_id


@pytest.mark.parametrize(
    ("killed", "ended"),
    [
        (killed_staging, RunState.FAILED),
        (killed_landing, ImportState.FAILED),
        (killed_rollback, RunState.ROLLED_BACK),
        (killed_rollback_with_dependents, RunState.ROLLED_BACK),
        (killed_set, SetState.PUBLISHED),
        (killed_rollback_of_a_set, SetState.ROLLED_BACK),
    ],
)
def test_whatever_was_killed_is_ended_by_the_sensor_once_and_not_while_it_may_be_at_work(
    hand: Hand, ticks: Ticks, killed: Callable[[Hand], str], ended: RunState | SetState | ImportState
) -> None:
    subject = killed(hand)
    assert ticks.asked("recover") == ()
    later = replace(hand.ws, clock=lambda: hand.ws.clock() + timedelta(minutes=5))
    after = Ticks(later)
    with after.open(ticks.instance):
        (result,) = carried_out(after, "recover")
        assert result.success
        assert (after.asked("recover"), after.said) == ((), "Nothing was left unfinished.")
    with hand.ws.ledger.read() as tx:
        found = tx.sets.get(subject) if is_set(subject) else None
        found_import = tx.imports.get(subject) if subject.startswith("imp-") else None
    assert (found or found_import or run_of(hand, subject)).state is ended
    assert status(hand.ws).stuck == ()
    assert audit(hand.ws).problems == ()


@pytest.mark.long
def test_an_approved_set_is_published_once_as_a_whole_and_its_runs_are_not_published_apart_from_it(
    hand: Hand, ticks: Ticks
) -> None:
    set_id = hand.set_of({FIFTH: 15})
    assert ticks.asked("publish") == ()
    operations.approve(hand.ws, set_id, by="ben")
    assert approved(hand.ws) == (set_id,)
    (result,) = carried_out(ticks, "publish")
    assert result.success
    with hand.ws.ledger.read() as tx:
        record = tx.sets.get(set_id)
        by = [p.by for m in record.manifest.members for p in tx.publications.records(run_id=m.run_id)]
    assert (record.state, by) == (SetState.PUBLISHED, ["publish", "publish"])
    assert (ticks.asked("publish"), ticks.said) == ((), "Nothing that is approved waits to be published.")
    # Launched again by hand, for the set or for one of its runs: nothing is asked for any more.
    for named in (set_id, record.manifest.members[0].run_id):
        assert ticks.job("publish_approved", {tags.ON: named}).success
    with hand.ws.ledger.read() as tx:
        assert len([p for m in record.manifest.members for p in tx.publications.records(run_id=m.run_id)]) == 2
    assert audit(hand.ws).problems == ()


def test_after_the_rollback_of_a_set_it_is_said_that_an_approval_publishes_it_again(hand: Hand) -> None:
    set_id = hand.set_of({FIFTH: 15})
    operations.approve(hand.ws, set_id, by="ben")
    operations.publish_set(hand.ws, set_id, by="ben")
    rollback_set(hand.ws, set_id, by="ben", reason="was right before")
    found = set_document(hand.ws, set_id)
    again = f"plan a correction, or to publish the same rows again: backfill approve {set_id} --by ANOTHER_PERSON"
    assert (found.record.state, found.approved_by) == (SetState.ROLLED_BACK, None)
    assert [worded(each) for each in (found.next_step, *(member.run.next_step for member in found.runs))] == [again] * 3
    operations.approve(hand.ws, set_id, by="ben")
    assert worded(set_document(hand.ws, set_id).next_step) == again.replace("approve", "publish").replace(
        "ANOTHER_PERSON", "NAME"
    )


def test_a_reference_that_cannot_be_read_is_the_sentence_of_a_tick_and_what_is_planned_goes_on(
    hand: Hand, ticks: Ticks
) -> None:
    hand.published({FIFTH: 15})
    (run,) = operations.plan_follow_ups(hand.ws, by="ops").runs
    holidays = Reference(name="holidays", parse=lambda content: content)
    ticks.ws = replace(hand.ws, domain=replace(hand.ws.domain, references=(holidays,)))
    cannot = f"the reference holidays cannot be read from {hand.ws.settings.reference / 'holidays.yaml'}. Next: "
    (request,) = ticks.asked("follow")
    assert request.tags[tags.RUN_ID] == run.run_id
    operations.cancel(hand.ws, run.run_id, by="ben", reason="not now")
    hand.published({SIXTH: 15})
    assert ticks.asked("follow") == ()
    assert ticks.said.startswith(cannot)
    # Nor does the LIVE path end with a traceback: the sources are built all the same.
    said = live(ticks.ws, Acting(by="x", recorder=Unrecorded()))
    assert [each.failed for each in said] == [False, True]
    assert said[1].sentence.startswith(cannot)


def test_what_the_ledger_cannot_say_is_said_in_one_sentence(hand: Hand, ticks: Ticks) -> None:
    nameless = replace(hand.ws.settings, drop=hand.ws.settings.home / "drop", user="")
    without = Ticks(replace(hand.ws, settings=nameless))
    with without.open(ticks.instance):
        (said,) = failures(without.job("land_dropped", {}))
    assert "BACKFILL_USER, who answers for the drop folder, has no name. Next: " in said
    assert "Traceback" not in said


def test_a_setting_leaves_sensors_out_and_switches_none_on(hand: Hand, ticks: Ticks, tmp_path: Path) -> None:
    run_id = hand.silver({FIFTH: 15})
    given = {**shop_environment(hand.ws.settings.home), "BACKFILL_SENSORS": "recover, follow"}
    narrow = Ticks(replace(hand.ws, settings=Settings.from_environment(given)))
    with narrow.open(ticks.instance):
        for name in ("publish", "propose"):
            assert (narrow.asked(name), narrow.said) == ((), f"BACKFILL_SENSORS leaves the sensor {name} out.")
        assert narrow.job("publish_approved", {}).success
        assert narrow.switch("publish") is DefaultSensorStatus.STOPPED
    assert run_of(hand, run_id).state is RunState.PASSED
    assert Settings.from_environment({**given, "BACKFILL_SENSORS": ""}).sensors == frozenset()
    with pytest.raises(Refused, match="BACKFILL_SENSORS names everything"):
        Settings.from_environment({**given, "BACKFILL_SENSORS": "everything"})
    assert set(Sensor) >= {"follow", "propose", "publish", "recover"}
