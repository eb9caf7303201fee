"""A check of accepted rows in Dagster: from the launchpad, and as the checks of the table's page."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from dagster import AssetCheckKey, DagsterInstance, ExecuteInProcessResult

from backfill_assets.application.check import check
from backfill_assets.application.recorder import Acting
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.next_steps import CHECK
from backfill_assets.orchestration.partitions import published_key
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.orchestration.resources import Session
from backfill_assets_tests.integration.upkeep.test_check_rows import (
    SMALL,
    failing,
    lacking,
    seen_by_readers,
    with_gates,
)
from backfill_assets_tests.support.dagster_history import latest_check
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.orchestration_examples import failures
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop

DAYS = {"first_day": OUTPUT.start.isoformat(), "last_day": OUTPUT.last.isoformat()}


def launched(shop: Shop, instance: DagsterInstance, table: str, typed: Mapping[str, object]) -> ExecuteInProcessResult:
    job = definitions_over(shop.ws, lambda: Session(workspace=shop.ws), pool=None).resolve_job_def(CHECK)
    return job.execute_in_process(instance=instance, run_config={table: dict(typed)}, raise_on_error=False)


def shown(shop: Shop, instance: DagsterInstance, gate: str) -> tuple[bool, str]:
    """What the page of the table shows of a gate."""
    key = AssetCheckKey(published_key(shop.ws.domain.table(RECENT)), gate)
    evaluation = latest_check(instance, key, None).event.dagster_event.asset_check_evaluation_data
    return evaluation.passed, evaluation.description or ""


@pytest.mark.long
def test_anybody_checks_rows_in_the_launchpad_and_the_checks_of_the_table_show_what_was_found(
    published_shop: Shop,
) -> None:
    shop = with_gates(published_shop, SMALL)
    before = seen_by_readers(shop)
    with open_record(shop.ws.settings) as instance:
        result = launched(shop, instance, RECENT, {**DAYS, "gates": ["small"], "by": "eve"})
        (said,) = failures(result)
        assert "fail a gate" in said
        assert "backfill_plan" in said or "backfill plan" in said
        passed, description = shown(shop, instance, "small")
        assert not passed
        assert "7 of 7 days that readers see failed" in description
        assert f"backfill check {RECENT}" in description
        assert (lacking(shop), [each.gate for each in failing(shop)]) == ({}, ["small"])
        # It approves and publishes nothing, whoever checks.
        assert seen_by_readers(shop) == before
        assert launched(shop, instance, SALES, {**DAYS, "by": "ana"}).success
        for by in ("sensor", "policy:auto", " "):
            assert failures(launched(shop, instance, RECENT, {**DAYS, "by": by}))
        assert seen_by_readers(shop) == before


def test_the_command_shows_its_results_on_the_page_of_the_table(published_shop: Shop) -> None:
    shop = with_gates(published_shop, SMALL)
    with open_record(shop.ws.settings) as instance:
        acting = Acting(by="eve", recorder=DagsterRecorder(shop.ws.settings, lambda: instance))
        check(shop.ws, acting, RECENT, OUTPUT, gates=["small", "plausible"])
        assert shown(shop, instance, "small")[0] is False
        assert shown(shop, instance, "plausible") == (True, "7 days that readers see passed.")
