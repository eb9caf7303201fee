"""One plan, two readers: what `plan` prints is what staging and gating go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.compute import ContinuedSnapshot, derived_rows
from backfill_assets.candidates.inputs import PinnedFiles
from backfill_assets.core.errors import ContractBroken, IllegalTransition
from backfill_assets.domain import DerivedTable, Domain, Policy, expression
from backfill_assets.ledger.findings import Finding
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.planning.stages import Agree, Compute, Prove, Reads, computing
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.example import recent_sales, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop


def redeclared(shop: Shop, **changed: object) -> Shop:
    """The same shop, whose author declares the table in another way."""
    table = replace(recent_sales, **changed)  # type: ignore[arg-type]
    domain = Domain(name="example", package="backfill_assets_tests.domains.example", sources=(sales,), derived=(table,))
    return replace(shop, ws=replace(shop.ws, domain=domain))


def test_a_chunk_is_reported_when_its_rows_are_described(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster is imported from the first report on, which would delay what comes to Spark after it."""
    happened: list[str] = []

    def watched(*given: Any) -> DataFrame:
        happened.append("described")
        return derived_rows(*given)

    monkeypatch.setattr("backfill_assets.candidates.stage.derived_rows", watched)
    operations.stage(shop.ws, shop.planned(), actor="ana", listener=lambda told: happened.append(told.line))
    assert happened == ["described", "chunk 1 of 1: 2026-01-03..2026-01-09, 7 days", "chunk 1 of 1 is staged"]


@pytest.mark.long
def test_staging_computes_the_chunks_of_the_printed_list_from_its_reads(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = AskedLimits(chunk_partitions=3)
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="why not", by="ana", limits=limits)
    run_id = operations.plan(shop.ws, request).manifest.run_id
    called: list[tuple[tuple[date, ...], Sequence[Reads]]] = []

    def watched(
        ws: Workspace,
        manifest: Manifest,
        table: DerivedTable,
        partitions: Sequence[date],
        reads: Sequence[Reads],
        files: PinnedFiles,
        state: ContinuedSnapshot | None,
    ) -> DataFrame:
        called.append((tuple(partitions), reads))
        return derived_rows(ws, manifest, table, partitions, reads, files, state)

    monkeypatch.setattr("backfill_assets.candidates.stage.derived_rows", watched)
    operations.stage(shop.ws, run_id, actor="ana")
    printed = [stage for stage in operations.stages(shop.ws, run_id) if isinstance(stage, Compute)]
    assert len(printed) == 3
    assert called == [(stage.chunk.computed, stage.reads) for stage in printed]


def test_the_list_itself_decides_what_is_computed_next(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the list changes the run: there is no second description of it."""
    run_id = shop.planned(OUTPUT)

    def with_half_a_chunk(manifest: Manifest, graph: Graph) -> tuple[Compute, ...]:
        (only,) = computing(manifest, graph)
        return (replace(only, chunk=replace(only.chunk, partitions=only.chunk.partitions[:3])),)

    monkeypatch.setattr("backfill_assets.planning.stages.computing", with_half_a_chunk)
    with pytest.raises(IllegalTransition, match="is not wholly staged: chunk 1 of 1 is not finished"):
        operations.stage(shop.ws, run_id, actor="ana")
    with shop.ws.ledger.read() as reader:
        assert list(reader.candidates.of_run(run_id)) == list(OUTPUT)[:3]


@pytest.mark.parametrize("gated_before", [False, True])
def test_a_run_is_not_measured_by_other_gates_than_were_agreed(shop: Shop, gated_before: bool) -> None:
    run_id = shop.planned(OUTPUT)
    operations.stage(shop.ws, run_id, actor="ana")
    if gated_before:
        operations.gate(shop.ws, run_id, actor="ana")
    with shop.ws.ledger.read() as reader:
        before = reader.candidates.gate_results(run_id)
    changed = redeclared(
        shop, gates=(expression("plausible", "amount <= 9000"), expression("cheap", "amount <= 1", blocking=False))
    )
    with pytest.raises(ContractBroken) as refusal:
        operations.gate(changed.ws, run_id, actor="ana")
    assert "no longer declared: usual; new: cheap; changed: plausible" in refusal.value.message
    assert advised(refusal.value) == (
        "run it with what it was planned with, or plan it again: "
        f"backfill plan table recent_sales --reason WHY --from {OUTPUT.start} --to {OUTPUT.last} --by NAME"
    )
    left = RunState.PASSED if gated_before else RunState.FAILED
    assert operations.state_of(shop.ws, run_id) is left
    with shop.ws.ledger.read() as reader:
        assert reader.candidates.gate_results(run_id) == before
    shop.staged(run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


@pytest.mark.long
def test_a_table_that_publishes_by_policy_is_not_said_to_wait_for_a_person(shop: Shop) -> None:
    alone = redeclared(shop, policy=Policy(backfill="auto"))
    run_id = alone.staged(alone.planned(OUTPUT))
    (agree,) = [stage for stage in operations.stages(alone.ws, run_id) if isinstance(stage, Agree)]
    assert agree.demand.policy == "backfill"
    alone.publish(run_id)
    assert operations.run_named(alone.ws, run_id).approved_by == f"policy:{agree.demand.policy}"
    (agree,) = [stage for stage in operations.stages(shop.ws, run_id) if isinstance(stage, Agree)]
    assert agree.demand.policy is None


@pytest.mark.long
def test_the_proof_reads_as_many_more_days_as_the_plan_said(shop: Shop) -> None:
    run_id = shop.staged(shop.planned(DayRange(OUTPUT.start, OUTPUT.start + timedelta(days=2))))
    (prove,) = [stage for stage in operations.stages(shop.ws, run_id) if isinstance(stage, Prove)]
    with shop.ws.ledger.read() as reader:
        found = {r.partition: r.observed for r in reader.candidates.gate_results(run_id) if r.gate == "warm_up"}
    assert prove.ends
    for end in prove.ends:
        more = {each.argument: {"days_back": each.back, "days_ahead": each.ahead} for each in end.more}
        assert more["sales"]["days_ahead"] > 0
        for partition in end.compared:
            assert found[partition]["more"] == more
            assert found[partition]["windows"] == {"sales": {"days_back": 2, "days_ahead": 1}}


@pytest.mark.long
def test_the_proof_computes_the_days_that_the_plan_said(shop: Shop) -> None:
    run_id = shop.staged(shop.planned(OUTPUT))
    (prove,) = [stage for stage in operations.stages(shop.ws, run_id) if isinstance(stage, Prove)]
    with shop.ws.ledger.read() as reader:
        found = {r.partition for r in reader.candidates.gate_results(run_id) if r.finding is Finding.SAME}
    assert found == set(prove.compared)
