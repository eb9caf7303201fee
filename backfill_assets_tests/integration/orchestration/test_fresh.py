"""Staleness shows in Dagster: the check `fresh` of a table warns for exactly the partitions that `stale` lists."""

from __future__ import annotations

from datetime import date

import pytest
from dagster import AssetCheckKey, AssetKey

from backfill_assets.calendar.partitions import Grain
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.freshness_checks import FRESH
from backfill_assets.orchestration.partitions import OfferedDays, partitions_definition
from backfill_assets.orchestration.resources import Session
from backfill_assets.report.stale import freshness
from backfill_assets_tests.support.by_hand import JANUARY, Hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.ticks import Ticks

SIXTH = date(2026, 1, 6)
GOLD = AssetCheckKey(AssetKey(["gold", "sales_monthly"]), FRESH)


def shown(ticks: Ticks, key: AssetCheckKey, grain: Grain) -> dict[str, str]:
    """The status of a check by partition, as Dagster's pages work it out."""
    partitions = partitions_definition(grain, OfferedDays(first=JANUARY.start))
    state = ticks.instance.event_log_storage.get_asset_check_state([(key, partitions)])
    return {
        partition: status.value
        for status, subset in state[key].subsets.items()
        for partition in subset.subset_value.get_partition_keys()
    }


def stale(hand: Hand, table: str) -> set[str]:
    (found,) = freshness(hand.ws, table)
    return {str(partition) for partition in found.stale}


@pytest.mark.long
def test_a_partition_is_marked_stale_when_its_input_is_published_and_fresh_when_it_has_followed(
    hand: Hand, ticks: Ticks
) -> None:
    ticks.asked("fresh")
    assert set(shown(ticks, GOLD, Grain.MONTHLY).values()) == {"SUCCEEDED"}
    hand.publish(hand.silver({SIXTH: 30}))
    assert stale(hand, "gold.sales_monthly") == {"2026-01-01"}
    ticks.asked("fresh")
    assert "reported" in ticks.said
    assert shown(ticks, GOLD, Grain.MONTHLY) == {"2026-01-01": "FAILED"}
    silver = AssetCheckKey(AssetKey(SILVER.split(".")), FRESH)
    marked = {day for day, status in shown(ticks, silver, Grain.DAILY).items() if status == "FAILED"}
    assert marked == stale(hand, SILVER)
    ticks.asked("fresh")
    assert ticks.said == "Nothing has changed."


@pytest.mark.long
def test_a_warning_says_why_and_blocks_nothing(hand: Hand, ticks: Ticks) -> None:
    hand.publish(hand.silver({SIXTH: 30}))
    ticks.asked("fresh")
    history = ticks.instance.event_log_storage.get_asset_check_execution_history(GOLD, limit=10)
    evaluation = next(
        each.event.get_dagster_event().asset_check_evaluation_data for each in history if each.event is not None
    )
    assert evaluation.description is not None
    assert evaluation.severity.value == "WARN" and not evaluation.blocking
    assert evaluation.description.startswith(f"No longer follows: {SILVER} changed: 2026-01-06")


@pytest.mark.long
def test_the_check_can_be_launched_by_hand_and_a_reset_cursor_does_no_harm(hand: Hand, ticks: Ticks) -> None:
    hand.publish(hand.silver({SIXTH: 30}))
    ticks.asked("fresh")
    before = shown(ticks, GOLD, Grain.MONTHLY)
    for cursor in (None, "{", "[1]"):
        ticks.cursors["fresh"] = cursor
        ticks.asked("fresh")
        assert shown(ticks, GOLD, Grain.MONTHLY) == before
    made = definitions_over(hand.ws, lambda: Session(workspace=hand.ws), pool=None)
    graph = made.resolve_asset_graph()
    assert GOLD in graph.asset_check_keys and not graph.get_check_spec(GOLD).blocking
    of_table = made.resolve_job_def("backfill_monthly_tables")
    assert not [node.name for node in of_table.nodes if node.name.endswith(FRESH)], "runs ask nothing once more"
    by_hand = made.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={GOLD}
    )
    assert by_hand.execute_in_process(instance=ticks.instance).success
    assert shown(ticks, GOLD, Grain.MONTHLY) == before


def test_an_event_log_of_dagsters_own_has_one_status_for_the_table(hand: Hand) -> None:
    hand.publish(hand.silver({SIXTH: 30}))
    plain = Ticks(hand.ws)
    with plain.open():
        for _ in range(2):
            plain.cursors.clear()
            plain.asked("fresh")
        (newest, *_) = plain.instance.event_log_storage.get_asset_check_execution_history(GOLD, limit=2)
        assert newest.event is not None
        evaluation = newest.event.get_dagster_event().asset_check_evaluation_data
        assert (evaluation.passed, evaluation.partition) == (False, None)
        assert evaluation.description == (
            "1 partition no longer follows from the present. Next: backfill stale gold.sales_monthly"
        )
