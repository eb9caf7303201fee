"""Written times: texts and numbers of a declared form, as dates, local times and instants.

A text is compared with a regular expression from its first character to its last, and its parts are put in the order of
ISO 8601, which Spark casts. So nothing that Spark's own parser of patterns would guess takes part: 30 February is no
date, and `1/2/2020` is not read by `MM/dd/yyyy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain.dialects import Epoch
from backfill_assets.planning.patterns import DAYS, MONTHS, SHORT, Field, Pattern

_NUMBER = r"\A[+-]?([0-9]{1,19})(?:[.]([0-9]+))?\z"
_DIGITS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""By how many digits the point of an epoch moves, until it counts microseconds."""
_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999, since 1970."""
_LONG_ENDS = float(2**63)
_BELOW_MICROSECONDS = r"[.][0-9]{6}[0-9]*[1-9]"


# ------------------------------------------------------------------------------------------------------------ patterns


def is_of(text: Column, pattern: Pattern) -> Column:
    """Whether a text has the form of a pattern, whether or not its day and time exist."""
    return text.rlike(_whole(pattern))


def day_of(text: Column, pattern: Pattern) -> Column:
    """The day that a text names; null when no calendar has it, or its name of the day is another one's."""
    day = _put(text, pattern, _day_parts(text, pattern)).try_cast("date")
    if pattern.has("name of day"):
        named = _number_of_name(_group(text, pattern, "name of day"), DAYS) - 1
        day = F.when(F.weekday(day) == named, day)
    return F.when(is_of(text, pattern), day)


def time_of(text: Column, pattern: Pattern, target: T.DataType, *, rounds: bool) -> Column:
    """The local time that a text names, or the instant where the text has an offset and the target is one.

    Args:
        rounds: Whether digits below the microsecond are cut off; otherwise such a text has no time.
    """
    is_instant = isinstance(target, T.TimestampType) and pattern.has_offset
    offset = [_offset(pattern)] if is_instant else []
    written = _put(text, pattern, [*_day_parts(text, pattern), " ", *_clock_parts(text, pattern), *offset])
    is_right = is_of(text, pattern)
    if pattern.has("name of day"):
        is_right &= day_of(text, pattern).isNotNull()
    if not rounds and pattern.has("fraction") and _field(pattern, "fraction").width > 6:
        is_right &= ~written.rlike(_BELOW_MICROSECONDS)
    if not is_instant:
        return F.when(is_right, written.try_cast(T.TimestampNTZType()))
    time = written.try_cast(target)
    return F.when(is_right & _in_years(F.unix_micros(time)), time)


def _in_years(micros: Column) -> Column:
    """Whether an instant is of the years 1 to 9999, also where its offset leads out of them."""
    return micros.between(_FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1)


def _whole(pattern: Pattern) -> str:
    return rf"\A{pattern.regex}\z"


def _group(text: Column, pattern: Pattern, of: str) -> Column:
    return F.regexp_extract(text, _whole(pattern), pattern.place(of))


def _field(pattern: Pattern, of: str) -> Field:
    return pattern.fields[pattern.place(of) - 1]


def _day_parts(text: Column, pattern: Pattern) -> list[str | Column]:
    """The day of a text that has the form, in the order of ISO 8601, which Spark casts."""
    if pattern.has("week"):
        return [_day_of_week(text, pattern).cast("string")]
    if pattern.has("day of year"):
        return [_day_of_year(text, pattern).cast("string")]
    month: str | Column = "01"
    if pattern.has("quarter"):
        month = (_group(text, pattern, "quarter").try_cast("int") * 3 - 2).cast("string")
    elif pattern.has("month") and _field(pattern, "month").is_name:
        month = _number_of_name(_group(text, pattern, "month"), MONTHS).cast("string")
    elif pattern.has("month"):
        month = _reference(pattern, "month")
    day = _reference(pattern, "day") if pattern.has("day") else "01"
    return [_year(pattern), "-", month, "-", day]


def _year(pattern: Pattern) -> str:
    return _field(pattern, "year").century + _reference(pattern, "year")


def _clock_parts(text: Column, pattern: Pattern) -> list[str | Column]:
    hour: str | Column = _reference(pattern, "hour")
    if pattern.has("hour of 12"):
        number = _group(text, pattern, "hour of 12").try_cast("int")
        after_noon = F.when(F.lower(_group(text, pattern, "half")) == "pm", 12).otherwise(0)
        hour = F.when(number.between(1, 12), (number % 12 + after_noon).cast("string"))
    # With an offset behind them, Spark's cast needs the seconds.
    minute, second = (_reference(pattern, of) if pattern.has(of) else "00" for of in ("minute", "second"))
    parts = [hour, ":", minute, ":", second]
    if pattern.has("fraction"):
        parts += [".", _reference(pattern, "fraction")]
    return parts


def _offset(pattern: Pattern) -> str:
    is_written = pattern.has("offset") and not _field(pattern, "offset").is_name
    return _reference(pattern, "offset") if is_written else "Z"


def _reference(pattern: Pattern, of: str) -> str:
    """A part of a text, as a replacement of the text names it."""
    return f"${pattern.place(of)}"


def _put(text: Column, pattern: Pattern, parts: Sequence[str | Column]) -> Column:
    """Parts of a text in another order; what is in a column, such as the number of a month, is put between them."""
    groups = [[*group] for _, group in groupby(parts, key=lambda part: isinstance(part, str))]
    columns: list[Column] = []
    for group in groups:
        texts = [part for part in group if isinstance(part, str)]
        columns += [part for part in group if not isinstance(part, str)]
        columns += [F.regexp_replace(text, _whole(pattern), "".join(texts))] if texts else []
    return F.concat(*columns)


