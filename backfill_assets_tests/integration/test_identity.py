"""What a run records of itself beyond its rows: the runs it replaces, the modules and the versions that compute it."""

from __future__ import annotations

import platform
from dataclasses import replace
from datetime import timedelta

import pyspark
import pytest

from backfill_assets.evidence.report import run_report
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import FORMAT
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import PlanRequest
from backfill_assets_tests import operations
from backfill_assets_tests.shop import OUTPUT, RECENT, SALES, Shop, sale


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
    assert run_report(shop.ws, third.manifest.run_id).supersedes == (first.run_id, second)
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
    assert report.manifest["code_modules"] == ["backfill_assets_tests.example_domain"]
    monkeypatch.setattr(platform, "python_version", lambda: "3.99")
    document = operations.reproduce(shop.ws, run_id, by="ana", sample=1)
    assert document.identical
    assert document.versions.recorded == report.versions.staged
    assert document.versions.present == {**report.versions.staged, "python": "3.99"}


@pytest.mark.long
def test_a_manifest_of_an_earlier_format_is_run_with_the_package_that_it_names(shop: Shop) -> None:
    planned = operations.run_named(shop.ws, shop.planned()).manifest
    package = shop.ws.code.package_digest
    earlier = replace(planned, run_id="of-format-2", format=2, code_digest=package, policy=None)
    assert planned.format == FORMAT
    assert planned.code_digest != package
    with shop.ws.ledger.write() as writer:
        writer.runs.add(earlier, actor="ana")
    assert operations.stage(shop.ws, earlier.run_id, actor="ana")
    operations.gate(shop.ws, earlier.run_id, actor="ana")
    operations.approve(shop.ws, earlier.run_id, by="ben")
    shop.publish(earlier.run_id)
    assert [found.partitions for found in operations.stale_tables(shop.ws, table=RECENT)] == [()]
