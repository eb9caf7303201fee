"""Types of columns that a contract allows, and few values of each, so that rows are often equal and often nearly so."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import types as t

FIRST = date(2026, 1, 1)
EMPTY_TEXTS = ("", "a", "b", "ab", "\x00", "null", "1")
NAN = float("nan")

VALUES: dict[t.DataType, tuple[Any, ...]] = {
    t.BooleanType(): (False, True),
    t.ByteType(): (0, 1, -1),
    t.ShortType(): (0, 1, 256),
    t.IntegerType(): (0, 1, 2**31 - 1),
    t.LongType(): (0, 1, 2**32, -(2**63)),
    t.FloatType(): (0.0, -0.0, 1.0, NAN, math.inf),
    t.DoubleType(): (0.0, -0.0, 1.0, NAN, -math.inf),
    t.DecimalType(9, 2): (Decimal("0.00"), Decimal("1.00"), Decimal("1.10")),
    t.DecimalType(38, 18): (Decimal(0), Decimal("1E-18"), Decimal(10) ** 19),
    t.StringType(): EMPTY_TEXTS,
    t.BinaryType(): tuple(each.encode() for each in EMPTY_TEXTS),
    t.DateType(): (FIRST, FIRST + timedelta(days=1)),
    t.TimestampType(): (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    t.TimestampNTZType(): tuple(datetime(2026, 1, 1, 0, 0, 0, us, tzinfo=UTC).replace(tzinfo=None) for us in (0, 1)),
}
"""Few values of every atomic type, so that rows are often equal, and often nearly so."""

TYPES = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda inner: st.one_of(
        inner.map(t.ArrayType),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: t.StructType([t.StructField(f"f{place}", kind) for place, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=4,
)


def values_of(kind: t.DataType) -> st.SearchStrategy[Any]:
    """Values of a type; null at any depth."""
    match kind:
        case t.StructType():
            inner: st.SearchStrategy[Any] = st.tuples(*(values_of(field.dataType) for field in kind.fields))
        case t.ArrayType():
            inner = st.lists(values_of(kind.elementType), max_size=2)
        case _:
            inner = st.sampled_from(VALUES[kind])
    return st.none() | inner


def plain(value: Any) -> object:
    """A value so that equality is the one that is promised: zeros of either sign are equal, and all NaNs."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, tuple | list):
        return type(value).__name__, *map(plain, value)
    return value
