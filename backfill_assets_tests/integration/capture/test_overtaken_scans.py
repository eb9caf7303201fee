"""Reconciliations that others have landed files before: what these brought is not withdrawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land
from backfill_assets.application.requests import request_of
from backfill_assets.core.errors import Refused
from backfill_assets.landing.errors import WithdrawsTooMuch
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.safeguards import Policy
from backfill_assets.report.command_line import explained
from backfill_assets.report.pages import page_of
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.api_server import Api, ApiShop, running_api
from backfill_assets_tests.support.captured_shop import FIRST, SALES, plain_text

LAST = FIRST + timedelta(days=3)


@pytest.fixture
def api() -> Iterator[Api]:
    with running_api() as found:
        yield found


@pytest.fixture
def shop(api: Api, spark: SparkSession, tmp_path: Path) -> ApiShop:
    """A shop that has captured twenty sales, of which the API has deleted ten since."""
    api.sell(20)
    shop = ApiShop(home=tmp_path / "home", spark=spark, api=api)
    shop.capture(FIRST, LAST, builds=True)
    for number in range(10):
        del api.sales[f"s{number:06}"]
    return shop


def land_by_hand(shop: ApiShop, path: Path) -> None:
    """A person lands a sale that the API has as well by now."""
    shop.api.sell(1, start=20)
    path.write_text(json.dumps(shop.api.sales["s000020"]) + "\n", encoding="utf-8")
    ws = shop.open()
    try:
        land(ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    finally:
        ws.close()


def sales(shop: ApiShop) -> set[str]:
    return {row["sale_id"] for row in shop.rows()}


@pytest.mark.long
def test_a_scan_withdraws_nothing_that_a_person_has_landed_since_it_was_read(shop: ApiShop, tmp_path: Path) -> None:
    """Only other captures were looked at: the sale that was landed by hand was withdrawn by the answers before it."""
    with pytest.raises(WithdrawsTooMuch, match="lacks 10 of 20 keys"):
        shop.capture(FIRST, LAST, is_whole=True)
    land_by_hand(shop, tmp_path / "by-hand.jsonl")
    with pytest.raises(
        Refused, check=has_code("extract_overtaken"), match=r"imp-\d+ \(.*by-hand.jsonl\) has landed on days of"
    ) as refused:
        shop.capture(FIRST, LAST)
    assert "--reconcile" in explained(refused.value)
    asked = len(shop.api.asked)
    found = shop.capture(FIRST, LAST, is_whole=True, builds=True, confirmed_by="ben")
    assert (len(shop.api.asked) > asked, found.overtaken, found.capture_id) == (True, "cap-000002", "cap-000003")
    assert "cap-000002 is not landed: other files" in plain_text(page_of(found))
    assert sales(shop) == shop.api.sales.keys()
    again = shop.capture(FIRST, LAST, is_whole=True)
    assert again.overtaken is None


@pytest.mark.long
def test_a_scan_that_was_approved_before_others_landed_is_asked_for_again(shop: ApiShop, tmp_path: Path) -> None:
    careful = replace(shop, policy=Policy(backfill="approve"))
    first = careful.capture(FIRST, LAST, is_whole=True)
    assert (first.waits, careful.capture(FIRST, LAST, is_whole=True).capture_id) == (True, first.capture_id)
    land_by_hand(careful, tmp_path / "by-hand.jsonl")
    approve(careful, first.capture_id)
    then = careful.capture(FIRST, LAST, is_whole=True)
    assert (then.waits, then.overtaken, then.capture_id != first.capture_id) == (True, first.capture_id, True)
    approve(careful, then.capture_id)
    found = careful.capture(FIRST, LAST, is_whole=True, confirmed_by="ben")
    assert (found.waits, found.overtaken, found.capture_id) == (False, None, then.capture_id)
    assert found.landed is not None
    assert found.landed.extract is not None
    withdrawn = found.landed.extract.withdrawn
    assert (withdrawn.keys, withdrawn.current) == (10, 21)


def approve(shop: ApiShop, capture_id: str | None) -> None:
    assert capture_id is not None
    ws = shop.open()
    try:
        request_of(ws, capture_id).approve(by="ben", note="as agreed")
    finally:
        ws.close()
