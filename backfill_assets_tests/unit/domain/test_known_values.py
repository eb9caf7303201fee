"""Texts of a reference as values of columns: each is exactly one value, or is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import types as T

from backfill_assets.domain.gates_by_reference import Truth, added_up_as, amount_of, bounds, value_of

MONEY = T.DecimalType(10, 2)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1e+16", T.LongType(), "10000000000000000"),
        ("3.0", T.IntegerType(), "3"),
        ("3.5", T.IntegerType(), None),
        ("128", T.ByteType(), None),
        ("-128", T.ByteType(), "-128"),
        ("1.500", MONEY, "1.5"),
        ("1.505", MONEY, None),
        ("123456789.00", MONEY, None),
        ("0.000", MONEY, "0"),
        ("NaN", MONEY, None),
        ("1e9999999", MONEY, None),
        (".1", T.DoubleType(), "0.1"),
        ("one", T.DoubleType(), None),
        ("No", T.BooleanType(), "false"),
        ("maybe", T.BooleanType(), None),
        ("20260131", T.DateType(), "2026-01-31"),
        ("2026-01-31 12:00:00", T.DateType(), None),
        ("2026-01-31", T.TimestampType(), "2026-01-31 00:00:00+00:00"),
        ("2026-01-31T01:30:00+02:00", T.TimestampType(), "2026-01-30 23:30:00+00:00"),
        ("2026-01-31T01:30:00.0000001Z", T.TimestampType(), None),
        ("2026-01-31T01:30:00Z", T.TimestampNTZType(), None),
        ("2026-01-31 01:30:00", T.TimestampNTZType(), "2026-01-31 01:30:00"),
        (" a ", T.StringType(), " a "),
        (Truth("false"), T.StringType(), None),
        ("[1]", T.ArrayType(T.IntegerType()), None),
    ],
)
def test_a_text_is_exactly_one_value_or_none(text: str, kind: T.DataType, value: str | None) -> None:
    assert value_of(text, kind) == value


def test_a_type_in_which_amounts_are_added_up_has_room_for_their_digits() -> None:
    assert added_up_as(T.DoubleType()) == T.DecimalType(38, 9)
    assert added_up_as(T.DecimalType(38, 2), T.LongType()) == T.DecimalType(38, 2)
    assert added_up_as(T.DecimalType(38, 2), T.DoubleType()) == T.DecimalType(38, 9)
    assert added_up_as(T.DecimalType(38, 2), T.DecimalType(38, 12)) == T.DecimalType(38, 9)
    assert added_up_as(T.DecimalType(20, 12), T.LongType()) == T.DecimalType(38, 12)
    assert added_up_as(T.DecimalType(38, 30), T.LongType()) == T.DecimalType(38, 19)


@pytest.mark.parametrize("text", ["1e101", "1e-101", "NaN", "inf", "", "one"])
def test_what_is_no_finite_amount_or_one_of_too_many_digits_is_none(text: str) -> None:
    assert amount_of(text) is None


@pytest.mark.parametrize(
    ("amount", "within", "low", "high"),
    [
        ("1.5", "0", "1.5", "1.5"),
        ("1.005", "0", "1.01", "1"),
        ("1.005", "0.005", "1", "1.01"),
        ("-1.005", "0.001", "-1", "-1.01"),
        ("1e9", "0", "9999.99", "-9999.99"),
        ("1e9", "1e9", "0", "9999.99"),
    ],
)
def test_the_values_around_an_amount_are_those_that_differ_by_no_more(
    amount: str, within: str, low: str, high: str
) -> None:
    assert bounds(Decimal(amount), Decimal(within), T.DecimalType(6, 2)) == (low, high)