def _number_of_name(name: Column, names: Iterable[str]) -> Column:
    """The number of a name among others, from 1, by its first letters."""
    letters = F.lit("".join(each[:SHORT].lower() for each in names))
    return ((F.instr(letters, F.lower(F.left(name, F.lit(SHORT)))) + SHORT - 1) / SHORT).cast("int")


def _day_of_year(text: Column, pattern: Pattern) -> Column:
    first = _put(text, pattern, [_year(pattern), "-01-01"]).try_cast("date")
    number = _group(text, pattern, "day of year").try_cast("int")
    day = F.date_add(first, number - 1)
    return F.when((number > 0) & (F.year(day) == F.year(first)), day)


def _day_of_week(text: Column, pattern: Pattern) -> Column:
    """The day of an ISO week, whose first week has the fourth of January; the first day of it where none is named."""
    fourth = _put(text, pattern, [_reference(pattern, "week year"), "-01-04"]).try_cast("date")
    week = _group(text, pattern, "week").try_cast("int")
    day = _group(text, pattern, "day of week").try_cast("int") if pattern.has("day of week") else F.lit(1)
    found = F.date_add(fourth, (week - 1) * 7 + day - 1 - F.weekday(fourth))
    return F.when((week > 0) & (F.weekofyear(found) == week), found)


# -------------------------------------------------------------------------------------------------------------- epochs


def as_text(value: Column, found: T.DataType) -> Column:
    """A text or a number as the text that its digits are; of floating numbers only whole ones have such."""
    if not isinstance(found, (T.FloatType, T.DoubleType)):
        return value.cast("string")
    is_whole = (F.abs(value) < _LONG_ENDS) & (value % F.lit(1.0) == 0)
    return F.when(is_whole, F.floor(F.when(is_whole, value)).cast("string"))


def is_number(text: Column) -> Column:
    """Whether a text is a number as an epoch is one: digits and perhaps a fraction, without an exponent."""
    return text.rlike(_NUMBER)


def of_epoch(value: Column, found: T.DataType, epoch: Epoch, target: T.DataType, *, rounds: bool) -> Column:
    """The date or the instant of a number since 1970; null when it is none, is of no year of four digits, or has digits
    that the type does not keep.

    Args:
        found: What the value is: a text, or a number of Parquet.
        rounds: Whether what is below the microsecond is cut off, and of a floating number rounded.
    """
    if epoch.unit == "d":
        days = _days(as_text(value, found))
        return F.when(days.between(_FIRST_DAY, _LAST_DAY), F.date_from_unix_date(days.cast("int")))
    digits = _DIGITS[epoch.unit]
    if isinstance(found, (T.FloatType, T.DoubleType)):
        micros = _micros_of_float(value.cast("double"), digits, rounds=rounds)
    else:
        micros = _micros_of_text(value.cast("string"), digits, rounds=rounds)
    instant = F.timestamp_micros(F.when(_in_years(micros), micros))
    if isinstance(target, T.DateType):
        # Sessions are held to UTC, so that the cast gives the day in which the epoch begins.
        return F.when(micros % F.lit(_DAY_MICROS) == 0, instant.cast("date"))
    return instant


def _days(text: Column) -> Column:
    part = F.regexp_extract(text, _NUMBER, 2)
    whole = F.regexp_extract(text, r"\A([+-]?[0-9]{1,19})", 1).try_cast("bigint")
    return F.when(is_number(text) & ~part.rlike("[1-9]"), whole)


def _micros_of_text(text: Column, digits: int, *, rounds: bool) -> Column:
    """Microseconds of a number, by moving its point: numbers of any size would lose digits as they are multiplied."""
    whole, part = (F.regexp_extract(text, _NUMBER, group) for group in (1, 2))
    if digits >= 0:
        kept = F.concat(whole, F.rpad(F.left(part, F.lit(digits)), digits, "0"))
        below = F.regexp_replace(part, f"\\A.{{0,{digits}}}", "")
    else:
        padded = F.concat(F.lit("0" * -digits), whole)
        kept = F.regexp_replace(padded, f".{{{-digits}}}\\z", "")
        below = F.concat(F.right(padded, F.lit(-digits)), part)
    has_more = below.rlike("[1-9]")
    number = kept.try_cast("bigint")
    # Cut to the microsecond before, as the fraction of a time is.
    signed = F.when(text.startswith("-"), -number - has_more.cast("bigint")).otherwise(number)
    return F.when(is_number(text) & (F.lit(rounds) | ~has_more), signed)


def _micros_of_float(number: Column, digits: int, *, rounds: bool) -> Column:
    """Microseconds of a floating number: its value exactly, or with `rounds` the nearest."""
    number = F.when(F.abs(number) < min(10.0 ** (18 - digits), _LONG_ENDS), number)
    whole = F.floor(number)
    part = number - whole.cast("double")
    if digits < 0:
        scale = 10**-digits
        below = F.pmod(whole, F.lit(scale))
        nearest = F.call_function("div", whole - below, F.lit(scale)) + (below * 2 >= scale).cast("bigint")
        is_exact = (below == 0) & (part == 0)
    else:
        nearest = whole * F.lit(10**digits) + F.round(part * F.lit(float(10**digits))).cast("bigint")
        # A binary fraction times 10^n is whole where that times 2^n is, which is computed without an error.
        is_exact = part * F.lit(float(2**digits)) % F.lit(1.0) == 0
    return F.when(F.lit(rounds) | is_exact, nearest)
