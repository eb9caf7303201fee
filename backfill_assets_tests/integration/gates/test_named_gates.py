"""Gates that are named: each finds the one defect of its kind, names it with key and values, and finds nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.domain import Failing, Gate, GateContext, complete, joins_once, reads, reconciles, references
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.upkeep.check import check
from backfill_assets_tests.domains.judged import DAYS, DEFECTS, SECOND, customers, failing_of
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


OF_OTHER_TYPES: Mapping[str, tuple[Gate, str]] = {
    "a day": (
        complete(of="orders", key="order_id", on="amount + 1"),
        "'amount + 1' of orders is decimal(13,2), and has to be a day or a time, or a text that is one",
    ),
    "an amount": (
        reconciles("upper(country)", of="orders", with_="amount", name="totals"),
        "'upper(country)' is string, and has to be a number, which can be added up",
    ),
    "a condition": (
        joins_once("orders", on="order_id", where="coalesce(amount, 0)"),
        "'coalesce(amount, 0)' of orders is decimal(12,2), and has to be a condition, which is true or false",
    ),
    "what there is not": (
        reconciles("sum_up(amount)", of="orders", with_="amount", name="totals"),
        "Cannot resolve routine `sum_up`",
    ),
}


@pytest.mark.parametrize("mistake", OF_OTHER_TYPES)
def test_an_expression_of_another_type_is_named_with_its_line_before_a_row_is_computed(
    opens: Opens, mistake: str
) -> None:
    gate, said = OF_OTHER_TYPES[mistake]
    kit = opens(gate)
    (found,) = (each.problems for each in check(kit.ws).tables if each.problems)
    assert f"gate {gate.name} of silver.order_totals is wrong, in {__file__}, line " in found[0]
    assert f": {said}" in found[0]
    run_id = kit.planned("order_totals", DAYS)
    with pytest.raises(CodeBroken) as refused:
        kit.stage(run_id)
    assert refused.value.message == found[0]
    with kit.ws.ledger.read() as tx:
        assert not tx.candidates.of_run(run_id)


def active_orders(orders: DataFrame, ctx: GateContext) -> DataFrame:
    assert ctx.partition == "day"
    return orders.where("state = 'ACTIVE'").withColumnRenamed("ordered_on", "day")


@pytest.mark.long
def test_what_has_to_be_there_may_be_computed_by_a_function(opens: Opens) -> None:
    kit = opens(complete(of=active_orders, key="order_id"))
    assert failing_of(kit) == []
    assert failing_of(kit, version="lost") == [("complete_active_orders", "2026-01-03", SECOND, "a row", "no row")]


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        (complete(of="orders", key=("day", "order_id")), ("b", "a row", "no row")),
        (reconciles("1", of="orders", by=("day", "order_id")), ("b", "1", "0")),
    ],
    ids=["complete", "reconciles"],
)
def test_a_gate_may_name_the_partition_that_an_input_has_as_well(
    spark: SparkSession, gate: Failing, found: tuple[str, ...]
) -> None:
    assert gate.rows is not None
    day = date(2026, 1, 3)
    ctx = GateContext(
        output=DayRange.inclusive(day, day),
        output_partitions=(day,),
        grain=Grain.DAILY,
        partition="day",
        partition_columns={"candidate": "day", "orders": "day"},
        key=("day", "order_id"),
        references={},
        spark=spark,
    )
    orders = spark.sql("SELECT DATE'2026-01-03' AS day, explode(array('a', 'b')) AS order_id")
    (row,) = gate.rows(ctx=ctx, candidate=orders.where("order_id = 'a'"), orders=orders).collect()
    assert tuple(row) == (day, *found)
