"""Numbers as pages show them: with the digits that are there, never rounded to none, and exact in their sums."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from backfill_assets.report.run_report import change_in_words
from backfill_assets.report.usual import Number, by_dimensions
from backfill_assets.report.values import text_of
from backfill_assets_tests.support.report_examples import cell


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (2278, 2277, "-1, under 0.1%"),
        (100, 101, "+1, +1.0%"),
        (0, 3, "+3"),
        (5, 5, "same"),
        (Decimal("1E-300"), 1e308, "+1e+308, over 1,000,000%"),
        (
            Decimal("100000000000000000000000000014.5"),
            Decimal("100000000000000000000000000014.499999"),
            "-0.000001, under 0.1%",
        ),
    ],
)
def test_a_small_change_is_not_rounded_to_none(before: Number, after: Number, said: str) -> None:
    assert change_in_words(before, after) == said


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal("100000000000014.500000"), "100,000,000,000,014.5"),
        (Decimal("0.123456"), "0.123456"),
        (Decimal("12.30"), "12.3"),
        (0.1 + 0.2, "~0.3"),
        (Decimal("-0.0"), "0"),
        (1e300, "1e+300"),
        (int(1.7976931348623157e308), "1.7976931348623157e+308"),
        (10**38 - 1, "99,999,999,999,999,999,999,999,999,999,999,999,999"),
        (Decimal("0.00000012"), "1.2e-7"),
        (1234567.0, "1,234,567"),
        (0.0, "0"),
    ],
)
def test_a_number_has_the_digits_that_are_there_or_a_mark(value: Number, shown: str) -> None:
    assert text_of(value) == shown


def test_sums_of_long_decimals_are_exact() -> None:
    kept = [cell("2006-07", "a"), cell("2006-08", "a")]
    long = Decimal("12345678901234567890123456789012.345678")
    found = by_dimensions([replace(each, after={"amount": long}, before={"amount": 0}) for each in kept])
    assert found[0].after["amount"] == Decimal("24691357802469135780246913578024.691356")


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(NAN, NAN, "same"), (INFINITE, INFINITE, "same"), (1, NAN, "not comparable"), (-INFINITE, 1.5, "not comparable")],
)
def test_a_sum_that_is_not_finite_is_not_subtracted(before: float, after: float, said: str) -> None:
    assert change_in_words(before, after) == said
