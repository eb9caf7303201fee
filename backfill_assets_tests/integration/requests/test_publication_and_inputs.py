"""What a run read, and what became of it meanwhile: late sales, empty days, other inputs, transforms that fail."""

from __future__ import annotations

import json
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import (
    InputsMovedOn,
    MissingInput,
    Refused,
)
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import ApprovalState
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.history import partition_history
from backfill_assets.report.runs import run_document
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, refused, worded
from backfill_assets_tests.support.shop import DAYS, RECENT, SALES, Shop, open_shop, sale, ticking_clock, usual_sales

MIDDLE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 6))


FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)


def test_the_plan_says_what_is_read_and_replaced(shop: Shop) -> None:
    shop.published()
    plan = operations.plan(shop.ws, PlanRequest(table=RECENT, days=MIDDLE, reason="say", by="ana"))
    assert plan.manifest.kind is RunPurpose.RESTATEMENT
    (read,) = plan.inputs
    assert read.partitions == tuple(DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 7)))
    assert read.warm_up == (date(2026, 1, 3), date(2026, 1, 4), date(2026, 1, 7))
    assert (read.rows, read.files) == (5, 5)
    assert (plan.replaced_partitions, plan.replaced_rows) == (2, 2)
    assert [d.table for d in plan.dependents] == ["gold.sales_monthly"]


@pytest.mark.long
def test_a_late_sale_moves_bronze_and_what_a_restatement_computes(shop: Shop) -> None:
    shop.published()
    shop.land("late.jsonl", [sale(FIFTH, amount=100, sale_id="late")])
    shop.published(reason="a late sale")
    moved = {date(2026, 1, day) for day in (4, 5, 6, 7)}
    assert {day for day, amount in shop.amounts().items() if amount == 140} == moved


@pytest.mark.long
def test_a_day_without_sales_is_declared_empty_by_a_person_and_counts_as_built(shop: Shop) -> None:
    eleventh = date(2026, 1, 11)
    load = partial(operations.plan_load, shop.ws, SALES, by="ana", reason="closed that day")
    with refused(
        MissingInput, match=r"nothing has landed for 2026-01-11, 1 day.*--to 2026-01-11 --empty --reason WHY --by"
    ):
        load(partitions=(eleventh,))
    with pytest.raises(
        Refused, match=r"2026-01-10, 1 day of bronze\.sales cannot be declared empty: events for those days"
    ):
        load(partitions=(date(2026, 1, 10), eleventh), empty=(date(2026, 1, 10), eleventh))
    with pytest.raises(Refused, match="2026-01-12, 1 day cannot be declared empty by a run that does not build them"):
        load(partitions=(eleventh,), empty=(eleventh, date(2026, 1, 12)))
    run = load(partitions=(eleventh,), empty=(eleventh,))
    assert run is not None
    assert run.manifest.change.declared_empty == (eleventh,)
    shop.staged(run.run_id)
    operations.publish(shop.ws, run.run_id, by="ana")
    with shop.ws.ledger.read() as reader:
        assert reader.versions.accepted(SALES, [eleventh])[eleventh].rows == 0
    (story,) = partition_history(shop.ws, SALES, eleventh).versions
    assert story.declared_empty_by == "ana"
    assert load(partitions=(eleventh,)) is not None, "it was said once"
    shop.published(DayRange.inclusive(date(2026, 1, 10), date(2026, 1, 10)))
    assert shop.amounts()[date(2026, 1, 10)] == 30


@pytest.mark.long
def test_a_word_given_before_events_landed_does_not_replace_them(shop: Shop) -> None:
    eleventh = date(2026, 1, 11)
    run = operations.plan_load(shop.ws, SALES, partitions=(eleventh,), by="ana", reason="closed", empty=(eleventh,))
    assert run is not None
    shop.land("eleventh.jsonl", [sale(eleventh)])
    shop.staged(run.run_id)
    with pytest.raises(InputsMovedOn, match="2026-01-11") as refusal:
        operations.publish(shop.ws, run.run_id, by="ana")
    assert advised(refusal.value).endswith(
        "backfill load sales --from 2026-01-11 --to 2026-01-11 --empty --reason WHY --by NAME"
    )
    with shop.ws.ledger.read() as reader:
        assert reader.versions.accepted(SALES, [eleventh])[eleventh].rows == 1


@pytest.mark.long
def test_a_declared_empty_day_is_not_published_once_an_event_of_then_has_landed(shop: Shop) -> None:
    """It has landed and is not loaded: readers see nothing newer, so the word itself is what is out of date."""
    eleventh, twelfth = date(2026, 1, 11), date(2026, 1, 12)
    days = (eleventh, twelfth)
    run = operations.plan_load(shop.ws, SALES, partitions=days, by="ana", reason="closed", empty=days)
    assert run is not None
    shop.staged(run.run_id)
    path = shop.folder / "late.jsonl"
    path.write_text(json.dumps(sale(eleventh)) + "\n", encoding="utf-8")
    operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    with pytest.raises(InputsMovedOn) as refusal:
        operations.publish(shop.ws, run.run_id, by="ana")
    assert refusal.value.message == (
        f"run {run.run_id} built 2026-01-11 of {SALES} without events, and events for those days landed afterwards."
    )
    assert advised(refusal.value) == "backfill load sales --from 2026-01-11 --to 2026-01-11 --by NAME"
    with shop.ws.ledger.read() as reader:
        assert not reader.versions.accepted(SALES, days)


