"""A set is rolled back and published again, also where some of its tables had nothing to change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.states import RunState
from backfill_assets.main import app
from backfill_assets.requests.rollout import rollback_set, rollback_with_dependents
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.month import CARNIVAL, TOTALS, open_month, planned_set, ready_set, total
from backfill_assets_tests.support.shop import RECENT, Shop, WorkIn, sale

FOUR_DAYS_LATER = CARNIVAL + timedelta(days=4)


@pytest.fixture
def shop(tmp_path: Path, month_home: Path, spark: SparkSession, work_in: WorkIn) -> Iterator[Shop]:
    copy_home(month_home, tmp_path / "home")
    work_in(tmp_path / "home")
    opened = open_month(tmp_path / "home", spark=spark, hours=13)
    yield opened
    opened.ws.close()


@pytest.fixture
def moved(shop: Shop) -> Shop:
    """The shop after a sale was moved by four days: eight days of silver change, and their sum in gold does not."""
    shop.land("moved.jsonl", [sale(CARNIVAL, amount=5, sale_id="new"), sale(FOUR_DAYS_LATER, amount=-5, sale_id="old")])
    return shop


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def said(*words: str) -> Any:
    """What a command says to a machine."""
    found = typed(*words, "--json")
    assert found.exit_code == 0, (words, found.output)
    return json.loads(found.stdout)


def told(*words: str, width: int = 100) -> str:
    """What a command says to a person."""
    found = CliRunner().invoke(app, list(words), catch_exceptions=False, env={"COLUMNS": str(width)})
    assert found.exit_code == 0, (words, found.output)
    return str(found.output)


def every_document_answers(shop: Shop, set_id: str) -> None:
    assert all(operations.stages(shop.ws, run_id) for run_id in Restatement(shop.ws, set_id).run_ids)
    for report in said("report", set_id)["reports"]:
        assert said("report", report["run_id"])["publications"] == report["publications"]
        told("report", report["run_id"])
        said("status", report["run_id"])
    for table in (RECENT, TOTALS):
        said("history", table)
        told("history", table)
        said("history", table, "--partition", str(CARNIVAL))
    told("status")
    told("status", set_id)
    said("stale")
    assert said("audit")["agrees"]


@pytest.mark.long
def test_a_set_of_which_one_table_was_wholly_equal_is_rolled_back_and_published_again_and_again(moved: Shop) -> None:
    set_id = ready_set(moved, planned_set(moved, days=DayRange.inclusive(CARNIVAL, FOUR_DAYS_LATER)))
    before = (moved.live_paths(), moved.live_paths(TOTALS), total(moved))
    after = None
    for turn in range(2):
        if turn:
            said("approve", set_id, "--by", "ben")
        silver, gold = said("publish", set_id, "--by", "ben")["runs"]
        assert (silver["changed_partitions"], silver["verified_partitions"]) == (8, 0)
        assert (gold["changed_partitions"], gold["verified_partitions"]) == (0, 1)
        assert after in (None, (moved.live_paths(), moved.live_paths(TOTALS))), "the same rows as the first time"
        after = (moved.live_paths(), moved.live_paths(TOTALS))
        assert said("rollback", set_id, "--by", "ben", "--reason", "was right before")["state"] == "ROLLED_BACK"
        assert (moved.live_paths(), moved.live_paths(TOTALS), total(moved)) == before
        every_document_answers(moved, set_id)
    assert {table: len(ranges) for table, ranges in stale_ranges(moved).items()} == {RECENT: 1, TOTALS: 0}
    assert operations.recover(moved.ws, by="ops") == ()
    assert audit(moved.ws).problems == ()


def stale_ranges(shop: Shop) -> dict[str, Any]:
    return {found.table: found.ranges for found in operations.stale_tables(shop.ws) if found.table in (RECENT, TOTALS)}


def test_the_rollback_of_what_had_changed_nothing_says_so_and_its_set_can_be_published_again(moved: Shop) -> None:
    def seen() -> tuple[object, ...]:
        return moved.live_paths(), moved.live_paths(TOTALS), total(moved)

    set_id = ready_set(moved, planned_set(moved, days=DayRange.inclusive(CARNIVAL, FOUR_DAYS_LATER)))
    before = seen()
    operations.publish_set(moved.ws, set_id, by="ben")
    published = seen()
    assert published != before
    (gold, silver) = operations.rollback_set(moved.ws, set_id, by="ben", reason="try")
    assert (gold.table, gold.partitions) == (TOTALS, ())
    assert (silver.table, len(silver.partitions)) == (RECENT, 8)
    last = said("history", TOTALS)["publications"][-1]
    assert (last["action"], last["partition_count"], last["first"], last["last"]) == (Action.ROLLBACK, 0, None, None)
    assert "nothing had been swapped" in told("history", TOTALS, width=200)
    assert seen() == before
    operations.approve(moved.ws, set_id, by="ben")
    operations.publish_set(moved.ws, set_id, by="ben")
    assert seen() == published
    assert operations.recover(moved.ws, by="ops") == ()
    assert audit(moved.ws).problems == ()


@pytest.mark.long
def test_the_rollback_of_a_set_that_a_later_one_replaced_names_the_later_one(shop: Shop) -> None:
    made = []
    for amount in (5, 7):
        shop.land(f"late-{amount}.jsonl", [sale(CARNIVAL, amount=amount, sale_id=f"late-{amount}")])
        made.append(ready_set(shop, planned_set(shop)))
        operations.publish_set(shop.ws, made[-1], by="ben")
    first, later = made
    with pytest.raises(IllegalTransition, match=f"of set {first} is SUPERSEDED") as refused:
        operations.rollback_set(shop.ws, first, by="ben", reason="was right before")
    assert advised(refused.value).startswith(f"undo the later publication first: backfill rollback {later} ")


@pytest.mark.long
def test_a_set_is_rolled_back_after_what_one_of_its_tables_had_found_equal_was_undone(moved: Shop) -> None:
    with moved.ws.ledger.read() as reader:
        (first_gold,) = [found.run_id for found in reader.publications.records() if found.table == TOTALS]
    before = moved.live_paths()
    set_id = ready_set(moved, planned_set(moved, days=DayRange.inclusive(CARNIVAL, FOUR_DAYS_LATER)))
    operations.publish_set(moved.ws, set_id, by="ben")
    operations.rollback(moved.ws, first_gold, by="ben", reason="gold was wrong all along")
    states = [run["state"] for run in said("status", set_id)["runs"]]
    assert states == [RunState.PUBLISHED, RunState.SUPERSEDED]
    (silver,) = operations.rollback_set(moved.ws, set_id, by="ben", reason="silver as well")
    assert (silver.table, len(silver.partitions)) == (RECENT, 8)
    assert said("status", set_id)["state"] == "ROLLED_BACK"
    assert moved.live_paths() == before
    assert operations.recover(moved.ws, by="ops") == ()
    every_document_answers(moved, set_id)


@pytest.mark.long
@pytest.mark.parametrize("wakes", [1, 2])
def test_a_rollback_that_a_recovery_has_completed_meanwhile_ends_as_done(moved: Shop, wakes: int) -> None:
    set_id = ready_set(moved, planned_set(moved, stale=True))
    before = (moved.live_paths(), moved.live_paths(TOTALS), total(moved))
    operations.publish_set(moved.ws, set_id, by="ben")
    asleep = iter(range(3))

    def reached(point: Point) -> None:
        if point is Point.SWAP_INTENDED and next(asleep) + 1 == wakes:
            operations.recover(moved.ws, by="recover")

    undone = rollback_set(replace(moved.ws, reached=reached), set_id, by="ben", reason="was right before")
    assert [record.action for record in undone] == [Action.ROLLBACK] * len(undone)
    assert len(undone) == 2
    assert (moved.live_paths(), moved.live_paths(TOTALS), total(moved)) == before
    assert operations.recover(moved.ws, by="ops") == ()
    assert audit(moved.ws).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("wakes", [1, 2])
def test_a_rollback_with_dependents_that_a_recovery_has_completed_meanwhile_ends_as_done(
    shop: Shop, wakes: int
) -> None:
    with shop.ws.ledger.read() as reader:
        made = {each.table: each.run_id for each in reader.publications.records()}
    asleep = iter(range(3))

    def reached(point: Point) -> None:
        if point is Point.SWAP_INTENDED and next(asleep) + 1 == wakes:
            operations.recover(shop.ws, by="recover")

    ws = replace(shop.ws, reached=reached)
    undone = rollback_with_dependents(ws, made[RECENT], by="ben", reason="was never right")
    assert [record.run_id for record in undone] == [made[TOTALS], made[RECENT]]
    assert not shop.live_paths() and not shop.live_paths(TOTALS)
    with shop.ws.ledger.read() as reader:
        assert [reader.runs.get(each.run_id).state for each in undone] == [RunState.ROLLED_BACK] * 2
        assert reader.publications.rollbacks_under_way() == ()
    assert operations.recover(shop.ws, by="ops") == ()
    assert audit(shop.ws).problems == ()
