"""A plan names what could be done instead of it, with what that costs, and only where there is something."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from backfill_assets.application.plan import described_plan, plan
from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.planning.manifest_parts import Cause, Mode, Reason
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.alternatives import Alternative, AlternativeKind
from backfill_assets.report.status import status
from backfill_assets.report.what_next import next_step
from backfill_assets.report.words.plans import alternative_words
from backfill_assets.staleness.decide import Staleness, StaleRange
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains import example
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.by_hand import JANUARY, MONTH, Hand
from backfill_assets_tests.support.hand_made import GOLD, SILVER
from backfill_assets_tests.support.ledger_examples import a_manifest
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, open_shop, sale, ticking_clock


def instead(hand: Hand, *, mode: Mode = Mode.BACKFILL) -> tuple[Alternative, ...]:
    request = PlanRequest(table=GOLD, days=JANUARY, reason="is it right?", by="ana", mode=mode)
    return described_plan(hand.ws, plan(hand.ws, request)).alternatives


def test_nothing_is_an_alternative_where_nothing_is_stale_and_costs_nothing(hand: Hand) -> None:
    (found,) = instead(hand)
    assert (found.instead, found.stays.days, found.cost and found.cost.core_seconds) == (
        AlternativeKind.NOTHING,
        (MONTH,),
        0,
    )
    assert worded(alternative_words(found)) == (
        "nothing: none of 2026-01, 1 month is stale, so that every row is expected to be equal; it costs nothing"
    )
    assert instead(hand, mode=Mode.DRY_RUN) == ()


def test_what_is_stale_as_a_whole_may_be_corrected_by_key_where_its_rows_have_one(hand: Hand) -> None:
    hand.published({date(2026, 1, 5): 15})
    assert instead(hand) == ()
    keyed = replace(example.sales_monthly, key=("month", "amount"))
    ws = replace(hand.ws, domain=replace(example.DOMAIN, derived=(example.recent_sales, keyed)))
    (found,) = instead(replace(hand, ws=ws))
    assert (found.instead, found.partitions.days) == (AlternativeKind.BY_KEY, (MONTH,))
    assert worded(alternative_words(replace(found, cost=None))) == (
        "a correction by key: only its rows change, and every other row stays exactly as it is: backfill plan table "
        f"{GOLD} --where amount=KEY --from 2026-01-01 --to 2026-01-31 --reason WHY --by NAME"
    )


def test_a_plan_refuses_columns_that_cannot_follow_those_of_the_table_before_anything_is_computed(hand: Hand) -> None:
    added = StructType([*example.RECENT_SALES.fields, StructField("orders", LongType(), nullable=False)])
    recent = replace(example.recent_sales, schema=added)
    monthly = replace(example.sales_monthly, inputs=dict.fromkeys(example.sales_monthly.inputs, recent))
    ws = replace(hand.ws, domain=replace(example.DOMAIN, derived=(recent, monthly)))
    with pytest.raises(OtherColumns, match="orders is missing") as refused:
        plan(ws, PlanRequest(table=SILVER, days=JANUARY, reason="a new column", by="ana"))
    assert "only columns that can be null may be added" in (advised(refused.value) or "")


def test_a_run_whose_release_is_no_longer_declared_is_advised_to_be_given_up(hand: Hand) -> None:
    manifest = a_manifest("silver-gone", table=SILVER, days=[date(2026, 1, 5)], transform_version="0.0.1")
    with hand.ws.ledger.write() as tx:
        tx.runs.add(manifest, actor="ana")
    with hand.ws.ledger.read() as tx:
        assert worded(next_step(hand.ws, tx, tx.runs.get("silver-gone"))) == (
            "release 0.0.1 is no longer declared, so it cannot be computed: "
            "backfill cancel silver-gone --by NAME --reason WHY"
        )


@pytest.mark.long
def test_only_what_is_stale_costs_its_share_and_a_fix_forward_leaves_all_of_it(
    tmp_path: Path, published_home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_home(published_home, tmp_path / "home")
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    fresh = DayRange(OUTPUT.start, OUTPUT.start + timedelta(days=2))
    shop.published(fresh, reason="the present release")
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="all of it", by="ana")
    planned = plan(shop.ws, request)
    document = described_plan(shop.ws, planned)
    only, forward = document.alternatives
    assert (only.instead, forward.instead) == (AlternativeKind.ONLY_STALE, AlternativeKind.FORWARD)
    assert (only.stays.days, only.partitions.days) == (tuple(fresh), tuple(OUTPUT)[2:])
    assert only.cost and document.cost and 0 < only.cost.core_seconds < document.cost.core_seconds
    assert worded(only.next_step) == (
        f"backfill plan stale {RECENT} --from {fresh.end} --to {OUTPUT.last} --reason WHY --by NAME"
    )
    with monkeypatch.context() as edited:
        code = Reason(cause=Cause.CODE_CHANGED)
        of_code = StaleRange(grain=Grain.DAILY, partitions=only.partitions.days, reasons=(code,))
        found = Staleness(table=RECENT, grain=Grain.DAILY, accepted=len(OUTPUT), ranges=(of_code,))
        edited.setattr("backfill_assets.staleness.find.stale_partitions", lambda *_: found)
        only, *_ = described_plan(shop.ws, planned).alternatives
    # Nothing but changed code is planned by `--stale` alone.
    assert f"--to {OUTPUT.last} --changed-code --reason" in worded(only.next_step)
    assert (forward.stays.days, forward.cost and forward.cost.core_seconds) == (tuple(OUTPUT), 0)
    earlier = PlanRequest(table=RECENT, days=OUTPUT, reason="back", by="ana", transform_version="0.9.0")
    assert described_plan(shop.ws, plan(shop.ws, earlier)).alternatives == ()
    pilot = Reason(cause=Cause.PILOTED, name="shop=a", run_id="pilot-1")
    mixed = replace(planned, manifest=replace(planned.manifest, changed=(*planned.manifest.changed, pilot)))
    assert [each.instead for each in described_plan(shop.ws, mixed).alternatives] == [AlternativeKind.ONLY_STALE]
    shop.land("late.jsonl", [sale(OUTPUT.last, sale_id="late")])
    late = replace(request, reason="all of it, with a late sale")
    assert [each.instead for each in described_plan(shop.ws, plan(shop.ws, late)).alternatives] == [
        AlternativeKind.ONLY_STALE
    ]
    shop.ws.close()


def test_a_status_shows_the_newest_runs_and_every_older_one_that_waits(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backfill_assets.report.status._NEWEST", 1)
    request = PlanRequest(table=GOLD, days=JANUARY, reason="why not", by="ana", mode=Mode.BACKFILL)
    waits, cancelled, dry, newest = (
        plan(hand.ws, replace(request, reason=why, mode=mode)).manifest.run_id
        for why, mode in (("1", Mode.BACKFILL), ("2", Mode.BACKFILL), ("3", Mode.DRY_RUN), ("4", Mode.BACKFILL))
    )
    operations.cancel(hand.ws, cancelled, by="ana", reason="not wanted")
    assert [run.record.run_id for run in status(hand.ws).runs] == [newest, waits], dry
