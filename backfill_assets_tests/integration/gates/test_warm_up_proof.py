"""A window that is too short is caught before anything is published, and a right one is not complained about."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, Window, warm_up_proof
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.examples.enforcement_sla.sources import case_events
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.findings import Finding
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.edited import edit
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, Shop, shop_environment, ticking_clock
from backfill_assets_tests.unit.test_docs import own_domain

LATE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 9))
SILVER, BRONZE = case_sla_daily.name, case_events.name


def redeclared(shop: Shop, **changed: object) -> Shop:
    """The same shop, whose author declares the table in another way."""
    table = replace(recent_sales, **changed)  # type: ignore[arg-type]
    domain = Domain(name="example", package="backfill_assets_tests.domains.example", sources=(sales,), derived=(table,))
    ws = replace(shop.ws, domain=domain)
    return replace(shop, ws=ws)


@pytest.mark.long
def test_a_window_that_is_long_enough_passes_and_says_what_it_was_compared_with(shop: Shop) -> None:
    run_id = shop.staged(shop.planned(LATE))
    found = {day.day: verdict_words(result) for day, result in operations.proofs(shop.ws, run_id).items()}
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    assert found == dict.fromkeys(range(5, 10), "the same 1 row with 2 more days back")


@pytest.mark.long
def test_a_warm_up_that_is_too_short_blocks_the_run(shop: Shop) -> None:
    short = redeclared(shop, window=Window(days_back=1, days_ahead=1))
    run_id = short.staged(short.planned(LATE))
    assert operations.state_of(short.ws, run_id) is RunState.BLOCKED
    found = operations.proofs(short.ws, run_id)
    assert verdict_words(found[date(2026, 1, 5)]) == (
        "with 3 more days back, 1 of 1 rows differ: "
        "the window is too short, or the transform does not give the same rows twice"
    )
    assert found[date(2026, 1, 5)].observed["changed_columns"] == {"amount": 1}
    assert [day for day, result in found.items() if not result.passed] == [date(2026, 1, 5)]
    with pytest.raises(IllegalTransition, match="blocked by warm_up, so nothing can be published as it is"):
        operations.approve(short.ws, run_id, by="ben")
    with pytest.raises(IllegalTransition, match="it is BLOCKED"):
        short.publish(run_id)
    assert short.amounts() == {}


@pytest.mark.long
def test_a_look_ahead_that_is_too_short_blocks_the_run_as_well(shop: Shop) -> None:
    short = redeclared(shop, window=Window(days_back=2))
    run_id = short.staged(short.planned(LATE))
    assert operations.state_of(short.ws, run_id) is RunState.BLOCKED
    assert verdict_words(operations.proofs(short.ws, run_id)[date(2026, 1, 9)]) == (
        "with 2 more days back and 1 more day ahead, 1 of 1 rows differ: "
        "the window is too short, or the transform does not give the same rows twice"
    )


@pytest.mark.long
def test_a_dry_run_is_proven_too(shop: Shop) -> None:
    short = redeclared(shop, window=Window(days_back=1, days_ahead=1))
    request = PlanRequest(table=RECENT, days=LATE, reason="look", by="ana", mode=Mode.DRY_RUN)
    run_id = short.staged(operations.plan(short.ws, request).manifest.run_id)
    assert operations.state_of(short.ws, run_id) is RunState.BLOCKED


@pytest.mark.long
def test_an_author_can_opt_out_or_only_be_warned(shop: Shop) -> None:
    window = Window(days_back=1, days_ahead=1)
    silent = redeclared(shop, window=window, gates=(warm_up_proof(partitions=0),))
    run_id = silent.staged(silent.planned(LATE))
    assert (operations.state_of(silent.ws, run_id), operations.proofs(silent.ws, run_id)) == (RunState.PASSED, {})
    told = redeclared(shop, window=window, gates=(warm_up_proof(partitions=1, blocking=False),))
    run_id = told.staged(told.planned(LATE))
    assert operations.state_of(told.ws, run_id) is RunState.PASSED
    assert not operations.proofs(told.ws, run_id)[date(2026, 1, 5)].passed


@pytest.mark.long
def test_where_no_earlier_day_is_accepted_only_the_look_ahead_is_longer(shop: Shop) -> None:
    one = DayRange.inclusive(OUTPUT.start, OUTPUT.start)
    found = operations.proofs(shop.ws, shop.staged(shop.planned(one)))
    assert verdict_words(found[OUTPUT.start]) == "the same 1 row with 6 more days ahead"


@pytest.mark.long
def test_where_no_further_day_is_accepted_there_is_nothing_to_compare_with(shop: Shop) -> None:
    alone = redeclared(shop, window=Window(days_back=8, days_ahead=1))
    one = DayRange.inclusive(OUTPUT.last, OUTPUT.last)
    run_id = alone.staged(alone.planned(one))
    assert {result.finding for result in operations.proofs(alone.ws, run_id).values()} == {Finding.NOTHING_TO_COMPARE}
    assert operations.state_of(alone.ws, run_id) is RunState.PASSED


@pytest.mark.long
def test_gating_again_keeps_the_proof_of_the_same_files(shop: Shop) -> None:
    run_id = shop.staged(shop.planned(LATE))
    before = operations.proofs(shop.ws, run_id)
    # Computing it again would be refused with other code; what was proven of these files still holds.
    edit(shop.ws)
    operations.gate(shop.ws, run_id, actor="ana")
    assert operations.proofs(shop.ws, run_id) == before
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


@pytest.mark.long
def test_the_example_of_the_tutorial_is_proven(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = own_domain()
    package = tmp_path / "code" / "my_shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    environment = {
        **shop_environment(tmp_path / "home"),
        "BACKFILL_DOMAIN": "my_shop",
        "BACKFILL_FIRST_DAY": "2025-12-26",
    }
    settings = Settings.from_environment(environment)
    ws = Workspace.open(settings, clock=ticking_clock(NOON), open_session=lambda: spark)
    path = tmp_path / "january.jsonl"
    orders = ({"order_id": f"o-{day}", "ordered_at": f"{day}T12:00:00Z", "amount": 10} for day in DAYS)
    path.write_text("".join(json.dumps(order) + "\n" for order in orders), encoding="utf-8")
    operations.land(ws, "orders", path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    before = tuple(DayRange.inclusive(date(2025, 12, 26), date(2025, 12, 31)))
    for days in (None, before):
        load = operations.plan_load(
            ws, "orders", partitions=days, by="ana", reason="the shop was not open yet", empty=days or ()
        )
        assert load is not None
        operations.stage(ws, load.run_id, actor="ana")
        operations.gate(ws, load.run_id, actor="ana")
        operations.publish(ws, load.run_id, by="ana")
    table = "orders_of_the_week"
    request = PlanRequest(table=table, days=DayRange.inclusive(date(2026, 1, 3), DAYS.last), reason="first", by="ana")
    run_id = operations.plan(ws, request).manifest.run_id
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    assert operations.state_of(ws, run_id) is RunState.PASSED
    between = operations.proofs(ws, run_id)[date(2026, 1, 4)]
    assert verdict_words(between) == "the same 1 row with 2 more days back"
    ws.close()


# ------------------------------------------------------------------------------------------------- the traffic fines
