"""A difference below what a table tolerates is left by its owner's word, until its inputs change again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.subjects import subject_of
from backfill_assets.core.errors import NotApproved, Refused
from backfill_assets.domain import Breakdown, Domain, tolerance
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest, WhyLeftOut
from backfill_assets.report.alternatives import Instead
from backfill_assets.report.report import run_report
from backfill_assets.report.screens.run_report import run_page
from backfill_assets.report.screens.staleness import stale_page
from backfill_assets.report.stale import stale_document
from backfill_assets.report.words.plans import alternative_words
from backfill_assets.staleness.ranges import Cause, Staleness
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales_monthly
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, sale, ticking_clock

TOLERANT = replace(
    recent_sales,
    breakdown=Breakdown(measures={"sold": "amount"}),
    tolerance=tolerance("sold", percent=15, owner="finance"),
)
LATE = date(2026, 1, 5)
REACHED = tuple(date(2026, 1, day) for day in (4, 5, 6, 7))
"""The days whose sums hold a sale of that day, of 160 together: 20 more are 12.5 %."""


def tolerant(domain: Domain) -> Domain:
    return replace(domain, derived=(TOLERANT, replace(sales_monthly, inputs={"recent": TOLERANT})))


@pytest.fixture
def shop(tmp_path: Path, stocked_home: Path, spark: SparkSession) -> Iterator[Shop]:
    copy_home(stocked_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + ONE_HOUR), spark=spark)
    reference = folder_at(opened.ws.settings.reference)
    reference.mkdir(parents=True, exist_ok=True)
    (reference / "approvers.yaml").write_text('version: "1"\ngroups:\n  finance: [cleo]\n', encoding="utf-8")
    shop = replace(opened, ws=replace(opened.ws, domain=tolerant(opened.ws.domain)))
    shop.published()
    yield shop
    shop.ws.close()


def restated(shop: Shop, amount: int, name: str) -> tuple[str, str]:
    """A late sale, and the set that would restate what it changes, gated."""
    shop.land(f"{name}.jsonl", [sale(LATE, amount=amount, sale_id=name)])
    planned = operations.plan_set(shop.ws, SetRequest(reason="a late sale", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    (member,) = planned.manifest.members
    shop.staged(member.run_id)
    return planned.manifest.set_id, member.run_id


def leave(shop: Shop, set_id: str, *, by: str, reason: str) -> None:
    subject_of(shop.ws, set_id).cancel(by=by, reason=reason, leave=True)


def stale(shop: Shop) -> Staleness:
    (found,) = [each for each in operations.stale_tables(shop.ws) if each.table == RECENT]
    return found


def test_what_an_owner_leaves_is_not_stale_until_its_inputs_change_again(shop: Shop) -> None:
    before = shop.amounts()
    set_id, run_id = restated(shop, 5, "late")
    (instead,) = run_report(shop.ws, run_id).instead
    assert (instead.instead, instead.stays.days) == (Instead.LEAVE, REACHED)
    assert worded(alternative_words(instead)) == (
        "leave 2026-01-04..2026-01-07, 4 days as it is; it costs nothing: sold of each month moves by at most 15 %, "
        "which the table tolerates by the word of finance. An owner accepts it: "
        f"backfill cancel {set_id} --leave --reason WHY --by NAME"
    )
    assert "Instead" in [
        block.title for block in run_page(run_report(shop.ws, run_id)).blocks if hasattr(block, "title")
    ]

    with pytest.raises(NotApproved, match=r"accepted by a member of finance, which owns silver\.recent_sales, and ben"):
        leave(shop, set_id, by="ben", reason="too small")
    assert stale(shop).partitions == REACHED
    leave(shop, set_id, by="cleo", reason="too small to tell anybody")

    run = operations.run_named(shop.ws, run_id)
    assert (run.state, run.note) == (
        RunState.CANCELLED,
        "the difference was accepted by cleo: too small to tell anybody",
    )
    with shop.ws.ledger.read() as tx:
        (said,) = [event for event in tx.events.entries(entity_id=run_id) if event.to_state == RunState.CANCELLED]
    assert (said.actor, said.payload["groups"], said.payload["reason"]) == (
        "cleo",
        ["finance"],
        "too small to tell anybody",
    )
    (kept,) = stale(shop).kept
    assert (stale(shop).partitions, kept.partitions) == ((), REACHED)
    assert [(why.cause, why.run_id) for why in kept.reasons] == [(Cause.DIFFERENCE_ACCEPTED, run_id)]
    assert "4 not stale, accepted difference" in str(
        stale_page(stale_document(operations.stale_tables(shop.ws), table=None, days=None, sources=()))
    )
    again = operations.plan_set(shop.ws, SetRequest(reason="is there more?", by="ana", stale=True))
    assert isinstance(again, NothingToRebuild)
    assert (REACHED, WhyLeftOut.DIFFERENCE_ACCEPTED) in [(each.partitions, each.why) for each in again.left_out]
    assert shop.amounts() == before
    assert audit(shop.ws).problems == ()

    # The next sale adds to it, and together they are more than what is tolerated.
    more, second = restated(shop, 5, "again")
    assert stale(shop).partitions == REACHED
    assert {why.cause for each in stale(shop).ranges for why in each.reasons} == {
        Cause.INPUT_CHANGED,
        Cause.DIFFERENCE_ACCEPTED,
    }
    assert run_report(shop.ws, second).instead == ()
    with pytest.raises(Refused, match=f"cannot be left as they are in place of run {second}"):
        leave(shop, more, by="cleo", reason="as before")
    operations.approve_set(shop.ws, more, by="ben")
    operations.publish_set(shop.ws, more, by="ben")
    assert shop.amounts() == {day: amount + (10 if day in REACHED else 0) for day, amount in before.items()}
    assert (stale(shop).partitions, stale(shop).kept) == ((), ())
    with shop.ws.ledger.read() as tx:
        assert tx.sets.get(set_id).state is SetState.CANCELLED


@pytest.mark.long
def test_what_was_compared_with_earlier_rows_cannot_be_left(shop: Shop) -> None:
    set_id, _ = restated(shop, 5, "late")
    run_id = shop.ready(reason="meanwhile")
    shop.publish(run_id)
    with pytest.raises(Refused, match="was compared with rows that are not accepted any more"):
        leave(shop, set_id, by="cleo", reason="too small")
