"""Which gates can be asked of accepted rows, and by what two declarations of a gate count as the same."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from backfill_assets.domain import DerivedTable, Gate, accepted, expression, failing, not_null, row_count
from backfill_assets.gates.agreed import asked_of_accepted
from backfill_assets_tests.domains.example import DOMAIN

TABLE: DerivedTable = DOMAIN.derived_table("silver.recent_sales")
NEEDS_A_CANDIDATE = {
    "AddsOnly",
    "ComparedWithAccepted",
    "Merged",
    "Moved",
    "OnlyExpired",
    "OutsideScope",
    "SameState",
    "Usual",
    "WarmUpProof",
}
KINDS = sorted(get_args(Gate), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_gate_says_itself_whether_it_can_be_asked_of_accepted_rows(kind: type[Gate]) -> None:
    assert isinstance(vars(kind).get("of_accepted"), bool), f"{kind.__name__} does not say it, and `check` asks it"


def test_gates_that_compare_with_accepted_rows_are_asked_only_of_candidates() -> None:
    assert {kind.__name__ for kind in KINDS if not kind.of_accepted} == NEEDS_A_CANDIDATE


def digest(gate: Gate) -> str:
    return asked_of_accepted(replace(TABLE, gates=(*TABLE.gates, gate)), {})[gate.name]


def test_another_demand_bound_or_consequence_makes_it_another_gate() -> None:
    same = digest(expression("g", "amount > 0"))
    assert digest(expression("g", "amount > 0")) == same
    others: list[Gate] = [
        expression("g", "amount > 1"),
        expression("g", "amount > 0", blocking=False),
        row_count(at_least=1, name="g"),
        row_count(at_least=1, at_most=2, name="g"),
        accepted("shop", ["a"], name="g"),
        accepted("shop", ["a,b"], name="g"),
        accepted("shop", ["a", "b"], name="g"),
        not_null("shop", name="g"),
    ]
    assert len({same, *(digest(each) for each in others)}) == 1 + len(others)


def test_other_code_of_a_function_makes_it_another_gate_even_where_its_words_stay() -> None:
    table = replace(TABLE, gates=(*TABLE.gates, failing("g", sql="SELECT day FROM candidate")))
    first, again, other = (asked_of_accepted(table, {"g": code})["g"] for code in ("a" * 64, "a" * 64, "b" * 64))
    assert first == again != other


def test_a_column_that_becomes_required_makes_the_gate_of_the_columns_another_one_and_an_optional_one_does_not() -> (
    None
):
    def schema(*more: StructField) -> str:
        return asked_of_accepted(replace(TABLE, schema=StructType([*TABLE.schema.fields, *more])), {})["schema"]

    before = asked_of_accepted(TABLE, {})["schema"]
    assert schema(StructField("note", StringType(), nullable=True)) == before
    assert schema(StructField("count", LongType(), nullable=False)) != before
