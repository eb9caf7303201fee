"""While partitions are frozen, nothing that no person has ordered is published over them, and nothing of it is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.application.follow import follow, unfinished
from backfill_assets.application.freeze import freeze, unfreeze
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.sensor_work import approved
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition, Refused, UnknownName
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import UNPUBLISHED, PublicationState, RunState, SetState
from backfill_assets.report.command_line import explained
from backfill_assets.report.follow import follow_page, waiting_words
from backfill_assets.report.page import Items
from backfill_assets.report.status import status
from backfill_assets.report.waiting import FreezeDocument
from backfill_assets.requests.errors import Frozen
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, refused, worded
from backfill_assets_tests.support.by_hand import JANUARY, LATER, MONTH, Hand
from backfill_assets_tests.support.hand_made import GOLD, SILVER
from backfill_assets_tests.support.shop import shop_environment, ticking_clock
from backfill_assets_tests.support.ticks import Ticks

FIFTH = date(2026, 1, 5)
TOMORROW = LATER + timedelta(days=1)


@pytest.fixture
def later(tmp_path: Path, hand: Hand) -> Iterator[Hand]:
    """The same home, two days later."""
    settings = Settings.from_environment(shop_environment(tmp_path / "home"))
    opened = Hand(ws=Workspace.open(settings, clock=ticking_clock(LATER + timedelta(days=2))))
    yield opened
    opened.ws.close()


def frozen(
    hand: Hand, table: str = GOLD, *, only: str | None = None, until: datetime = TOMORROW, days: DayRange = JANUARY
) -> FreezeDocument:
    return freeze(hand.ws, table, days, until=until, only=only, by="ana", reason="the carnival is restated")


def planned(hand: Hand) -> list[str]:
    return [run.run_id for run in operations.plan_follow_ups(hand.ws, by="ops").runs]


def followed(hand: Hand) -> list[str]:
    """What `follow` says, with runs that are staged by hand."""
    found = follow(hand.ws, Acting(by="ops", recorder=Unrecorded()))
    return [worded(waiting_words(each)) for each in found.waiting]


def test_what_a_publication_asks_for_waits_says_so_and_is_planned_once_when_the_freeze_ends_by_itself(
    hand: Hand, later: Hand
) -> None:
    begun = frozen(hand)
    publication = hand.published({FIFTH: 15})
    assert planned(hand) == []
    says = "gold.sales_monthly 2026-01, 1 month is frozen"
    (waits,) = followed(hand)
    assert says in waits
    (listed,) = status(hand.ws).to_follow
    assert (listed.publication_id, listed.dependents[0].frozen) == (publication, (MONTH,))
    (named,) = status(hand.ws).frozen
    assert (named.freeze.freeze_id, named.freeze.until) == (begun.freeze.freeze_id, TOMORROW)
    ticks = Ticks(hand.ws)
    with ticks.open():
        assert ticks.asked("follow") == ()
        assert f"{says} until 2026-03-11 12:00 UTC by ana (the carnival is restated)" in ticks.said
        assert ticks.asked("publish") == () and says in ticks.said
    assert hand.total() == 310
    assert status(later.ws).frozen == ()
    (run_id,) = planned(later)
    later.publish(later.month(run_id))
    assert (later.total(), planned(later)) == (315, [])
    assert audit(later.ws).problems == ()


def test_what_several_publications_wait_for_is_said_once(hand: Hand) -> None:
    frozen(hand)
    for amount in (15, 16):
        hand.published({FIFTH: amount})
    shown = follow_page(follow(hand.ws, Acting(by="ops", recorder=Unrecorded())))
    (listed,) = [block for block in shown.blocks if isinstance(block, Items)]
    assert listed.items == ("gold.sales_monthly: 2026-01, 1 month is frozen, and follows when it is so no longer",)


def test_whoever_ends_one_of_two_freezes_over_the_same_partition_is_told_of_the_other(hand: Hand) -> None:
    first, second = (frozen(hand, until=TOMORROW + timedelta(days=days)).freeze.freeze_id for days in (0, 1))
    hand.published({FIFTH: 15})
    still = unfreeze(hand.ws, first, by="cara", reason="done").next_step
    assert worded(still).startswith("gold.sales_monthly 2026-01, 1 month is frozen until 2026-03-12 12:00 UTC")
    assert worded(still).endswith(f"To end it: backfill unfreeze {second} --by NAME --reason WHY")
    last = unfreeze(hand.ws, second, by="cara", reason="done").next_step
    assert worded(last).startswith("what depends on it is computed again by the sensor")


def test_a_follow_up_that_was_planned_before_is_not_tried_and_publishing_it_by_hand_is_refused_in_one_sentence(
    hand: Hand,
) -> None:
    hand.published({FIFTH: 15})
    (run_id,) = planned(hand)
    hand.month(run_id)
    begun = frozen(hand)
    assert begun.waits == (run_id,)
    assert list(unfinished(hand.ws)) == []
    unfreezes = f"backfill unfreeze {begun.freeze.freeze_id} --by NAME --reason WHY"
    (shown,) = [run for run in status(hand.ws).runs if run.record.run_id == run_id]
    assert worded(shown.next_step).endswith(f"wait until then, or end it: {unfreezes}")
    sentence = (
        f"run {run_id} of gold.sales_monthly waits: 2026-01, 1 month is frozen until 2026-03-11 12:00 UTC by ana (the "
        "carnival is restated)."
    )
    with pytest.raises(Frozen) as refusal:
        operations.publish(hand.ws, run_id, by="ben")
    assert explained(refusal.value) == f"{sentence} Next: wait until then, or end it: {unfreezes}"
    with pytest.raises(Frozen):
        operations.require_ready(hand.ws, run_id)
    # Another person ends it, and it ends once.
    ended = unfreeze(hand.ws, begun.freeze.freeze_id, by="cara", reason="it was published")
    assert (ended.freeze.by, ended.ended_by) == ("ana", "cara")
    with refused(IllegalTransition, match="has ended already"):
        unfreeze(hand.ws, begun.freeze.freeze_id, by="ana", reason="again")
    with hand.ws.ledger.read() as tx:
        told = [(each.action, each.actor) for each in tx.events.entries(entity_id=begun.freeze.freeze_id)]
    assert told == [("frozen", "ana"), ("unfrozen", "cara")]
    assert worded(ended.next_step).startswith("backfill follow ends the follow-ups that waited")
    assert [each.run.run_id for each in unfinished(hand.ws)] == [run_id]
    hand.publish(run_id)
    assert hand.total() == 315
    assert audit(hand.ws).problems == ()


def test_a_run_that_a_person_ordered_passes_unless_the_freeze_names_another_one(hand: Hand) -> None:
    own, other = hand.silver({FIFTH: 15}), hand.silver({FIFTH: 16})
    first = frozen(hand, SILVER, days=DayRange.inclusive(FIFTH, FIFTH), only=own)
    assert first.waits == (other,)
    with refused(Frozen, match=rf"run {other} of silver.recent_sales waits: .*, and only {own} is published meanwhile"):
        operations.publish(hand.ws, other, by="ben")
    # The named one needs what it needs without a freeze; its neighbours are not frozen.
    assert approved(hand.ws) == (own,)
    hand.publish(hand.silver({date(2026, 1, 6): 17}))
    hand.publish(own)
    unfreeze(hand.ws, first.freeze.freeze_id, by="ana", reason="done")
    frozen(hand, SILVER)
    hand.publish(hand.silver({FIFTH: 18}))
    with hand.ws.ledger.read() as tx:
        assert tx.versions.accepted(SILVER, [FIFTH])[FIFTH].checksum.endswith("[18]")


def test_a_set_that_has_begun_is_not_stopped_half_way_and_one_that_has_not_is_not_begun(hand: Hand) -> None:
    named = hand.silver({date(2026, 1, 9): 1})
    begun, waits = (hand.set_of(dict.fromkeys(JANUARY, amount)) for amount in (11, 12))
    for set_id in (begun, waits):
        operations.approve(hand.ws, set_id, by="ben")
    with hand.ws.ledger.write() as tx:
        tx.sets.move(begun, SetState.PUBLISHING, actor="ben")
    frozen(hand, SILVER, only=named)
    with pytest.raises(Frozen):
        operations.publish_set(hand.ws, waits, by="ben")
    assert approved(hand.ws) == (named,)
    operations.publish_set(hand.ws, begun, by="ben")
    assert hand.total() == 11 * 31


def test_a_freeze_is_refused_while_a_publication_is_open_and_lets_none_begin_after_it(hand: Hand) -> None:
    class Stopped(Exception):
        pass

    def stops(point: Point) -> None:
        if point is Point.SWAP_INTENDED:
            raise Stopped

    run_id = hand.silver({FIFTH: 15})
    with pytest.raises(Stopped):
        operations.publish(replace(hand.ws, reached=stops), run_id, by="ben")
    with refused(IllegalTransition, match="is being changed by publication"):
        frozen(hand, SILVER)
    operations.recover(hand.ws, by="ops")
    frozen(hand, SILVER, only=hand.silver({FIFTH: 19}))
    with hand.ws.ledger.read() as tx:
        assert tx.publications.records(run_id=run_id)[0].state is PublicationState.ABANDONED
        assert tx.runs.get(run_id).state is RunState.PASSED
    with pytest.raises(Frozen):
        operations.publish(hand.ws, run_id, by="ben")


def test_what_is_no_freeze_is_refused_and_nothing_is_written(hand: Hand) -> None:
    with pytest.raises(IllegalTransition, match="would have ended already") as past:
        frozen(hand, until=LATER - timedelta(days=1))
    assert advised(past.value) == "name a later instant with --until TIME"
    with pytest.raises(UnknownName, match="there is no run or set 'nothing'"):
        frozen(hand, only="nothing")
    published, own, other = hand.silver({FIFTH: 15}), hand.silver({FIFTH: 16}), hand.silver({FIFTH: 17})
    hand.publish(published)
    with pytest.raises(IllegalTransition, match=rf"cannot be for {published}: it is PUBLISHED") as finished:
        frozen(hand, SILVER, only=published)
    assert advised(finished.value) == "name a run or a set that is to be published meanwhile, or leave --for out"
    with pytest.raises(IllegalTransition, match=rf"cannot be for {own}: it does not change {GOLD}"):
        frozen(hand, only=own)
    begun = frozen(hand, SILVER, only=own).freeze.freeze_id
    with pytest.raises(IllegalTransition, match=f"is frozen by {begun} for {own} alone") as another:
        frozen(hand, SILVER, only=other)
    assert advised(another.value).endswith(f"backfill unfreeze {begun} --by NAME --reason WHY")
    unfreeze(hand.ws, begun, by="ana", reason="done")
    with pytest.raises(UnknownName):
        freeze(hand.ws, "gold.nothing", JANUARY, until=TOMORROW, only=None, by="ana", reason="x")
    for by in ("live", "", "policy:live"):
        with pytest.raises(Refused):
            freeze(hand.ws, GOLD, JANUARY, until=TOMORROW, only=None, by=by, reason="x")
    with pytest.raises(UnknownName, match="there is no freeze 'nothing'"):
        unfreeze(hand.ws, "nothing", by="ana", reason="x")
    assert status(hand.ws).frozen == ()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_published_undone_and_frozen_nothing_moves_while_it_is_and_nothing_is_lost(
    hand: Hand, seed: int
) -> None:
    chance = random.Random(seed)
    standing: list[str] = []
    held: list[str] = []

    def unplanned_or_waiting() -> list[str]:
        with hand.ws.ledger.read() as tx:
            return [run.run_id for run in tx.outbox.unfinished_follow_ups(UNPUBLISHED)]

    def follows() -> None:
        planned(hand)
        for run_id in unplanned_or_waiting():
            with suppress(Refused):
                hand.publish(hand.month(run_id))

    for number in range(14):
        before = hand.total()
        match chance.choice(("publish", "publish", "undo", "follow", "follow", "freeze", "unfreeze")):
            case "publish":
                standing.append(hand.published({FIFTH: 20 + number}))
            case "undo" if standing:
                hand.undo(standing.pop())
            case "follow":
                follows()
                assert not held or hand.total() == before
            case "freeze":
                held.append(frozen(hand).freeze.freeze_id)
            case "unfreeze" if held:
                unfreeze(hand.ws, held.pop(chance.randrange(len(held))), by="cara", reason="done")
    for freeze_id in held:
        unfreeze(hand.ws, freeze_id, by="cara", reason="done")
    for _ in range(3):
        follows()
    days = hand.ws.lake.open(SILVER).to_pyarrow_table(columns=["amount"]).to_pylist()
    assert hand.total() == sum(row["amount"] for row in days)
    assert (status(hand.ws).to_follow, unplanned_or_waiting()) == ((), [])
    assert audit(hand.ws).problems == ()


def test_a_table_is_frozen_by_its_short_name_as_well(hand: Hand) -> None:
    made = frozen(hand, GOLD.partition(".")[2])
    assert made.freeze.table == GOLD
