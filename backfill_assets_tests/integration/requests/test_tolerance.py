"""A difference below what a table tolerates is left by its owner's word, until its inputs change again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.plan import described_plan, plan
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import NotApproved, Refused
from backfill_assets.domain import Breakdown, Domain, tolerance
from backfill_assets.ledger.findings import BreakdownCell, RowChanges
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.next_steps import DECIDE
from backfill_assets.orchestration.resources import Session
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.alternatives import AlternativeKind
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.report.stale import stale_document, stale_page
from backfill_assets.report.words.plans import alternative_words
from backfill_assets.staleness.decide import Staleness
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales_monthly
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, open_shop, sale, ticking_clock

TOLERANT = replace(
    recent_sales,
    breakdown=Breakdown(measures={"sold": "amount"}),
    tolerance=tolerance("sold", percent="15.5%", owner="finance"),
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
    Restatement(shop.ws, set_id).cancel(by=by, reason=reason, leave=True)


def stale(shop: Shop) -> Staleness:
    (found,) = [each for each in operations.stale_tables(shop.ws) if each.table == RECENT]
    return found


@pytest.mark.long
def test_what_an_owner_leaves_is_not_stale_until_its_inputs_change_again(shop: Shop) -> None:
    before = shop.amounts()
    set_id, run_id = restated(shop, 5, "late")
    (instead,) = run_report(shop.ws, run_id).instead
    assert (instead.instead, instead.stays.days) == (AlternativeKind.LEAVE, REACHED)
    assert worded(alternative_words(instead)) == (
        "leave 2026-01-04..2026-01-07, 4 days as it is; it costs nothing: changes of sold in the rows of each month "
        "add up to at most 15.5 % of its total, which the table tolerates (owner: finance). An owner accepts it: "
        f"backfill cancel {set_id} --leave --reason WHY --by NAME"
    )
    assert "Alternatives" in [
        block.title for block in run_page(run_report(shop.ws, run_id)).blocks if hasattr(block, "title")
    ]

    with pytest.raises(
        NotApproved, match=r"accepted by a member of finance \(cleo\), which owns silver\.recent_sales, and ben"
    ):
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
    operations.approve(shop.ws, more, by="ben")
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
    with pytest.raises(Refused, match="was compared with rows that are no longer accepted"):
        leave(shop, set_id, by="cleo", reason="too small")


@pytest.mark.long
def test_a_plan_says_that_what_it_finds_may_be_left_before_it_has_found_it(shop: Shop) -> None:
    shop.land("late.jsonl", [sale(LATE, amount=5, sale_id="late")])
    days = DayRange.inclusive(REACHED[0], REACHED[-1])
    request = PlanRequest(table=RECENT, days=days, reason="a late sale", by="ana")
    found = {each.instead: each for each in described_plan(shop.ws, plan(shop.ws, request)).alternatives}
    perhaps = found[AlternativeKind.PERHAPS_LEAVE]
    assert (perhaps.stays.days, perhaps.next_step) == (REACHED, None)
    assert "as it is" in worded(alternative_words(perhaps))
    assert worded(alternative_words(perhaps)).endswith(
        "if its gates find that changes of sold in the rows of each month add up to at most 15.5 % of its total, "
        "which the table tolerates (owner: finance): the report of the run says so, and how an owner accepts it"
    )


@pytest.mark.long
def test_what_is_more_in_one_row_does_not_make_up_for_what_is_less_in_another(shop: Shop) -> None:
    both = [sale(LATE, amount=10, sale_id="more"), sale(OUTPUT.last, amount=-20, sale_id="less")]
    shop.land("both.jsonl", both)
    planned = operations.plan_set(shop.ws, SetRequest(reason="moved", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    (member,) = planned.manifest.members
    shop.staged(member.run_id)
    with shop.ws.ledger.read() as tx:
        (cell,) = tx.samples.latest(member.run_id, BreakdownCell)
        (changes,) = tx.samples.latest(member.run_id, RowChanges)
    # Of 240 in six days, 40 more in four of them and 40 less in two.
    assert (cell.before["sold"], cell.after["sold"], changes.amount) == ("240", "240", "80")
    assert run_report(shop.ws, member.run_id).instead == ()
    with pytest.raises(Refused, match="changes more of them"):
        leave(shop, planned.manifest.set_id, by="cleo", reason="it is the same in the end")


@pytest.mark.long
def test_an_owner_leaves_rows_as_they_are_in_dagster_and_nobody_else_does(shop: Shop) -> None:
    set_id, run_id = restated(shop, 5, "late")
    job = definitions_over(shop.ws, lambda: Session(workspace=shop.ws), pool=None).resolve_job_def(DECIDE)
    with open_record(shop.ws.settings) as instance:

        def left_by(owner: str) -> bool:
            typed = {"id": set_id, "owner": owner, "reason": "too small"}
            result = job.execute_in_process(instance=instance, run_config={"leave": typed}, raise_on_error=False)
            return result.success

        assert not left_by("ben")
        assert operations.state_of(shop.ws, run_id) is RunState.PASSED
        assert left_by("cleo")
    assert operations.run_named(shop.ws, run_id).note == "the difference was accepted by cleo: too small"
    assert stale(shop).partitions == ()
