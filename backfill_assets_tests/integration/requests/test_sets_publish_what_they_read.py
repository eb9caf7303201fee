"""Gold of a set is computed from staged silver: the two are published together only while that is still so."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import InputsMovedOn, Refused
from backfill_assets.core.progress import Progress
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.report.report import run_report
from backfill_assets.report.runs import set_document, set_summary_page
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains import example as example_domain
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.edited import keep_code
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_examples import disarm, tamper
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.month import CARNIVAL, TOTALS, open_month, planned_set, ready_set, total
from backfill_assets_tests.support.shop import RECENT, Shop, sale


@pytest.fixture
def late(tmp_path: Path, month_home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    copy_home(month_home, tmp_path / "home")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    opened = open_month(tmp_path / "home", spark=spark, hours=13)
    opened.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    yield opened
    opened.ws.close()


def stage_again_with_other_rows(shop: Shop, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A staged file was lost, and what is staged in its place is not what was there."""
    lost = digests(shop, run_id)
    with shop.ws.ledger.read() as reader:
        first = next(iter(reader.candidates.of_run(run_id).values()))
    (folder_of(shop.ws.lake, RECENT) / first.files.files[0].path).unlink()
    compute = example_domain._recent_sales

    def other(*given: Any, factor: int, **named: Any) -> DataFrame:
        return compute(*given, factor=factor * 3, **named)

    keep_code(shop.ws)
    with monkeypatch.context() as patch:
        patch.setattr(example_domain, "_recent_sales", other)
        shop.staged(run_id)
    assert digests(shop, run_id) != lost


def digests(shop: Shop, run_id: str) -> Mapping[date, str]:
    with shop.ws.ledger.read() as reader:
        return {day: candidate.files.digest for day, candidate in reader.candidates.of_run(run_id).items()}


def outdated(shop: Shop, set_id: str) -> list[str | None]:
    return [str(member.outdated) if member.outdated else None for member in set_document(shop.ws, set_id).runs]


def next_steps(shop: Shop, set_id: str) -> set[str | None]:
    """What the set and each of its runs say."""
    document = set_document(shop.ws, set_id)
    return {worded(document.next_step), *(worded(member.run.next_step) for member in document.runs)}


def test_gold_that_was_computed_from_other_silver_is_not_published_and_running_the_set_repairs_it(
    late: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    silver, gold = (member.run_id for member in planned.manifest.members)
    before = (late.live_paths(), late.live_paths(TOTALS))
    assert (outdated(late, set_id), next_steps(late, set_id)) == (
        [None, None],
        {f"backfill publish {set_id} --by NAME"},
    )
    stage_again_with_other_rows(late, silver, monkeypatch)
    assert outdated(late, set_id) == [None, "2026-02, 1 month"]
    assert next_steps(late, set_id) == {f"backfill run {set_id}"}
    shown = io.StringIO()
    show(Console(file=shown, width=160), set_summary_page(set_document(late.ws, set_id)))
    assert f"{TOTALS} 2026-02, 1 month: its inputs were staged again" in shown.getvalue()

    with pytest.raises(InputsMovedOn, match=f"run {gold} was computed from candidates") as refusal:
        operations.publish_set(late.ws, set_id, by="ben")
    assert advised(refusal.value) == f"stage it again: backfill run {set_id}"
    assert (late.live_paths(), late.live_paths(TOTALS)) == before, "refused before anything has moved"
    with late.ws.ledger.read() as reader:
        assert reader.sets.get(set_id).state is SetState.PENDING
    with pytest.raises(InputsMovedOn, match="staged again since"):
        operations.gate(late.ws, gold, actor="ana")

    staged = digests(late, silver)
    heard: list[Progress] = []
    Restatement(late.ws, set_id).stage(Acting(by="ana", recorder=Unrecorded(), listener=heard.append))
    assert heard[0].line == "run 2 of 2 of the set, 2026-02, 1 month", "what comes next is said before it begins"
    assert outdated(late, set_id) == [None, None]
    assert digests(late, silver) == staged, "what had not to be staged again was not"
    assert operations.state_of(late.ws, gold) is RunState.PASSED
    operations.publish_set(late.ws, set_id, by="ben")
    assert total(late) == sum(late.amounts().values())
    assert late.amounts()[CARNIVAL] == 3 * 45
    assert audit(late.ws).problems == ()


@pytest.mark.long
def test_the_rows_that_are_kept_of_a_set_are_erased_by_its_name(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    reports = [member.run.record.run_id for member in set_document(late.ws, set_id).runs]
    assert all(run_report(late.ws, run_id).sample for run_id in reports)
    assert operations.erase_samples(late.ws, set_id, by="dora", reason="asked for") == len(reports)
    for run_id in reports:
        report = run_report(late.ws, run_id)
        assert (report.sample, report.samples_erased and report.samples_erased.by) == ((), "dora")
    assert audit(late.ws).problems == ()
    with pytest.raises(Refused, match=f"no values of rows of run {' or '.join(reports)}"):
        operations.erase_samples(late.ws, set_id, by="dora", reason="asked for")


@pytest.mark.long
def test_a_run_of_a_set_is_shown_where_another_run_of_the_set_cannot_be_read(late: Shop) -> None:
    planned = planned_set(late)
    silver, gold = (member.run_id for member in planned.manifest.members)
    late.staged(silver)
    disarm(late.ws.settings.ledger_url, "manifests")
    tamper(late.ws.settings.ledger_url, f"UPDATE manifests SET body = '{{}}' WHERE run_id = '{gold}'")
    (shown,) = [run for run in status(late.ws).runs if run.record.run_id == silver]
    assert worded(shown.next_step) == f"backfill status {planned.manifest.set_id}"
    assert any(gold in str(problem) for problem in status(late.ws).problems)


@pytest.mark.long
def test_running_a_set_that_is_ready_stages_nothing_again(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    staged = [digests(late, member.run_id) for member in planned.manifest.members]
    Restatement(late.ws, set_id).stage(Acting(by="ana", recorder=Unrecorded()))
    assert [digests(late, member.run_id) for member in planned.manifest.members] == staged