@pytest.mark.parametrize("is_past", [False, True])
def test_an_event_dated_a_year_ahead_fills_no_year(
    shop: Shop, tmp_path: Path, spark: SparkSession, is_past: bool
) -> None:
    """It is quarantined as an event of the future while that day is to come; afterwards the year is asked about."""
    wrong = date(2027, 1, 12)
    if is_past:
        shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON.replace(year=2027)), spark=spark)
    path = shop.folder / "wrong.jsonl"
    records = [sale(date(2026, 1, 11)), sale(date(2026, 1, 13)), sale(wrong)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    landed = operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    assert landed.record.counts.rejected == (0 if is_past else 1)
    year = (DayRange(date(2026, 1, 14), wrong),) if is_past else ()
    assert operations.questioned_gaps(shop.ws, SALES) == year
    load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
    assert load is not None
    asked_for = {date(2026, 1, day) for day in (11, 12, 13)} | ({wrong} if is_past else set())
    assert set(load.manifest.partitions) == asked_for


@pytest.mark.long
def test_a_long_time_without_events_is_asked_about_where_files_land(tmp_path: Path, spark: SparkSession) -> None:
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON.replace(year=2027)), spark=spark)
    path = shop.folder / "sales.jsonl"
    records = [sale(date(2026, 1, 11)), sale(date(2027, 1, 12))]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    acting = Acting(by="ana", recorder=Unrecorded())
    report = land_files(shop.ws, SALES, [path], acting, on_duplicate="ignore", builds=True)
    assert report.load is not None
    assert str(report.load.run.manifest.output) == "2026-01-11, 2027-01-12, 2 days"
    assert [worded(each) for each in report.next_steps] == [
        f"{SALES}: no events from 2026-01-12 to 2027-01-11 (UTC dates); if nothing happened then: "
        "backfill load sales --from 2026-01-12 --to 2027-01-11 --empty --reason WHY --by NAME"
    ]
    shop.ws.close()


def test_a_month_follows_its_days_once_and_waits_until_it_has_all_of_them(shop: Shop) -> None:
    shop.published()
    (asking,) = operations.asked_follow_ups(shop.ws)
    assert [(each.partitions, each.waiting) for each in asking.wanted] == [((), (date(2026, 1, 1),))]
    assert operations.plan_follow_ups(shop.ws, by="ops").runs == ()
    assert operations.asked_follow_ups(shop.ws) == ()


def test_approval_is_about_exactly_this_manifest(shop: Shop) -> None:
    run_id = shop.ready(MIDDLE)
    run = operations.run_named(shop.ws, run_id)
    assert run.approval is ApprovalState.APPROVED
    assert run.manifest_digest == run.manifest.digest
    assert set(DAYS) >= {pin.partition for pin in run.manifest.inputs[0].partitions}


@pytest.mark.long
def test_the_whole_way_is_the_same_with_the_ledger_in_postgresql(
    tmp_path: Path, spark: SparkSession, postgres_url: str
) -> None:
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON), spark=spark, ledger_url=postgres_url)
    shop.land("january.jsonl", usual_sales())
    shop.published(version="0.9.0")
    before = shop.live_paths()
    run_id = shop.published(MIDDLE)
    assert shop.amounts()[FIFTH] == 40
    operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    assert shop.live_paths() == before
    assert audit(shop.ws).problems == ()
    shop.ws.close()


def test_a_run_of_kind_live_cannot_be_asked_for(shop: Shop) -> None:
    with pytest.raises(Refused, match="the kind of a plan is 'LIVE'"):
        operations.plan(shop.ws, PlanRequest(table=RECENT, days=MIDDLE, reason="sneak", by="ana", kind=RunPurpose.LIVE))


@pytest.mark.long
def test_a_run_that_read_older_inputs_cannot_take_readers_back(shop: Shop) -> None:
    """It was planned first and staged last: it is compared with the newer rows, and would replace them."""
    old = shop.planned(reason="planned first")
    shop.land("late.jsonl", [sale(FIFTH, amount=100, sale_id="late")])
    shop.published(reason="with the late sale")
    after = shop.amounts()
    shop.staged(old)
    operations.approve(shop.ws, old, by="ben")
    again = "plan it again, so that it reads them: "
    replan = "backfill plan table recent_sales --reason WHY --from 2026-01-04 --to 2026-01-07 --by NAME"
    following = run_document(shop.ws, old).next_step
    assert following is not None
    assert words_of(following) == f"{old} was computed from older inputs than what readers see; {again}{replan}"
    with pytest.raises(
        InputsMovedOn, match=r"older inputs than what readers see: 2026-01-04\.\.2026-01-07, 4 days"
    ) as late:
        shop.publish(old)
    assert advised(late.value) == f"{again}{replan}"
    assert shop.amounts() == after
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_run_whose_inputs_moved_on_is_published_where_readers_see_nothing_newer(shop: Shop) -> None:
    """A long backfill need not begin again because of a late event: what it lacks is stale afterwards, and said so."""
    old = shop.ready(reason="planned first")
    shop.land("late.jsonl", [sale(FIFTH, amount=100, sale_id="late")])
    shop.publish(old)
    (silver,) = [found for found in operations.stale_tables(shop.ws) if found.table == RECENT]
    assert FIFTH in silver.partitions


@pytest.mark.long
def test_a_replay_may_take_readers_back(shop: Shop) -> None:
    request = PlanRequest(table=RECENT, days=MIDDLE, reason="as it was", by="ana", mode=Mode.REPLAY)
    old = operations.plan(shop.ws, request).manifest.run_id
    shop.land("late.jsonl", [sale(FIFTH, amount=100, sale_id="late")])
    shop.published(reason="with the late sale")
    shop.staged(old)
    operations.approve(shop.ws, old, by="ben")
    shop.publish(old)
    assert shop.amounts()[FIFTH] == 40
