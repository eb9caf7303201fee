"""No published partition is left without its input: a rollback takes its dependents along, or is refused."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import InputsMovedOn, LeavesOrphans
from backfill_assets.ledger.errors import TableBusy
from backfill_assets.ledger.states import RunState
from backfill_assets.main import app
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.restatement import NothingToRebuild, SetRequest
from backfill_assets.report.stale import stale_document
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.month import CARNIVAL, FEBRUARY, REACHED, TOTALS, planned_set, ready_set, total
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, WorkIn, sale


@pytest.fixture
def shop(month: Shop) -> Shop:
    return month


def only_run(shop: Shop, table: str) -> str:
    with shop.ws.ledger.read() as reader:
        (run,) = reader.runs.records(table=table)
    return run.run_id


def readers_see(shop: Shop) -> tuple[set[str], set[str], set[str]]:
    return shop.live_paths(SALES), shop.live_paths(RECENT), shop.live_paths(TOTALS)


def test_a_rollback_that_would_leave_gold_without_its_silver_is_refused_and_names_it(shop: Shop) -> None:
    before, silver, gold = readers_see(shop), only_run(shop, RECENT), only_run(shop, TOTALS)
    with pytest.raises(LeavesOrphans, match=rf"{TOTALS} 2026-02, 1 month \(by {gold}\)") as refusal:
        operations.rollback(shop.ws, silver, by="ben", reason="never right")
    assert advised(refusal.value)
    assert f"backfill rollback {silver} --with-dependents" in advised(refusal.value)
    assert readers_see(shop) == before
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_dependents_go_first_however_far_down_they_are_and_can_be_published_again(shop: Shop, work_in: WorkIn) -> None:
    work_in(shop.ws.settings.home)
    before = readers_see(shop)
    bronze, silver, gold = (only_run(shop, table) for table in (SALES, RECENT, TOTALS))
    words = ["rollback", bronze, "--by", "ben", "--reason", "another shop", "--with-dependents", "--json"]
    answer = CliRunner().invoke(app, words, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert [each["run_id"] for each in (*found["dependents"], found)] == [gold, silver, bronze]
    assert readers_see(shop) == (set(), set(), set())
    assert all(not each.ranges for each in operations.stale_tables(shop.ws, table=TOTALS))
    assert operations.recover(shop.ws, by="ops") == ()

    operations.approve(shop.ws, silver, by="cleo")
    with pytest.raises(InputsMovedOn, match="rolled back since"):
        operations.publish(shop.ws, silver, by="ben")
    for run_id in (bronze, silver, gold):
        if run_id != silver:
            operations.approve(shop.ws, run_id, by="cleo")
        operations.publish(shop.ws, run_id, by="ben")
    assert readers_see(shop) == before
    assert audit(shop.ws).problems == ()


def test_a_rollback_with_dependents_that_stopped_half_way_is_completed_by_recover(shop: Shop) -> None:
    silver, gold = only_run(shop, RECENT), only_run(shop, TOTALS)
    with suppress(Stopped):
        stopped = stopping_at(shop.ws, Point.SWAP_ACKNOWLEDGED)
        operations.rollback_with_dependents(stopped, silver, by="ben", reason="never right")
    assert operations.state_of(shop.ws, gold) is RunState.ROLLED_BACK
    assert operations.state_of(shop.ws, silver) is RunState.PUBLISHED, "nothing lacks its input on the way"
    (found,) = operations.recover(shop.ws, by="ops")
    assert (found.what, found.id) == ("rollback", silver)
    assert found.outcome == "was half-way; now it is rolled back with its dependents"
    assert operations.state_of(shop.ws, silver) is RunState.ROLLED_BACK
    assert operations.recover(shop.ws, by="ops") == ()
    assert audit(shop.ws).problems == ()


def test_a_rollback_with_dependents_is_completed_by_the_name_of_its_run_although_a_swap_of_it_was_stopped(
    shop: Shop,
) -> None:
    silver, gold = only_run(shop, RECENT), only_run(shop, TOTALS)
    with suppress(Stopped):
        stopped = stopping_at(shop.ws, Point.SWAP_COMMITTED)
        operations.rollback_with_dependents(stopped, silver, by="ben", reason="never right")
    found = operations.recover(shop.ws, by="ops", only=silver)
    assert [each.what for each in found] == ["publication", "rollback"]
    assert {operations.state_of(shop.ws, run_id) for run_id in (silver, gold)} == {RunState.ROLLED_BACK}


@pytest.mark.long
def test_who_repeats_a_rollback_with_dependents_while_it_is_under_way_does_not_end_it(shop: Shop) -> None:
    silver, gold = only_run(shop, RECENT), only_run(shop, TOTALS)
    with suppress(Stopped):
        stopped = stopping_at(shop.ws, Point.SWAP_INTENDED)
        operations.rollback_with_dependents(stopped, silver, by="ben", reason="never right")
    acting = Acting(by="cleo", recorder=Unrecorded())
    with pytest.raises(TableBusy):
        Restatement(shop.ws, silver).rollback(acting, reason="as well", with_dependents=True)
    operations.recover(shop.ws, by="ops")
    assert {operations.state_of(shop.ws, run_id) for run_id in (silver, gold)} == {RunState.ROLLED_BACK}


@pytest.mark.long
def test_what_has_an_earlier_version_again_takes_nothing_along(shop: Shop) -> None:
    shop.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    again = shop.published(REACHED)
    gold = shop.staged(shop.planned(FEBRUARY, table=TOTALS))
    operations.approve(shop.ws, gold, by="ben")
    shop.publish(gold)
    operations.rollback(shop.ws, again, by="ben", reason="was right before")
    assert total(shop) == 28 * 40 + 4 * 5, "the month follows back by itself"
    (stale,) = operations.stale_tables(shop.ws, table=TOTALS)
    assert (len(stale.ranges), stale.blocked) == (1, ())


@pytest.mark.long
def test_gold_of_a_set_is_not_taken_out_of_it(shop: Shop) -> None:
    shop.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    set_id = ready_set(shop, planned_set(shop))
    operations.publish_set(shop.ws, set_id, by="ben")
    before = readers_see(shop)
    with shop.ws.ledger.read() as reader:
        first_load = reader.runs.records(table=SALES)[-1].run_id
        late_load = reader.runs.records(table=SALES)[0].run_id
    operations.rollback(shop.ws, late_load, by="ben", reason="not ours")
    with pytest.raises(
        LeavesOrphans, match=f"of set {set_id} without their input: {TOTALS} 2026-02, 1 month"
    ) as refusal:
        operations.rollback_with_dependents(shop.ws, first_load, by="ben", reason="not ours")
    assert advised(refusal.value)
    assert f"backfill rollback {set_id} --by NAME" in advised(refusal.value)
    assert readers_see(shop)[1:] == before[1:]


def test_stale_does_not_recommend_what_plan_refuses(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers from before this rule may hold orphans."""
    with monkeypatch.context() as patch:
        Seam.REQUIRE_NO_ORPHANS.put(patch, lambda *_, **__: None)
        operations.rollback(shop.ws, only_run(shop, RECENT), by="ben", reason="as it was once")
    found = operations.stale_tables(shop.ws, table=TOTALS)
    assert [(each.table, each.blocked) for each in found] == [(TOTALS, (FEBRUARY.start,))]
    document = stale_document(found, table=TOTALS, days=None, sources=[SALES])
    assert document.next_steps == ()
    planned = operations.plan_set(shop.ws, SetRequest(reason="stale", by="ana", stale=True, table=TOTALS))
    assert isinstance(planned, NothingToRebuild)
    (left_out,) = planned.left_out
    assert (left_out.table, left_out.why) == (TOTALS, WhyLeftOut.BLOCKED)
