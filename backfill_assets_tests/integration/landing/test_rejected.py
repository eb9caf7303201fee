"""Rejected records: who plans, reviews or looks at days sees that files with events of them had others."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.application.plan import described_plan
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.locate import locate
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.planned import PlanDocument
from backfill_assets.report.report import run_report
from backfill_assets_tests.integration.staleness.test_stale import land_only
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale


def january(number: int) -> date:
    return date(2026, 1, number)


@pytest.fixture(name="half")
def half_a_file(published_shop: Shop) -> str:
    """A file of the sixth, of whose three records one is rejected, which says that it is of the ninth."""
    good = [sale(january(6), sale_id=name) for name in ("x", "y")]
    return land_only(published_shop, "half.jsonl", *good, {**sale(january(9), sale_id="z"), "amount": "much"})


def planned(shop: Shop, first: int, last: int) -> PlanDocument:
    days = DayRange.inclusive(january(first), january(last))
    return described_plan(shop.ws, operations.plan(shop.ws, PlanRequest(table=RECENT, days=days, reason="x", by="ana")))


SAID = "1 of 3 records of {}, which has events of these days of bronze.sales. To see why: backfill locate sales "


@pytest.mark.long
def test_plans_and_reports_of_days_say_what_was_rejected_of_the_files_behind_them(
    published_shop: Shop, half: str
) -> None:
    before = shop_reports(published_shop)
    plan = planned(published_shop, 4, 5)
    (found,) = plan.rejected
    assert (found.source, found.imports, found.landed, found.rejected) == (SALES, (half,), 3, 1)
    assert SAID.format(half) in markdown_page(page_of(plan))
    assert SAID.format(half) in markdown_page(page_of(run_report(published_shop.ws, plan.plan.manifest.run_id)))
    # It reads the seventh and later days; the file had not landed when the others were planned.
    assert planned(published_shop, 9, 9).rejected == ()
    assert before == shop_reports(published_shop)
    assert before and not any(before)


def shop_reports(shop: Shop) -> list[object]:
    """What was rejected behind the runs that were published."""
    with shop.ws.ledger.read() as tx:
        published = [run.run_id for run in tx.runs.records(table=RECENT, states=[RunState.PUBLISHED])]
    return [run_report(shop.ws, run_id).rejected for run_id in published]


@pytest.mark.long
def test_a_period_shows_some_of_what_was_rejected_and_where_the_rest_is(published_shop: Shop, half: str) -> None:
    found = locate(published_shop.ws, SALES, DayRange.inclusive(january(6), january(6)))
    usual, second = found.imports
    assert (usual.rejected, [row["row_number"] for row in second.rejected]) == ((), ["3"])
    text = markdown_page(page_of(found))
    assert "half.jsonl, record 3: amount is not a whole number: 'much'" in text
    assert "all of them, with their reasons, are in the Delta table" in text
    assert found.quarantine.endswith("quarantine/sales")
