"""Amounts: numbers that are added up and compared in decimals, without losing one of their digits."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, DecimalType, IntegerType, LongType, ShortType

_SCALE, _MOST_DIGITS = 9, 38
"""Digits after the point of an amount that is compared, unless its column has more; and of all of it."""

_WHOLE: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
"""The digits of whole numbers."""

_FURTHEST = 100
"""Digits of an amount on one side of its point: one with more is a mistake."""

_EXACTLY = Context(prec=1_000)


def amount_of(value: int | str | Decimal | None) -> Decimal | None:
    """A finite amount; None for anything else."""
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    exponent = found.as_tuple().exponent
    is_amount = isinstance(exponent, int) and exponent >= -_FURTHEST and found.adjusted() <= _FURTHEST
    return found if is_amount else None


def plainly(amount: Decimal) -> str:
    """An amount as a text with all of its digits, without zeros at its end."""
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) if amount else "0"


def added_up_as(*kinds: DataType) -> DecimalType:
    """The decimal in which values of these types are added up: one that has room for the digits of all of them."""
    decimals = [kind for kind in kinds if isinstance(kind, DecimalType)]
    before = [kind.precision - kind.scale for kind in decimals] + [_WHOLE.get(type(kind), 0) for kind in kinds]
    scale = max((kind.scale for kind in decimals), default=0)
    is_exact = all(isinstance(kind, DecimalType) or type(kind) in _WHOLE for kind in kinds)
    least = min(_SCALE, scale) if is_exact else _SCALE
    return DecimalType(_MOST_DIGITS, max(least, min(max(_SCALE, scale), _MOST_DIGITS - max(before, default=0))))


def bounds(amount: Decimal, within: Decimal, kind: DecimalType) -> tuple[str, str]:
    """The least and the largest value of a type that differ from an amount by no more; the larger one first for none.

    An amount can have more digits than the type has.
    """
    unit = Decimal(1).scaleb(-kind.scale)
    most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, _EXACTLY)
    least = most.copy_negate()
    low = _EXACTLY.subtract(amount, within).quantize(unit, ROUND_CEILING, _EXACTLY)
    high = _EXACTLY.add(amount, within).quantize(unit, ROUND_FLOOR, _EXACTLY)
    if low > most or high < least:
        return plainly(most), plainly(least)
    return plainly(max(low, least)), plainly(min(high, most))


def without_amount(value: Column, kind: DecimalType) -> Column:
    """True if a value is there but not an amount, as NaN and infinite ones are: a sum of decimals leaves it out."""
    return value.isNotNull() & value.try_cast(kind).isNull()


def plain(amount: Column) -> Column:
    """An amount as a text, without zeros at its end."""
    text = amount.cast("string")
    return F.when(text.contains("."), F.regexp_replace(text, r"\.?0+$", "")).otherwise(text)


def with_others(total: Column, others: Column) -> Column:
    """A total as a text, and how many values are no part of it because they are no amounts."""
    more = F.concat(total, F.lit(", and values that are not numbers: "), others.cast("string"))
    return F.when(F.coalesce(others, F.lit(0)) > 0, more).otherwise(total)
