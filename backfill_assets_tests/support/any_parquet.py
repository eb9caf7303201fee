"""Columns of random types of Arrow, nested up to three deep, and what JSON has of their values."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
ZONES = (None, "UTC", "Europe/Berlin")
Draw = Callable[[random.Random], Any]


def leaf(chance: random.Random) -> tuple[pa.DataType, Draw]:
    """A type that is no nested one, and what draws a value of it."""
    bits = chance.choice([8, 16, 32, 64])
    unit, zone = chance.choice(list(DIGITS)), chance.choice(ZONES)
    digits = chance.randrange(1, 77)
    scale = chance.randrange(digits + 1)
    per_second = 10 ** DIGITS[unit]
    ticks = min(253_402_300_799, (2**63 - 1) // per_second)
    kinds: Sequence[tuple[pa.DataType, Draw]] = (
        (pa.bool_(), lambda c: c.random() < 0.5),
        (getattr(pa, f"int{bits}")(), lambda c: c.choice([0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))])),
        (getattr(pa, f"uint{bits}")(), lambda c: c.choice([0, 2**bits - 1, 2 ** (bits - 1)])),
        (pa.float16(), lambda c: c.choice([0.5, -2.0, 65504.0])),
        (pa.float32(), lambda c: c.choice([0.5, 1.5e10, -(2.0**-20)])),
        (pa.float64(), lambda c: c.choice([0.1, 1e300, -5e-324, 123456789.125])),
        (
            chance.choice([pa.string(), pa.large_string()]),
            lambda c: c.choice(["", "é", 'a"\n', "NaN"]),
        ),
        (chance.choice([pa.binary(), pa.large_binary()]), lambda c: c.randbytes(c.randrange(5))),
        (pa.binary(3), lambda c: c.randbytes(3)),
        (pa.date32(), lambda c: date.fromordinal(c.choice([1, 577_736, 719_163, 3_652_059]))),
        (pa.date64(), lambda c: date.fromordinal(c.choice([1, 577_736, 719_163, 3_652_059]))),
        (pa.time32("s" if bits < 32 else "ms"), lambda c: time(c.randrange(24), 5, c.choice([0, 7]))),
        (pa.time64("us" if bits < 32 else "ns"), lambda c: time(1, 2, 3, c.choice([0, 40, 500_000]))),
        (pa.timestamp(unit, zone), lambda c: c.choice([0, 1, -1, c.randrange(-ticks // 8, ticks) * per_second + 7])),
        (pa.decimal128(min(digits, 38), min(scale, digits, 38)), lambda c: decimal(c, min(digits, 38), min(scale, 38))),
        (pa.decimal256(digits, scale), lambda c: decimal(c, digits, scale)),
        (pa.null(), lambda _: None),
        (pa.dictionary(pa.int8(), pa.string()), lambda c: c.choice(["a", "b", ""])),
        (pa.dictionary(pa.int32(), pa.int64()), lambda c: c.choice([5, -5])),
    )
    return chance.choice(kinds)


def decimal(chance: random.Random, digits: int, scale: int) -> Decimal:
    number = chance.choice([0, 1, -(10**digits - 1), chance.randrange(10**digits)])
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def drawn(chance: random.Random, depth: int = 0) -> tuple[pa.DataType, Draw]:
    """A type of any depth, whose values are null now and then."""
    kind = chance.randrange(4 if depth < 3 else 1)
    if kind == 0:
        found, draw = leaf(chance)
    elif kind == 1:
        inner, of_inner = drawn(chance, depth + 1)
        as_list = chance.choice([pa.list_, pa.large_list, pa.list_view, lambda each: pa.list_(each, 2)])
        found = as_list(inner)
        is_fixed = pa.types.is_fixed_size_list(found)
        draw = lambda c: [of_inner(c) for _ in range(2 if is_fixed else c.randrange(4))]  # noqa: E731
    elif kind == 2:
        members = [(name, *drawn(chance, depth + 1)) for name in "ab"[: chance.randrange(1, 3)]]
        found = pa.struct([(name, each) for name, each, _ in members])
        draw = lambda c: {name: of_member(c) for name, _, of_member in members}  # noqa: E731
    else:
        inner, of_inner = drawn(chance, depth + 1)
        found = pa.map_(pa.string(), inner)
        draw = lambda c: [(key, of_inner(c)) for key in c.sample("klm", c.randrange(3))]  # noqa: E731
    return found, lambda c: None if c.random() < 0.2 else draw(c)


def said(value: Any, kind: pa.DataType) -> Any:
    """What JSON has of a value of PyArrow."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        return said(value, kind.value_type)
    if pa.types.is_map(kind):
        return {key: said(each, kind.item_type) for key, each in value}
    if pa.types.is_struct(kind):
        return {field.name: said(value[field.name], field.type) for field in kind}
    if isinstance(value, list):
        return [said(each, kind.value_type) for each in value]
    if pa.types.is_timestamp(kind):
        return stamp(value, DIGITS[kind.unit], "" if kind.tz is None else "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, time):
        return value.isoformat().rstrip("0").rstrip(".") if value.microsecond else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value


def stamp(ticks: int, digits: int, zone: str) -> str:
    """A time as text, with six digits of a second, or nine where its unit has more."""
    seconds, below = divmod(ticks, 10**digits)
    shown = max(digits, 6)
    text = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{below * 10 ** (shown - digits):0{shown}}{zone}"
