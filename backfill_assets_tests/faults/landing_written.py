"""The part of the landing oracle that is about declared texts: forms of times, epochs, numbers with other marks, words.

`strptime` by hand-made translations, `Fraction` and `Decimal`, and nothing of the product. Instants are microseconds
since 1970, dates are days.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pyspark.sql import types as T

from backfill_assets_tests.faults.landing_clocks import NoInstant, Times, instant_of, reading
from backfill_assets_tests.faults.landing_oracle import END, FIRST, NOT_FINITE, Record, Wrong, from_text, value_of
from backfill_assets_tests.support.written_times import LOCAL
from backfill_assets_tests.support.written_times import expected as time_of

_BEGIN = datetime(1970, 1, 1)  # noqa: DTZ001 - of local times as well
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400 * 10**6
_MICROS: Mapping[str, Fraction] = {
    "s": Fraction(10**6),
    "ms": Fraction(10**3),
    "us": Fraction(1),
    "ns": Fraction(1, 1000),
    "d": Fraction(_DAY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What a source declares of the texts of its values."""

    #: By column its patterns, and units of numbers since 1970 with a colon before them, such as `:ms`.
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: tuple[str, str] = (".", "")  #: What is before the fraction of a number, and between its groups.
    words: tuple[tuple[str, ...], tuple[str, ...]] = (("true",), ("false",))  #: The texts for true and for false.
    nulls: tuple[str, ...] = ()  #: The texts of no value.
    times: Times | None = None  #: In which zone local times are read.

    def judged(
        self, written: Mapping[str, Any], schema: T.StructType, *, rounds: bool, without: Collection[str] = ()
    ) -> Record:
        """A record with the values of what its file has.

        Args:
            without: Columns of which nothing is said.
        """
        values: dict[str, Any] = {}
        for column in schema:
            if column.name in without:
                continue
            try:
                values[column.name] = self._value(column, written.get(column.name), rounds=rounds)
            except Wrong as wrong:
                values[column.name] = wrong
        return Record(written=written, values=values)

    def _value(self, column: T.StructField, written: Any, *, rounds: bool) -> Any:
        if isinstance(written, str) and str(written) in self.nulls:
            written = None
        value: Any
        match column.dataType, written:
            case _, None:
                value = None
            case T.StringType(), _:
                value = value_of(written, column.dataType)
            case _, str() if not written.strip(" "):
                value = None
            case _ if column.name in self.forms:
                value = self._time(column, written, rounds=rounds)
            case T.BooleanType(), str():
                value = self._truth(str(written))
            case T.NumericType(), str():
                value = number_of(str(written), *self.marks, column.dataType, rounds=rounds)
            case _:
                value = value_of(written, column.dataType, rounds=rounds)
        if value is None and not column.nullable:
            raise Wrong(quoted=False)
        return value

    def _truth(self, text: str) -> bool:
        true, false = self.words
        if text not in (*true, *false):
            raise Wrong
        return text in true

    def _time(self, column: T.StructField, written: Any, *, rounds: bool) -> int:
        for form in self.forms[column.name]:
            if form.startswith(":"):
                found = counted(_exactly(written), form[1:], column.dataType, rounds, isinstance(written, float))
            else:
                at = time_of(form, _text(written))
                found = None if at is None else (at - _BEGIN) // _MICROSECOND
                if found is not None and form in LOCAL and isinstance(column.dataType, T.TimestampType):
                    found = self._instant(column.name, found)
                if found is not None and isinstance(column.dataType, T.DateType):
                    found = None if found % _DAY else found // _DAY
            if found is not None:
                return found
        raise Wrong(quoted=isinstance(written, str))

    def _instant(self, column: str, local: int) -> int:
        """The instant of a local time of the zone.

        Raises:
            Wrong: It is none, or could be two, or is beyond the calendar.
        """
        with reading(self.times, column):
            try:
                found = instant_of(local)
            except (NoInstant, OverflowError):
                raise Wrong from None
        if not FIRST <= found < END:
            raise Wrong
        return found


def _text(written: Any) -> str:
    is_whole = isinstance(written, float) and math.isfinite(written) and written == int(written)
    return str(int(written)) if is_whole else str(written)


def _exactly(written: Any) -> Fraction | None:
    """The number that a file has; None when it is none that counts from 1970."""
    if isinstance(written, float):
        return Fraction(written) if abs(written) < 2**63 else None
    text = f"{written:f}" if isinstance(written, Decimal) else str(written)
    return Fraction(text) if re.fullmatch("[+-]?[0-9]{1,19}([.][0-9]+)?", text) else None


def counted(number: Fraction | None, unit: str, kind: T.DataType, rounds: bool, nearest: bool) -> int | None:
    """What a number counts to: microseconds, or days of a date; None where it is no time of its column.

    Args:
        number: Its value; None of what is none.
        rounds: Whether digits below the microsecond are left out.
        nearest: Whether they are rounded, and not cut.
    """
    if number is None:
        return None
    micros = number * _MICROS[unit]
    if micros.denominator != 1 and (not rounds or unit == "d"):
        return None
    whole = math.floor(micros + Fraction(1, 2)) if nearest else math.floor(micros)
    if not FIRST <= whole < END:
        return None
    if not isinstance(kind, T.DateType):
        return whole
    return None if whole % _DAY else whole // _DAY


def number_of(text: str, decimal: str, thousands: str, kind: T.DataType, *, rounds: bool = False) -> Any:
    """The value of a number, by the rules for JSON of what is left when each mark is where it may be.

    Raises:
        Wrong: It has none.
    """
    if text in NOT_FINITE:
        return from_text(text, kind)
    mantissa, exponent, power = text.partition("e") if "e" in text else text.partition("E")
    sign = mantissa[:1] if mantissa[:1] in ("+", "-") else ""
    whole, point, fraction = mantissa.removeprefix(sign).partition(decimal)
    if thousands and thousands in whole:
        first, *groups = whole.split(thousands)
        if not (1 <= len(first) <= 3 and first[0] != "0" and all(len(each) == 3 for each in groups)):
            raise Wrong
        whole = first + "".join(groups)
    if not re.fullmatch("[0-9]*", whole + fraction):
        raise Wrong
    return from_text(sign + whole + "." * len(point) + fraction + exponent + power, kind, rounds=rounds)
