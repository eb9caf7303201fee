"""How staged rows differ from the accepted ones comes back from the ledger as the gate recorded it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.core.identity import EMPTY_FILE_SET, canonical_json
from backfill_assets.domain import ComparedWithAccepted, Gate, UniqueKey, WarmUpProof
from backfill_assets.gates.judge import Findings, judge
from backfill_assets.gates.measured import Measured, RowDiff, StateMove, changed_columns_in, moves_in, state_moves_in
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.report.measured import changed_columns

DAY = date(2026, 1, 5)
FOUND = Measured(
    partition=DAY, rows=7, accepted_rows=6, added=2, removed=1, changed=3, unchanged=2, changed_columns={"amount": 3}
)
RECORDED = '{"accepted_rows":6,"added":2,"changed":3,"changed_columns":{"amount":3},"removed":1,"rows":7,"unchanged":2}'


def judged(gate: Gate) -> GateResult:
    candidate = CandidatePartition(run_id="bf-1", partition=DAY, files=EMPTY_FILE_SET, rows=7)
    [result] = judge([gate], [candidate], Findings(measured={DAY: FOUND}))
    return result


def recorded(gate: str, observed: Mapping[str, object]) -> GateResult:
    return GateResult(
        run_id="bf-1",
        partition=DAY,
        gate=gate,
        blocking=True,
        passed=False,
        digest="",
        finding=Finding.COMPARED,
        observed=observed,
    )


def test_what_the_comparison_observes_is_recorded_with_the_names_that_it_always_had() -> None:
    result = judged(ComparedWithAccepted())
    assert canonical_json(result.observed) == RECORDED
    read = recorded(result.gate, json.loads(RECORDED))
    assert moves_in(read) == RowDiff(rows=7, accepted_rows=6, added=2, removed=1, changed=3, unchanged=2)
    assert changed_columns_in(read) == {"amount": 3}


def test_moves_between_states_come_back_as_they_were_found() -> None:
    states = (
        StateMove(column="state", before="open", after="closed", rows=2),
        StateMove(column="state", before=None, after="open", rows=1),
    )
    (result,) = judge(
        [ComparedWithAccepted()],
        [CandidatePartition(run_id="bf-1", partition=DAY, files=EMPTY_FILE_SET, rows=7)],
        Findings(measured={DAY: replace(FOUND, state_moves=states)}),
    )
    read = recorded(result.gate, json.loads(canonical_json(result.observed)))
    assert state_moves_in(read) == states
    assert state_moves_in(replace(read, gate="unique_key")) == ()


def test_only_the_comparison_counts_moves() -> None:
    assert moves_in(judged(UniqueKey())) is None
    assert changed_columns_in(judged(UniqueKey())) == {}


def test_the_changed_columns_of_a_report_are_without_what_the_proof_of_the_window_found() -> None:
    proof = recorded(WarmUpProof().name, {"added": 0, "changed": 5, "changed_columns": {"amount": 5, "state": 1}})
    assert changed_columns([proof, judged(ComparedWithAccepted())]) == {"amount": 3}
