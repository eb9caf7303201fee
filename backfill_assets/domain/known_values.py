"""Known values: texts of a reference as values of the columns that they are about."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NumericType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.domain.amounts import amount_of, plainly

_BOOLEANS = dict.fromkeys(("true", "t", "yes", "y", "1"), "true") | dict.fromkeys(
    ("false", "f", "no", "n", "0"), "false"
)
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")


class Truth(str):
    """The text of a value that YAML has read as true or false, which it may have been written otherwise: as `NO`."""

    __slots__ = ()


def value_of(text: str, kind: DataType) -> str | None:
    """The text by which Spark casts exactly this value to a type; None for what is no value of it, or would be rounded.

    Two texts of one value are the same here.
    """
    match kind:
        case StringType():
            return None if isinstance(text, Truth) else text
        case BinaryType():
            return text
        case BooleanType():
            return _BOOLEANS.get(text.strip().lower())
        case DateType():
            return _read(text, lambda given: date.fromisoformat(given).isoformat())
        case TimestampType() | TimestampNTZType():
            return _read(text, lambda given: _time(given, is_local=isinstance(kind, TimestampNTZType)))
        case FloatType() | DoubleType():
            return repr(float(text)) if is_number(text) else None
        case NumericType():
            return _exactly(text, kind)
        case _:
            return None


def is_number(text: str | None) -> bool:
    """True if a text is a value of a column of numbers: null, NaN and infinite ones are."""
    try:
        return text is None or not Decimal(text).is_snan()
    except InvalidOperation:
        return False


def to_write(kind: DataType) -> str:
    """The literal to write for a value of a type."""
    match kind:
        case StringType():
            return "put the text in quotes, because YAML reads NO without them as false"
        case BooleanType():
            return "write true or false"
        case DateType():
            return "write a day such as 2026-01-31"
        case TimestampType():
            return "write a time such as 2026-01-31T12:30:00Z"
        case TimestampNTZType():
            return "write a time without a zone such as 2026-01-31T12:30:00"
        case NumericType():
            return "write a number such as 12" if type(kind) in _BITS else 'write a number such as 12 or "12.50"'
        case _:
            return f"leave it out: no {kind.simpleString()} is compared"


def _read(text: str, read: Callable[[str], str | None]) -> str | None:
    try:
        return read(text.strip())
    except ValueError:
        return None


def _time(text: str, *, is_local: bool) -> str | None:
    found = datetime.fromisoformat(text)
    if _BEYOND_MICROSECONDS.search(text) or (is_local and found.tzinfo):
        return None
    # The time of a session is UTC.
    found = found if is_local else (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    return found.isoformat(sep=" ")


def _exactly(text: str, kind: NumericType) -> str | None:
    amount = amount_of(text)
    if amount is None:
        return None
    plain = plainly(amount)
    whole, _, part = plain.lstrip("-").partition(".")
    if isinstance(kind, DecimalType):
        is_exact = len(part) <= kind.scale and len(whole.lstrip("0")) <= kind.precision - kind.scale
    else:
        most = 1 << (_BITS[type(kind)] - 1)
        is_exact = not part and -most <= int(plain) < most
    return plain if is_exact else None
