"""Phases of one change: each a publication of its own, in order, held, approved and undone as it was declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.application.sensor_work import approved
from backfill_assets.candidates.usual import restated
from backfill_assets.cli.terminal import show
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition, NotApproved, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.sets import Phases, SetManifest, cut
from backfill_assets.report.runs import set_document, set_summary_page
from backfill_assets.report.status import status
from backfill_assets.requests.publish import publish_run
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.by_hand import LATER, Hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

FIRST, SECOND, THIRD = (date(2026, 1, day) for day in (5, 6, 7))
PARTS = ({FIRST: 11}, {SECOND: 12}, {THIRD: 13})
HELD = Phases(hold_s=3600)


def rows(hand: Hand) -> Sequence[int]:
    """What readers see of the three days."""
    found = hand.ws.lake.open(SILVER).to_pyarrow_table(columns=["day", "amount"]).to_pylist()
    return [each["amount"] for each in sorted(found, key=lambda row: row["day"]) if FIRST <= each["day"] <= THIRD]


def state(hand: Hand, set_id: str) -> SetState:
    with hand.ws.ledger.read() as tx:
        return tx.sets.get(set_id).state


def runs_of(hand: Hand, set_id: str) -> list[str]:
    with hand.ws.ledger.read() as tx:
        return [member.run_id for member in tx.sets.get(set_id).manifest.members]


def test_no_phase_is_compared_with_days_that_another_phase_restates(hand: Hand) -> None:
    first, *_ = runs_of(hand, hand.phased(*PARTS))
    with hand.ws.ledger.read() as tx:
        manifest = tx.runs.get(first).manifest
        assert restated(tx, manifest) == {FIRST, SECOND, THIRD}
        assert restated(tx, replace(manifest, request_id=first)) == {FIRST}


def approved_set(hand: Hand, phases: Phases = Phases()) -> str:  # noqa: B008 - it is frozen
    set_id = hand.phased(*PARTS, phases=phases)
    operations.approve(hand.ws, set_id, by="ben")
    return set_id


def publish(hand: Hand, set_id: str) -> SetState:
    return operations.publish_set(hand.ws, set_id, by="ben").state


def test_each_phase_is_published_by_itself_and_all_of_them_are_brought_back_in_the_reverse_order(hand: Hand) -> None:
    before = hand.ws.lake.open(SILVER).version()
    set_id = approved_set(hand)
    seen = []
    for number in (1, 2, 3):
        seen.append((publish(hand, set_id), rows(hand)))
        document = set_document(hand.ws, set_id)
        assert (document.record.state, sum(each.run.record.state is RunState.PUBLISHED for each in document.runs)) == (
            seen[-1][0],
            number,
        )
    assert seen == [
        (SetState.PARTLY_PUBLISHED, [11, 10, 10]),
        (SetState.PARTLY_PUBLISHED, [11, 12, 10]),
        (SetState.PUBLISHED, [11, 12, 13]),
    ]
    assert hand.ws.lake.open(SILVER).version() >= before + 3
    with pytest.raises(IllegalTransition, match="is PUBLISHED"):
        publish(hand, set_id)
    undone = operations.rollback_set(hand.ws, set_id, by="ben", reason="was right before")
    assert [record.run_id for record in undone] == runs_of(hand, set_id)[::-1]
    assert (state(hand, set_id), rows(hand)) == (SetState.ROLLED_BACK, [10, 10, 10])
    assert audit(hand.ws).problems == ()


def test_partly_published_is_a_state_that_status_shows_with_what_is_next_and_dependents_follow_each_phase(
    hand: Hand,
) -> None:
    set_id = approved_set(hand)
    publish(hand, set_id)
    (listed,) = status(hand.ws).sets
    assert (listed.record.state, worded(listed.next_step)) == (
        SetState.PARTLY_PUBLISHED,
        f"backfill publish {set_id} --by NAME",
    )
    (run,) = operations.plan_follow_ups(hand.ws, by="ops").runs
    hand.publish(hand.month(run.run_id))
    assert hand.total() == 311
    publish(hand, set_id)
    assert len(operations.plan_follow_ups(hand.ws, by="ops").runs) == 1


def test_the_last_phase_is_undone_alone_and_no_other_one(hand: Hand) -> None:
    set_id = approved_set(hand)
    for _ in PARTS:
        publish(hand, set_id)
    runs = runs_of(hand, set_id)
    with pytest.raises(IllegalTransition, match=f"belongs to set {set_id}; .*and rolled back from the last one"):
        operations.rollback(hand.ws, runs[1], by="cara", reason="wrong")
    assert state(hand, set_id) is SetState.PUBLISHED
    operations.rollback(hand.ws, runs[2], by="cara", reason="wrong")
    assert (state(hand, set_id), rows(hand)) == (SetState.PARTLY_PUBLISHED, [11, 12, 10])
    # What was undone is agreed to again before readers see it again.
    with pytest.raises(NotApproved):
        publish(hand, set_id)
    operations.approve(hand.ws, set_id, by="ben")
    assert publish(hand, set_id) is SetState.PUBLISHED
    for run_id in reversed(runs):
        operations.rollback(hand.ws, run_id, by="cara", reason="wrong")
    assert (state(hand, set_id), rows(hand)) == (SetState.ROLLED_BACK, [10, 10, 10])
    assert audit(hand.ws).problems == ()


def test_a_phase_that_fails_stops_those_after_it_and_leaves_those_before_it(hand: Hand) -> None:
    set_id = approved_set(hand)
    publish(hand, set_id)
    # Another person changes what the second phase was compared with.
    hand.published({SECOND: 40})
    for _ in range(2):
        with pytest.raises(Refused, match="changed since"):
            publish(hand, set_id)
        assert (state(hand, set_id), rows(hand)) == (SetState.PARTLY_PUBLISHED, [11, 40, 10])
    runs = runs_of(hand, set_id)
    acting = Acting(by="ben", recorder=Unrecorded())
    with pytest.raises(
        IllegalTransition, match=f"run {runs[2]} is not the next phase of set {set_id}: that is {runs[1]}"
    ):
        Restatement(hand.ws, runs[2]).publish(acting)
    # Nor by the way of a single run, whatever the process thinks.
    with pytest.raises(IllegalTransition, match="its phases are published in their order"):
        publish_run(hand.ws, runs[2], by="ben")
    assert operations.recover(hand.ws, by="ops") == ()
    hand.stage(runs[1], PARTS[1])
    Restatement(hand.ws, runs[1]).publish(acting)
    assert rows(hand) == [11, 12, 10]


def test_the_advice_for_a_blocked_phase_of_a_partly_published_set_can_be_followed(hand: Hand) -> None:
    set_id = approved_set(hand)
    publish(hand, set_id)
    blocked = runs_of(hand, set_id)[1]
    with hand.ws.ledger.write() as tx:
        tx.runs.take(blocked, RunState.GATING, actor="ana", attempt="a1")
        tx.runs.move(blocked, RunState.BLOCKED, actor="ana", attempt="a1")
    cancels = (
        f"cancel what is not published of the set: backfill cancel {set_id} --by NAME --reason WHY; then plan again"
    )
    assert cancels in worded(set_document(hand.ws, set_id).next_step)
    operations.cancel(hand.ws, set_id, by="ana", reason="fixed, and planned again")
    assert (state(hand, set_id), rows(hand)) == (SetState.PUBLISHED, [11, 10, 10])


@pytest.mark.parametrize("each", [False, True])
def test_an_approval_is_not_advised_while_a_blocked_phase_refuses_it(hand: Hand, each: bool) -> None:
    """One of the whole set is refused for any blocked phase; one of the first phase alone is not."""
    set_id = hand.phased(*PARTS, phases=Phases(each=each))
    first, blocked, _ = runs_of(hand, set_id)
    with hand.ws.ledger.write() as tx:
        tx.runs.take(blocked, RunState.GATING, actor="ana", attempt="a1")
        tx.runs.move(blocked, RunState.BLOCKED, actor="ana", attempt="a1")
    following = worded(set_document(hand.ws, set_id).next_step)
    if each:
        assert following == f"backfill approve {first} --by ANOTHER_PERSON"
        operations.approve(hand.ws, first, by="ben")
    else:
        assert f"backfill report {blocked}" in following and f"backfill cancel {set_id}" in following


def test_what_is_left_of_a_set_can_be_cancelled_and_what_readers_see_of_it_stays_and_can_be_undone(hand: Hand) -> None:
    set_id = approved_set(hand)
    publish(hand, set_id)
    operations.cancel(hand.ws, set_id, by="ana", reason="one day is enough")
    document = set_document(hand.ws, set_id)
    assert [each.run.record.state for each in document.runs] == [
        RunState.PUBLISHED,
        RunState.CANCELLED,
        RunState.CANCELLED,
    ]
    assert (document.record.state, rows(hand)) == (SetState.PUBLISHED, [11, 10, 10])
    out = StringIO()
    show(Console(file=out, width=300), set_summary_page(document))
    assert "PUBLISHED: those of its phases that were published are what readers see" in out.getvalue()
    assert "every table of it" not in out.getvalue()
    with pytest.raises(IllegalTransition, match="is PUBLISHED"):
        publish(hand, set_id)
    operations.rollback(hand.ws, runs_of(hand, set_id)[0], by="cara", reason="wrong")
    assert (state(hand, set_id), rows(hand)) == (SetState.ROLLED_BACK, [10, 10, 10])
    operations.cancel(hand.ws, set_id, by="ana", reason="not even one day")
    assert state(hand, set_id) is SetState.CANCELLED
    assert {each.run.record.state for each in set_document(hand.ws, set_id).runs} == {RunState.CANCELLED}
    assert audit(hand.ws).problems == ()


def test_a_phase_is_held_after_the_one_before_it(hand: Hand, tmp_path: Path) -> None:
    set_id = approved_set(hand, HELD)
    runs = runs_of(hand, set_id)
    assert approved(hand.ws) == (runs[0],)
    publish(hand, set_id)
    with pytest.raises(IllegalTransition, match=f"phase 2 of 3 of set {set_id} is held until 2026-03-10 13:") as held:
        publish(hand, set_id)
    assert advised(held.value) == f"publish it then: backfill publish {set_id} --by NAME"
    assert (state(hand, set_id), approved(hand.ws)) == (SetState.PARTLY_PUBLISHED, ())
    assert worded(set_document(hand.ws, set_id).next_step).startswith("its next phase is held until 2026-03-10 13:")
    settings = Settings.from_environment(shop_environment(tmp_path / "home"))
    later = Hand(ws=Workspace.open(settings, clock=ticking_clock(LATER + timedelta(hours=2))))
    assert approved(later.ws) == (runs[1],)
    assert publish(later, set_id) is SetState.PARTLY_PUBLISHED
    with pytest.raises(IllegalTransition, match="phase 3 of 3"):
        publish(later, set_id)
    later.ws.close()


def test_phases_that_are_approved_one_by_one_are_not_approved_as_a_whole_or_before_their_time(hand: Hand) -> None:
    set_id = hand.phased(*PARTS, phases=Phases(each=True))
    runs = runs_of(hand, set_id)
    with pytest.raises(IllegalTransition, match="is approved phase by phase") as whole:
        operations.approve(hand.ws, set_id, by="ben")
    assert advised(whole.value) == f"backfill approve {runs[0]} --by ANOTHER_PERSON"
    with pytest.raises(IllegalTransition, match=f"the next one is run {runs[0]}"):
        operations.approve(hand.ws, runs[1], by="ben")
    with pytest.raises(NotApproved, match=f"run {runs[0]} is not approved") as lacking:
        publish(hand, set_id)
    assert advised(lacking.value) == f"backfill approve {runs[0]} --by ANOTHER_PERSON"
    with pytest.raises(NotApproved, match="ana"):
        operations.approve(hand.ws, runs[0], by="ana")
    operations.approve(hand.ws, runs[0], by="ben")
    out = StringIO()
    show(Console(file=out, width=160), set_summary_page(set_document(hand.ws, set_id)))
    assert "1 of 3 phases is approved" in out.getvalue() and "no other person" not in out.getvalue()
    assert publish(hand, set_id) is SetState.PARTLY_PUBLISHED
    with pytest.raises(NotApproved):
        publish(hand, set_id)
    assert state(hand, set_id) is SetState.PARTLY_PUBLISHED
    operations.approve(hand.ws, runs[1], by="cara")
    publish(hand, set_id)
    assert rows(hand) == [11, 12, 10]


POINTS = (
    Point.SET_BEGUN,
    Point.SWAP_INTENDED,
    Point.LINEAGE_WRITTEN,
    Point.SWAP_COMMITTED,
    Point.SWAP_ACKNOWLEDGED,
    Point.SET_TABLE_PUBLISHED,
    Point.SET_FINISHED,
)


@pytest.mark.long
@pytest.mark.parametrize("place", POINTS)
def test_wherever_the_second_phase_stops_recovery_ends_it_alone_and_the_third_can_be_published(
    hand: Hand, place: Point
) -> None:
    set_id = approved_set(hand)
    publish(hand, set_id)
    stopping = replace(hand, ws=stopping_at(hand.ws, place))
    with pytest.raises(Stopped):
        publish(stopping, set_id)
    operations.recover(hand.ws, by="ops")
    # Without a word of the process: the phase was published, or not at all, and never the one after it.
    assert (state(hand, set_id), rows(hand)[0], rows(hand)[2]) == (SetState.PARTLY_PUBLISHED, 11, 10)
    assert operations.recover(hand.ws, by="ops") == ()
    while state(hand, set_id) is SetState.PARTLY_PUBLISHED:
        publish(hand, set_id)
    assert rows(hand) == [11, 12, 13]
    assert audit(hand.ws).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("place", [Point.SWAP_INTENDED, Point.SWAP_COMMITTED, Point.SWAP_ACKNOWLEDGED])
def test_wherever_the_undoing_of_a_phase_stops_the_set_is_what_its_runs_are(hand: Hand, place: Point) -> None:
    set_id = approved_set(hand)
    for _ in PARTS:
        publish(hand, set_id)
    stopping = stopping_at(hand.ws, place)
    with pytest.raises(Stopped):
        operations.rollback(stopping, runs_of(hand, set_id)[2], by="cara", reason="wrong")
    operations.recover(hand.ws, by="ops")
    is_back = rows(hand) == [11, 12, 10]
    assert is_back is (place is not Point.SWAP_INTENDED)
    assert state(hand, set_id) is (SetState.PARTLY_PUBLISHED if is_back else SetState.PUBLISHED)
    operations.rollback_set(hand.ws, set_id, by="cara", reason="all of it")
    assert (state(hand, set_id), rows(hand)) == (SetState.ROLLED_BACK, [10, 10, 10])
    assert audit(hand.ws).problems == ()


def test_partitions_are_cut_in_order_into_phases_of_about_one_size_or_by_month() -> None:
    days = [date(2026, 1, 29) + timedelta(days=number) for number in range(7)]
    assert [len(part) for part in cut("t", days, 3)] == [2, 2, 3]
    assert cut("t", days, None) == (tuple(days[:3]), tuple(days[3:]))
    assert [day for part in cut("t", days, 7) for day in part] == days
    for count, some in ((8, days), (None, days[:3])):
        with pytest.raises(Refused, match="cannot be changed in these phases"):
            cut("t", some, count)


def test_the_terms_of_phases_are_part_of_what_is_approved(hand: Hand) -> None:
    set_id = hand.phased(*PARTS, phases=HELD)
    with hand.ws.ledger.read() as tx:
        manifest = tx.sets.get(set_id).manifest
    assert SetManifest.parse(manifest.text) == manifest
    assert replace(manifest, phases=Phases(hold_s=1)).digest != manifest.digest


@pytest.mark.parametrize("point", [Point.SWAP_COMMITTED, Point.SWAP_ACKNOWLEDGED, Point.SET_TABLE_PUBLISHED])
@pytest.mark.parametrize("again", [False, True], ids=["recovered", "asked again"])
def test_several_tables_of_which_the_last_had_just_been_swapped_are_completed(
    hand: Hand, point: Point, again: bool
) -> None:
    set_id = hand.set_of({FIRST: 40})
    operations.approve(hand.ws, set_id, by="ben")
    last = runs_of(hand, set_id)[-1]

    def publish_one(run_id: str) -> None:
        publish_run(stopping_at(hand.ws, point) if run_id == last else hand.ws, run_id, by="ben")
        if run_id == last:
            raise Stopped

    with pytest.raises(Stopped):
        operations.publish_set(hand.ws, set_id, by="ben", publish=publish_one)
    assert state(hand, set_id) is SetState.PUBLISHING
    later = operations.recover(hand.ws, by="ops", only=set_id) if not again else ()
    if again:
        operations.recover(hand.ws, by="ops", only=last)
        operations.publish_set(hand.ws, set_id, by="ben")
    assert all(each.problem is None for each in later)
    assert state(hand, set_id) is SetState.PUBLISHED
    assert audit(hand.ws).problems == ()
