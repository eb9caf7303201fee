"""Declarations of gates on rows that fail: what they may take, and what is refused when they are declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import (
    Failing,
    Gate,
    GateContext,
    Reference,
    accepted,
    complete,
    control_totals,
    expression,
    failing,
    joins_once,
    monotonic,
    not_null,
    reconciles,
    references,
    rows,
    totals,
    usual,
    weeks,
)
from backfill_assets.domain.domain import check_expressions
from backfill_assets.domain.failing_rows import query_of, tables_in
from backfill_assets_tests.domains.judged import customers, judged_by


def of_rows(candidate: DataFrame, accepted: DataFrame, orders: DataFrame, ctx: GateContext) -> DataFrame:
    """No order is lost.

    Grain: one row per order.
    """
    return candidate


def of_others(candidate: DataFrame, cases: DataFrame) -> DataFrame:
    return candidate


def of_many(*frames: DataFrame) -> DataFrame:
    return frames[0]


def declared(gate: Failing) -> None:
    check_expressions(judged_by(gate))


def test_a_gate_says_what_it_demands_by_the_first_sentence_of_its_function() -> None:
    gate = failing("complete", rows=of_rows)
    assert (gate.name, gate.demands, gate.blocking) == ("complete", "No order is lost", True)
    assert failing("complete", rows=of_rows, demands="all of them").demands == "all of them"
    declared(gate)


def test_a_decorated_function_is_a_gate_by_its_own_name() -> None:
    gate = failing(blocking=False)(of_rows)
    assert (gate.name, gate.rows, gate.blocking) == ("of_rows", of_rows, False)
    assert failing("other")(of_rows).name == "other"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: failing("a", rows=of_others), "its function takes cases, and can be given candidate, accepted"),
        (lambda: failing("a", sql="SELECT * FROM cases"), "its query reads cases, and can be given candidate"),
        (lambda: failing("a", sql="SELECT * FROM bronze.orders"), "its query reads bronze.orders"),
        (lambda: failing("a", sql="SELECT * FROM ctx"), "its query reads ctx"),
        (lambda: failing("a", sql="SELEC * FROM"), "the query of gate a is not SQL"),
        (lambda: failing("a", sql="DELETE FROM candidate"), "gate a has to be one SELECT"),
        (lambda: failing("a", sql="SELECT 1; SELECT 2"), "gate a has to be one SELECT"),
        (lambda: failing("a", sql=" "), "gate a has an empty query"),
        (lambda: failing("a", sql="SELECT 1", reads={"b.c": customers}), "reads a table as 'b.c', which cannot name"),
        (lambda: failing("a", rows=of_many), r"gate a takes \*frames"),
        (lambda: failing("a", rows=of_rows, sql="SELECT 1"), "gate a has a query and a function"),  # type: ignore[call-overload]
        (lambda: failing("a", rows=of_rows, references=("fees",)), "gate a uses reference 'fees'"),
        (lambda: failing("a", rows=of_others, references=("fees",)), "takes cases"),
        (lambda: failing("A gate", rows=of_rows), "a gate is named with lower-case letters"),
        (lambda: failing("a", rows="of_rows"), r"failing\(...\): rows must be a function"),  # type: ignore[call-overload]
    ],
)  # fmt: skip
def test_what_cannot_be_given_is_refused_when_it_is_declared(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said):
        declared(make())


def only_rows(candidate: DataFrame) -> DataFrame:
    return candidate


def test_references_are_found_in_a_context_that_the_function_takes() -> None:
    with pytest.raises(InvalidDeclaration, match="names references, which its function finds in an argument 'ctx'"):
        declared(failing("a", rows=only_rows, references=("fees",)))


def test_a_query_reads_tables_and_not_what_it_makes_itself() -> None:
    made = "WITH some AS (SELECT * FROM orders) SELECT * FROM some JOIN candidate USING (order_id)"
    query = f"{made}, explode(array(1)) AS t(n)"
    assert tables_in(query, "a") == ("candidate", "orders")


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders", ("orders",)),
        ("WITH a AS (SELECT * FROM orders), orders AS (SELECT * FROM a) SELECT * FROM orders", ("orders",)),
        ("SELECT * FROM (WITH orders AS (SELECT 1) SELECT * FROM orders) JOIN accepted", ("accepted",)),
        ("SELECT * FROM (WITH orders AS (SELECT 1) SELECT * FROM orders) JOIN orders", ("orders",)),
        ("WITH orders AS (SELECT 1) SELECT * FROM (SELECT * FROM orders) JOIN candidate", ("candidate",)),
        ("WITH b AS (SELECT * FROM a), a AS (SELECT 1) SELECT * FROM b", ("a",)),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r, candidate", ("candidate",)),
        ("WITH orders AS (SELECT 1) SELECT * FROM bronze.orders", ("bronze.orders",)),
    ],
)  # fmt: skip
def test_a_query_may_name_what_it_makes_as_a_table_that_it_reads(query: str, read: tuple[str, ...]) -> None:
    assert tables_in(query, "a") == read


def test_the_text_of_a_query_stays_as_it_is_written() -> None:
    text = "SELECT * FROM candidate WHERE id RLIKE '^[0-9]{3}$' -- all;"
    given = query_of(f"{text}\n;", ("candidate",))
    assert text in given.format(candidate="x")


def test_two_gates_are_equal_only_if_they_ask_the_same() -> None:
    assert failing("a", rows=of_rows) == failing("a", rows=of_rows)
    assert replace(failing("a", rows=of_rows), sql="SELECT 1") != failing("a", rows=of_rows)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: complete(of="cases", key="order_id"),
            "which is not an input of the table, and can be given cand",
        ),
        (
            lambda: joins_once("orders", on={"number": "state"}),
            "compares 'number', which is bigint, with 'state' of orders",
        ),
        (
            lambda: references("number", to=customers, key="customer_id"),
            "with 'customer_id' of bronze.customers, which is",
        ),
        (lambda: references("number", to=customers), "'number' is not a column of bronze.customers"),
        (lambda: complete(of="orders", key="state"), "gate complete_orders: 'state' is not a column"),
        (lambda: complete(of="orders", key="number"), "gate complete_orders: 'number' is not a column of orders"),
        (lambda: complete(of="orders", key="order_id", where="stat = 'ACTIVE'"), "did you mean 'state'"),
        (lambda: complete(of="orders", key="order_id", where="amount"), "has to be a condition"),
        (lambda: complete(of="orders", key="order_id", where="count(*) > 1"), "is over one row"),
        (lambda: complete(of="orders", key="order_id", on="to_date(at)"), "'at' is not a column of orders"),
        (
            lambda: complete(of="orders", key="order_id", where="state = "),
            "gate complete_orders: an expression over orders is not SQL: 'state = '",
        ),
        (lambda: complete(of="orders", key=()), r"complete\(...\) names no column"),
        (lambda: complete(of="orders", key=("order_id", "order_id")), r"complete\(...\) names 'order_id' twice"),
        (lambda: complete(of="ctx", key="order_id"), r"complete\(...\) is of 'ctx', which is not an input"),
        (lambda: joins_once("candidate", on="order_id"), r"joins_once\(...\) is of 'candidate', which is not an input"),
        (lambda: reconciles("amount", of="orders", by=("country", "country")), r"names 'country' twice"),
        (lambda: reconciles("*", of="orders", name="all"), r"is not one expression of SQL: '\*'"),
        (lambda: totals("fees", sums=("amount", "amount")), r"totals\(...\) names 'amount' twice"),
        (lambda: totals("fees", sums=("rows",)), r"adds up 'rows', by which entries name the number of rows"),
        (lambda: usual(rows(), against=weeks(9_999)), "gate usual_rows looks back further than 100 years"),
    ],
)
def test_a_gate_over_columns_that_are_not_there_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said):
        declared(make())
    declared(complete(of="orders", key=("order_id", "customer_id"), on="to_date(ordered_at)"))


DECLARED_HERE: Mapping[str, tuple[Gate, str]] = {
    "a day": (
        complete(of="orders", key="order_id", on="amount"),
        "gate complete_orders: 'amount' of orders is decimal(12,2), and has to be a day or a time",
    ),
    "an amount": (
        reconciles("amount", of="orders", with_="`state`"),
        "gate reconciles_amount_orders: 'state' of orders is string, and has to be a number",
    ),
    "an own amount": (reconciles("day", of="orders", with_="amount"), "'day' is date, and has to be a number"),
    "a sum": (totals("fees", sums=("country",)), "gate totals_fees: 'country' is string, and has to be a number"),
    "an order": (monotonic("country"), "gate monotonic_country: 'country' is string, and has to be a number, a day"),
    "a condition": (complete(of="orders", key="order_id", where="amount"), "has to be a condition"),
    "a column": (joins_once("orders", on="amoun"), "gate joins_once_orders: 'amoun' is not a column"),
    "compared": (references("amount", to=customers, key="known_on"), "compares 'amount', which is decimal(12,2), with"),
    "a column of a plain gate": (not_null("amoun"), "gate not_null_amoun: column 'amoun' is not a column"),
    "a condition of a plain gate": (expression("whole", "amoun > 1"), "gate whole: column 'amoun' is not a column"),
    "values": (accepted("number", ("1",)), "gate accepted_number lists strings, but 'number' is bigint"),
}


@pytest.mark.parametrize("mistake", DECLARED_HERE)
def test_a_mistake_in_a_gate_is_named_with_the_line_of_the_gate(mistake: str) -> None:
    gate, said = DECLARED_HERE[mistake]
    fees = Reference(name="fees", parse=control_totals)
    with pytest.raises(InvalidDeclaration) as refused:
        check_expressions(judged_by(gate, references=(fees,)))
    assert said in refused.value.message
    file, _, line = refused.value.place.rpartition(", line ")
    assert file == __file__
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert f'"{mistake}": (' in "".join(lines[int(line) - 2 : int(line)])


def test_values_that_a_gate_can_use_are_those_of_every_type_that_is_one() -> None:
    declared(complete(of="orders", key="order_id", on="state"))  # a text can be a day
    declared(monotonic("day", by="order_id"))
    declared(reconciles("number", of="orders", with_="1"))
