"""A plan names what could be done instead of it, with what that costs, and only where there is something."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.plan import described_plan, plan
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.partitions import DayRange
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.alternatives import Alternative, Instead
from backfill_assets.report.words.plans import alternative_words
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.by_hand import JANUARY, MONTH, Hand
from backfill_assets_tests.support.hand_made import GOLD
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, open_shop, ticking_clock


def instead(hand: Hand, *, mode: Mode = Mode.BACKFILL) -> tuple[Alternative, ...]:
    request = PlanRequest(table=GOLD, days=JANUARY, reason="is it right?", by="ana", mode=mode)
    return described_plan(hand.ws, plan(hand.ws, request)).alternatives


def test_nothing_is_an_alternative_where_nothing_is_stale_and_costs_nothing(hand: Hand) -> None:
    (found,) = instead(hand)
    assert (found.instead, found.stays.days, found.cost and found.cost.core_seconds) == (Instead.NOTHING, (MONTH,), 0)
    assert worded(alternative_words(found)) == (
        "nothing: none of 2026-01, 1 month is stale, so that every row is expected to be equal; it costs nothing"
    )
    assert instead(hand, mode=Mode.DRY_RUN) == ()


def test_what_is_stale_as_a_whole_has_no_alternative(hand: Hand) -> None:
    hand.published({date(2026, 1, 5): 15})
    assert instead(hand) == ()


@pytest.mark.long
def test_only_what_is_stale_costs_its_share_and_a_fix_forward_leaves_all_of_it(
    tmp_path: Path, published_home: Path, spark: SparkSession
) -> None:
    copy_home(published_home, tmp_path / "home")
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    fresh = DayRange(OUTPUT.start, OUTPUT.start + timedelta(days=2))
    shop.published(fresh, reason="the present release")
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="all of it", by="ana")
    document = described_plan(shop.ws, plan(shop.ws, request))
    only, forward = document.alternatives
    assert (only.instead, forward.instead) == (Instead.ONLY_STALE, Instead.FORWARD)
    assert (only.stays.days, only.partitions.days) == (tuple(fresh), tuple(OUTPUT)[2:])
    assert only.cost and document.cost and 0 < only.cost.core_seconds < document.cost.core_seconds
    assert worded(only.next_step) == (
        f"backfill plan {RECENT} --stale --from {fresh.end} --to {OUTPUT.last} --reason WHY --by NAME"
    )
    assert (forward.stays.days, forward.cost and forward.cost.core_seconds) == (tuple(OUTPUT), 0)
    earlier = PlanRequest(table=RECENT, days=OUTPUT, reason="back", by="ana", transform_version="0.9.0")
    assert described_plan(shop.ws, plan(shop.ws, earlier)).alternatives == ()
    shop.ws.close()
