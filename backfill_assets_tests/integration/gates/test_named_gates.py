"""Gates that are named: each finds the one defect of its kind, names it with key and values, and finds nothing else."""

from __future__ import annotations

import pytest

from backfill_assets.domain import Gate, complete
from backfill_assets_tests.domains.judged import DEFECTS, SECOND, failing_of
from backfill_assets_tests.integration.gates.conftest import Opens

GATES: tuple[Gate, ...] = (complete(of="orders", key="order_id", where="state = 'ACTIVE'"),)
FOUND = {
    "lost": ("complete_orders", "2026-01-03", SECOND, "a row", "no row"),
}
"""By defect, what the gate of its kind finds."""


@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_a_defect_is_found_by_the_gate_of_its_kind_and_by_no_other(opens: Opens, defect: str | None) -> None:
    kit = opens(*GATES)
    assert failing_of(kit, version=defect) == ([FOUND[defect]] if defect in FOUND else [])
