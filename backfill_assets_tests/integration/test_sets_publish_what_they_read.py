"""Gold of a set is computed from staged silver: the two are published together only while that is still so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill_assets import operations
from backfill_assets.commands import run_set_recorded
from backfill_assets.errors import InputsMovedOn
from backfill_assets.evidence.audit import audit
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets_tests import example_domain
from backfill_assets_tests.ledgers import copy_home
from backfill_assets_tests.month import CARNIVAL, TOTALS, open_month, planned_set, ready_set, total
from backfill_assets_tests.shop import RECENT, Shop, sale


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
        first = next(iter(reader.candidates(run_id).values()))
    (shop.ws.lake.path(RECENT) / first.files.files[0].path).unlink()
    compute = example_domain._recent_sales

    def other(*given: Any, factor: int, **named: Any) -> DataFrame:
        return compute(*given, factor=factor * 3, **named)

    with monkeypatch.context() as patch:
        patch.setattr(example_domain, "_recent_sales", other)
        shop.staged(run_id)
    assert digests(shop, run_id) != lost


def digests(shop: Shop, run_id: str) -> Mapping[date, str]:
    with shop.ws.ledger.read() as reader:
        return {day: candidate.files.digest for day, candidate in reader.candidates(run_id).items()}


def test_gold_that_was_computed_from_other_silver_is_not_published_and_running_the_set_repairs_it(
    late: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    silver, gold = (member.run_id for member in planned.manifest.members)
    before = (late.live_paths(), late.live_paths(TOTALS))
    stage_again_with_other_rows(late, silver, monkeypatch)

    with pytest.raises(InputsMovedOn, match=f"run {gold} was computed from candidates") as refusal:
        operations.publish_set(late.ws, set_id, by="ben")
    assert refusal.value.next_step == f"stage it again: backfill run {set_id}"
    assert (late.live_paths(), late.live_paths(TOTALS)) == before, "refused before anything has moved"
    with late.ws.ledger.read() as reader:
        assert reader.restatement_set(set_id).state is SetState.PLANNED
    with pytest.raises(InputsMovedOn, match="staged again since"):
        operations.gate(late.ws, gold, actor="ana")

    staged = digests(late, silver)
    run_set_recorded(late.ws, set_id, by="ana", quiet=True)
    assert digests(late, silver) == staged, "what had not to be staged again was not"
    assert operations.run_named(late.ws, gold).state is RunState.PASSED
    operations.publish_set(late.ws, set_id, by="ben")
    assert total(late) == sum(late.amounts().values())
    assert late.amounts()[CARNIVAL] == 3 * 45
    assert audit(late.ws).problems == ()


def test_running_a_set_that_is_ready_stages_nothing_again(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    staged = [digests(late, member.run_id) for member in planned.manifest.members]
    run_set_recorded(late.ws, set_id, by="ana", quiet=True)
    assert [digests(late, member.run_id) for member in planned.manifest.members] == staged
