"""Gates that are named: each finds the one defect of its kind, names it with key and values, and finds nothing else."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

from backfill_assets.domain import Gate, GateContext, complete, reads, references
from backfill_assets_tests.domains.judged import DEFECTS, SECOND, customers, failing_of
from backfill_assets_tests.integration.gates.conftest import Opens

A_CUSTOMER = "a row of bronze.customers"
GATES: tuple[Gate, ...] = (
    complete(of="orders", key="order_id", where="state = 'ACTIVE'"),
    references("customer_id", to=reads(customers, days_back=3), nulls=False, optional=True),
)
FOUND = {
    "lost": ("complete_orders", "2026-01-03", SECOND, "a row", "no row"),
    "orphan": ("references_customer_id", "2026-01-03", SECOND, A_CUSTOMER, "nobody"),
    "nobody": ("references_customer_id", "2026-01-03", SECOND, A_CUSTOMER, "null"),
}
"""By defect, what the gate of its kind finds."""


@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_a_defect_is_found_by_the_gate_of_its_kind_and_by_no_other(opens: Opens, defect: str | None) -> None:
    kit = opens(*GATES)
    assert failing_of(kit, version=defect) == ([FOUND[defect]] if defect in FOUND else [])


def active_orders(orders: DataFrame, ctx: GateContext) -> DataFrame:
    assert ctx.partition == "day"
    return orders.where("state = 'ACTIVE'").withColumnRenamed("ordered_on", "day")


def test_what_has_to_be_there_may_be_computed_by_a_function(opens: Opens) -> None:
    kit = opens(complete(of=active_orders, key="order_id"))
    assert failing_of(kit) == []
    assert failing_of(kit, version="lost") == [("complete_active_orders", "2026-01-03", SECOND, "a row", "no row")]
