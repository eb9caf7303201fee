"""What a gate that looks at every row finds: a mistake only where it failed."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.core.identity import EMPTY_FILE_SET
from backfill_assets.domain import Gate, RowExpression, UniqueKey, accepted, not_null
from backfill_assets.gates.judge import Findings, judge
from backfill_assets.gates.measured import Measured
from backfill_assets.ledger.findings import Finding
from backfill_assets.ledger.records import CandidatePartition

DAY = date(2026, 1, 5)


@pytest.mark.parametrize(
    ("gate", "holds", "fails"),
    [
        (UniqueKey(columns=("id",)), Finding.UNIQUE_KEYS, Finding.SHARED_KEYS),
        (not_null("state"), Finding.NO_NULLS, Finding.NULLS),
        (accepted("state", ("open",)), Finding.ACCEPTED_VALUES, Finding.NOT_ACCEPTED),
        (RowExpression(name="positive", condition="n > 0"), Finding.SATISFIED, Finding.UNSATISFIED),
    ],
)
def test_a_gate_that_passed_finds_no_mistake(gate: Gate, holds: Finding, fails: Finding) -> None:
    found = []
    for violating in (0, 2):
        measured = Measured(partition=DAY, rows=7, surplus=violating, violations={gate.name: violating})
        candidate = CandidatePartition(run_id="bf-1", partition=DAY, files=EMPTY_FILE_SET, rows=7)
        [result] = judge([gate], [candidate], Findings(measured={DAY: measured}))
        found.append((result.passed, result.finding))
    assert found == [(True, holds), (False, fails)]
