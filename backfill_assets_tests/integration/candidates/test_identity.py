"""What a run records of itself beyond its rows: the runs it replaces, the modules and the versions that compute it."""

from __future__ import annotations

import platform
from dataclasses import replace
from datetime import timedelta

import pyspark
import pytest

from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.report import run_report
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop, sale


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


@pytest.mark.long
def test_a_manifest_names_the_runs_whose_accepted_rows_it_replaces(shop: Shop) -> None:
    first = operations.find_run(shop.ws, RECENT, tuple(OUTPUT), states=[RunState.PUBLISHED])
    assert first is not None
    assert first.manifest.supersedes == ()
    middle = replace(OUTPUT, start=OUTPUT.start + timedelta(days=2), end=OUTPUT.end - timedelta(days=2))
    second = shop.published(middle)
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="a third", by="ana")
    third = operations.plan(shop.ws, request)
    assert third.manifest.supersedes == (first.run_id, second)
    assert run_report(shop.ws, third.manifest.run_id).run.manifest.supersedes == (first.run_id, second)
    dry = operations.plan(shop.ws, replace(request, mode=Mode.DRY_RUN, reason="dry"))
    assert dry.manifest.supersedes == ()
    shop.land("more.jsonl", [sale(OUTPUT.start, sale_id="late")])
    with shop.ws.ledger.read() as reader:
        before, after = reversed(reader.runs.records(table=SALES))
    assert after.manifest.supersedes == (before.run_id,)


@pytest.mark.long
def test_versions_are_recorded_when_a_run_is_planned_and_staged_and_compared_when_it_is_reproduced(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.published()
    known = {"pyspark": pyspark.__version__, "python": platform.python_version()}
    report = run_report(shop.ws, run_id)
    assert report.versions.planned and report.versions.staged
    assert known.items() <= report.versions.planned.items()
    assert report.versions.staged == {**report.versions.planned, "spark": shop.ws.spark().version}
    assert report.manifest["code_modules"] == ["backfill_assets_tests.domains.example"]
    monkeypatch.setattr(platform, "python_version", lambda: "3.99")
    document = operations.reproduce(shop.ws, run_id, by="ana", sample=1)
    assert document.identical
    assert document.versions.recorded == report.versions.staged
    assert document.versions.present == {**report.versions.staged, "python": "3.99"}
