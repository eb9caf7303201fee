"""A gate whose rows depend on an order that nothing decides is refused, or declared with a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import Failing, complete, failing, reads
from backfill_assets.domain.errors import CodeBroken, PlannedOtherwise
from backfill_assets.ledger.states import RunState
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.report import run_report
from backfill_assets.requests.authority import demand_of
from backfill_assets.upkeep.check import check
from backfill_assets_tests.domains.judged import DAYS, customers, failing_of
from backfill_assets_tests.integration.gates.conftest import Opens

WHAT = "first as found"
REASON = "all orders of a day are of one country"


def one_of_a_day(candidate: DataFrame) -> DataFrame:
    return candidate.groupBy("day").agg(
        sf.first("country").alias("found"),
    ).where("found = 'FR'")  # fmt: skip


def of_the_newest(orders: DataFrame) -> DataFrame:
    newest = Window.partitionBy("ordered_on").orderBy("state")
    return orders.withColumn("n", sf.row_number().over(newest)).where("n = 1").withColumnRenamed("ordered_on", "day")


def some_of_others(candidate: DataFrame, known: DataFrame) -> DataFrame:
    return candidate.join(known.limit(2), "customer_id", "left_anti")


def by_batches(candidate: DataFrame) -> DataFrame:
    return candidate.mapInPandas(lambda batches: batches, candidate.schema)


FIRST_IN_SQL = "SELECT day, first(country) AS found FROM candidate GROUP BY day"
REFUSED = {
    "function": (failing("tied", rows=one_of_a_day), WHAT, "sf.first("),
    "query": (failing("tied", sql=FIRST_IN_SQL), WHAT, '"query": ('),
    "complete": (complete(of=of_the_newest, key="order_id", name="tied"), "row_number as n", "sf.row_number("),
    "another table": (
        failing("tied", rows=some_of_others, reads={"known": reads(customers, days_back=1)}),
        "limit 2",
        "known.limit(2)",
    ),
    "batches": (failing("tied", rows=by_batches), "mapInPandas with <lambda>", "candidate.mapInPandas("),
}


def line_of(mark: str) -> int:
    with Path(__file__).open(encoding="utf-8") as lines:
        return next(number for number, line in enumerate(lines, start=1) if mark in line)


@pytest.mark.parametrize(("gate", "what", "mark"), REFUSED.values(), ids=REFUSED.keys())
def test_a_gate_with_ties_is_refused_with_its_line_and_what_to_write(
    opens: Opens, gate: Failing, what: str, mark: str
) -> None:
    kit = opens(gate)
    run_id = kit.planned("order_totals", DAYS)
    with pytest.raises(CodeBroken) as refused:
        kit.stage(run_id)
    said = refused.value.message
    assert f"the gate tied of silver.order_totals describes rows by {what}: " in said
    assert f", in {__file__}, line {line_of(mark)};" in said
    assert f"declare undetermined={{{what!r}: " in said
    with kit.ws.ledger.read() as tx:
        assert not tx.candidates.of_run(run_id)
        assert tx.runs.get(run_id).state is RunState.FAILED


def test_check_names_a_gate_with_ties(opens: Opens) -> None:
    kit = opens(failing("tied", sql=FIRST_IN_SQL))
    problems = {each.table: each.problems for each in check(kit.ws).tables}
    assert f"the gate tied of silver.order_totals describes rows by {WHAT}: " in problems["silver.order_totals"][0]
    assert problems["bronze.orders"] == ()


@pytest.mark.long
def test_a_declared_tie_of_a_gate_is_shown_to_whoever_approves_and_agreed_to_by_a_person(opens: Opens) -> None:
    kit = opens(failing("tied", rows=one_of_a_day))
    kit = opens(failing("tied", rows=one_of_a_day, undetermined={WHAT: REASON}))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    kit.gate(run_id)
    said = f"Nothing decides {WHAT} in the gate tied, and its author declares why that does not matter: {REASON}"
    assert said in markdown_page(page_of(run_report(kit.ws, run_id)))
    kit.approve(run_id)
    kit.publish(run_id)
    again = opens(failing("tied", rows=one_of_a_day, undetermined={WHAT: "nobody reads it"}))
    other = again.planned("order_totals", DAYS)
    with again.ws.ledger.read() as tx:
        found = demand_of(again.ws, tx, tx.runs.get(other)).loosened
    assert sorted(found) == ["gate tied", f"undetermined {WHAT} in the gate tied"]


def test_a_run_is_not_measured_with_another_reason_than_it_was_planned_with(opens: Opens) -> None:
    kit = opens(failing("tied", rows=one_of_a_day, undetermined={WHAT: REASON}))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    other = opens(failing("tied", rows=one_of_a_day, undetermined={WHAT: "nobody reads it"}))
    with pytest.raises(PlannedOtherwise):
        other.gate(run_id)


def test_a_declared_tie_that_a_gate_does_not_have_is_refused(opens: Opens) -> None:
    kit = opens(failing("tied", sql="SELECT day FROM candidate WHERE false", undetermined={WHAT: REASON}))
    run_id = kit.planned("order_totals", DAYS)
    with pytest.raises(CodeBroken, match=r"the gate tied .* declares undetermined=.*: take it out"):
        kit.stage(run_id)


def newest_of_a_customer(candidate: DataFrame) -> DataFrame:
    newest = Window.partitionBy("customer_id").orderBy("amount", "day", "order_id")
    return candidate.withColumn("n", sf.row_number().over(newest)).where("n = 0")


def moved_by_ten(candidate: DataFrame, accepted: DataFrame) -> DataFrame:
    """Names the columns of each side by its frame, as authors do."""
    both = candidate.join(accepted, candidate["order_id"] == accepted["order_id"])
    return both.where(sf.abs(candidate["amount"] - accepted["amount"]) > 10).select(
        candidate["day"], candidate["order_id"], accepted["amount"].alias("expected")
    )


ALLOWED: dict[str, Callable[[], Failing]] = {
    "a total order": lambda: failing("total", rows=newest_of_a_customer),
    "a total order in a query": lambda: failing(
        "total",
        sql="SELECT * FROM (SELECT *, lag(amount) OVER (PARTITION BY customer_id ORDER BY day, order_id) AS before "
        "FROM candidate) WHERE before < 0",
    ),
    "candidate beside accepted": lambda: failing("moved", rows=moved_by_ten),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_gate_whose_order_is_total_is_measured(opens: Opens, name: str) -> None:
    assert failing_of(opens(ALLOWED[name]())) == []


@pytest.mark.parametrize("undetermined", [{WHAT: " "}, {"": REASON}], ids=["no reason", "no name"])
def test_a_tie_is_declared_with_a_name_and_a_reason(undetermined: dict[str, str]) -> None:
    with pytest.raises(InvalidDeclaration, match="gate tied declares something undetermined without"):
        failing("tied", rows=one_of_a_day, undetermined=undetermined)
    with pytest.raises(InvalidDeclaration, match="which only rows of a function can be"):
        complete(of="orders", key="order_id", undetermined={WHAT: REASON})
