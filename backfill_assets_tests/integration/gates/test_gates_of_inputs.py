"""Gates by an input: totals that do not agree with it, and joins that multiply rows, are found and named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import complete, joins_once, reconciles
from backfill_assets_tests.domains.judged import failing_of
from backfill_assets_tests.integration.gates.conftest import Opens

ACTIVE = "state = 'ACTIVE'"
ITALY = {"day": "2026-01-03", "country": "IT"}


@pytest.mark.parametrize(
    ("defect", "found"),
    [
        (None, []),
        ("lost", [("reconciles_amount_orders", "2026-01-03", ITALY, "30", "10")]),
        ("orphan", []),
        ("dearer", [("reconciles_amount_orders", "2026-01-03", ITALY, "30", "31")]),
        ("back", []),
    ],
)
def test_a_sum_that_is_not_that_of_the_input_is_named_with_both(
    opens: Opens, defect: str | None, found: Sequence[tuple[Any, ...]]
) -> None:
    kit = opens(reconciles("amount", of="orders", by=("country",), where=ACTIVE))
    assert failing_of(kit, version=defect) == found


@pytest.mark.long
def test_a_group_is_named_by_all_of_its_columns(opens: Opens) -> None:
    gate = reconciles("amount", of="orders", by=("country", "order_id"), where=ACTIVE, name="by_both")
    found = [("by_both", "2026-01-03", {**ITALY, "order_id": "o-3-2"}, "20", "21")]
    assert failing_of(opens(gate), version="dearer", days="2026-01-03") == found


@pytest.mark.long
@pytest.mark.parametrize(("within", "count"), [(1, 0), ("0.99", 1)])
def test_totals_may_be_apart_by_what_is_allowed_and_no_more(opens: Opens, within: int | str, count: int) -> None:
    kit = opens(reconciles("amount", of="orders", with_="amount * 1", where=ACTIVE, within=within))
    assert len(failing_of(kit, version="dearer")) == count


@pytest.mark.long
def test_a_value_that_is_no_number_is_in_no_total_and_fails(opens: Opens) -> None:
    odd = "IF(order_id = 'o-3-2', double('NaN'), amount)"
    found = [("reconciles_odd", "2026-01-03", {"day": "2026-01-03"}, "60", "40, and values that are not numbers: 1")]
    at_most_all = reconciles(odd, of="orders", with_="amount", where=ACTIVE, within=1_000, name="reconciles_odd")
    assert failing_of(opens(at_most_all)) == found
    both = reconciles(odd, of="orders", where=ACTIVE, name="reconciles_odd")
    assert [row[3:] for row in failing_of(opens(both))] == [("40, and values that are not numbers: 1",) * 2]


@pytest.mark.parametrize(("within", "count"), [(0, 1), ("0.000000000001", 0)])
def test_totals_are_compared_in_each_of_their_digits(opens: Opens, within: int | str, count: int) -> None:
    more = "CAST(amount AS DECIMAL(20, 12)) + IF(order_id = 'o-3-2', 0.000000000001BD, 0)"
    gate = reconciles(more, of="orders", with_="amount", where=ACTIVE, within=within, name="in_each_digit")
    assert len(failing_of(opens(gate), days="2026-01-03")) == count


@pytest.mark.long
def test_a_row_of_an_input_counts_for_no_day_where_an_expression_gives_none(opens: Opens) -> None:
    on = "IF(order_id = 'o-3-2', NULL, ordered_on)"
    gates = (
        reconciles("1", of="orders", where=ACTIVE, on=on),
        complete(of="orders", key="order_id", where=ACTIVE, on=on),
    )
    assert failing_of(opens(*gates), version="lost", days="2026-01-03") == []


@pytest.mark.long
def test_rows_are_counted_for_the_day_that_an_expression_says(opens: Opens) -> None:
    kit = opens(reconciles("1", of="orders", where=ACTIVE, on="to_date(ordered_at)"))
    assert failing_of(kit) == []
    found = [("reconciles_rows_orders", "2026-01-03", {"day": "2026-01-03"}, "3", "2")]
    assert failing_of(kit, version="lost") == found


@pytest.mark.long
def test_a_row_with_two_rows_of_an_input_is_named(opens: Opens) -> None:
    of_a_day = {"day": "ordered_on", "customer_id": "customer_id"}
    assert failing_of(opens(joins_once("orders", on=of_a_day, where=ACTIVE))) == []
    found = failing_of(opens(joins_once("orders", on=of_a_day)))
    assert [(row[1], row[2]["order_id"], *row[3:]) for row in found] == [
        (f"2026-01-0{day}", f"o-{day}-3", "one row of orders", "2 rows") for day in (2, 3, 4)
    ]
    assert [row[2]["order_id"] for row in failing_of(opens(joins_once("orders", on="order_id")))] == []


@pytest.mark.long
def test_a_null_joins_nothing(opens: Opens) -> None:
    found = failing_of(opens(joins_once("orders", on=("customer_id",))), version="nobody")
    assert ("2026-01-03", "o-3-2") not in [(row[1], row[2]["order_id"]) for row in found]


def test_what_names_nothing_or_allows_no_amount_is_refused() -> None:
    with pytest.raises(InvalidDeclaration, match="names no column"):
        joins_once("orders", on={})
    with pytest.raises(InvalidDeclaration, match="which is not an amount"):
        reconciles("amount", of="orders", within="much")
