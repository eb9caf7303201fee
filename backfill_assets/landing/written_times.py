"""Written times: texts and numbers of a declared form, as dates, local times and instants.

A text is compared with a regular expression from its first character to its last, and its parts are put in the order of
ISO 8601, which Spark casts. So nothing that Spark's own parser of patterns would guess takes part: 30 February is no
date, and `1/2/2020` is not read by `MM/dd/yyyy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain.dialects import Epoch
from backfill_assets.landing.json_text import let
from backfill_assets.planning.patterns import DAYS, MONTHS, SHORT, Field, Pattern

_NUMBER = r"\A[+-]?([0-9]{1,19})(?:[.]([0-9]+))?\z"
_DIGITS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""By how many digits the point of an epoch moves, until it counts microseconds."""
_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999, since 1970."""
_COMPUTED = frozenset({"hour of 12", "quarter", "day of year", "week"})
"""Parts of a time that become others by arithmetic; so do names of months and days."""
_APART = "\u001f"
Part = str | int | Column
"""What a time is put together of: a text, the number of a part of the text that is read, or what was computed."""

_LONG_ENDS = float(2**63)
_BELOW_MICROSECONDS = r"[.][0-9]{6}[0-9]*[1-9]"


# ------------------------------------------------------------------------------------------------------------ patterns


def is_of(text: Column, pattern: Pattern) -> Column:
    """Whether a text has the form of a pattern, whether or not its day and time exist."""
    return text.rlike(_whole(pattern))


def day_of(text: Column, pattern: Pattern) -> Column:
    """The day that a text names; null when no calendar has it, or its name of the day is another one's."""
    return F.when(is_of(text, pattern), _with_groups(text, pattern, lambda groups: _day(text, groups, pattern)))


def time_of(text: Column, pattern: Pattern, target: T.DataType, *, rounds: bool) -> Column:
    """The local time that a text names, or the instant where the text has an offset and the target is one.

    Args:
        rounds: Whether digits below the microsecond are cut off; otherwise such a text has no time.
    """
    is_instant = isinstance(target, T.TimestampType) and pattern.has_offset

    def of_groups(groups: Column) -> Column:
        parts = [*_day_parts(groups, pattern), " ", *_clock_parts(groups, pattern)]
        written = _put(text, groups, pattern, [*parts, _offset(pattern)] if is_instant else parts)
        time = written.try_cast(target if is_instant else T.TimestampNTZType())
        if pattern.has("name of day"):
            time = F.when(_day(text, groups, pattern).isNotNull(), time)
        if not rounds and pattern.has("fraction") and _field(pattern, "fraction").width > 6:
            time = F.when(~written.rlike(_BELOW_MICROSECONDS), time)
        return F.when(in_years(F.unix_micros(time)), time) if is_instant and pattern.has("offset") else time

    return F.when(is_of(text, pattern), _with_groups(text, pattern, of_groups))


def in_years(micros: Column) -> Column:
    """Whether an instant is of the years 1 to 9999, also where its offset leads out of them."""
    return micros.between(_FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1)


def _whole(pattern: Pattern) -> str:
    return rf"\A{pattern.regex}\z"


def _with_groups(text: Column, pattern: Pattern, body: Callable[[Column], Column]) -> Column:
    """An expression of the parts of a text, which are taken out of it at once: each by itself would search it again.

    Where all of them are put in another order as they are, one replacement does that, without them.
    """
    if not any(field.is_name or field.of in _COMPUTED for field in pattern.fields if field.of != "offset"):
        return body(F.array())
    every = _APART.join(f"${place}" for place in range(1, len(pattern.fields) + 1))
    return let(F.split(F.regexp_replace(text, _whole(pattern), every), _APART), body)


def _group(groups: Column, pattern: Pattern, of: str) -> Column:
    return F.get(groups, F.lit(pattern.place(of) - 1))


def _field(pattern: Pattern, of: str) -> Field:
    return pattern.fields[pattern.place(of) - 1]


def _put(text: Column, groups: Column, pattern: Pattern, parts: Sequence[Part]) -> Column:
    """Parts of a text in another order, and others between them."""
    if not any(isinstance(part, Column) for part in parts):
        template = "".join(f"${part}" if isinstance(part, int) else str(part) for part in parts)
        return F.regexp_replace(text, _whole(pattern), template)
    columns: list[Column] = []
    for part in parts:
        match part:
            case int():
                columns.append(F.get(groups, F.lit(part - 1)))
            case str():
                columns.append(F.lit(part))
            case _:
                columns.append(part)
    return F.concat(*columns)


def _day(text: Column, groups: Column, pattern: Pattern) -> Column:
    day = _put(text, groups, pattern, _day_parts(groups, pattern)).try_cast("date")
    if not pattern.has("name of day"):
        return day
    named = _number_of_name(_group(groups, pattern, "name of day"), DAYS) - 1
    return F.when(F.weekday(day) == named, day)


def _day_parts(groups: Column, pattern: Pattern) -> list[Part]:
    """The day of a text that has the form, in the order of ISO 8601, which Spark casts."""
    if pattern.has("week"):
        return [_day_of_week(groups, pattern).cast("string")]
    if pattern.has("day of year"):
        return [_day_of_year(groups, pattern).cast("string")]
    month: Part = "01"
    if pattern.has("quarter"):
        month = (_group(groups, pattern, "quarter").try_cast("int") * 3 - 2).cast("string")
    elif pattern.has("month") and _field(pattern, "month").is_name:
        month = _number_of_name(_group(groups, pattern, "month"), MONTHS).cast("string")
    elif pattern.has("month"):
        month = pattern.place("month")
    day: Part = pattern.place("day") or "01"
    return [_field(pattern, "year").century, pattern.place("year"), "-", month, "-", day]


def _clock_parts(groups: Column, pattern: Pattern) -> list[Part]:
    hour: Part = pattern.place("hour")
    if pattern.has("hour of 12"):
        number = _group(groups, pattern, "hour of 12").try_cast("int")
        after_noon = F.when(F.lower(_group(groups, pattern, "half")) == "pm", 12).otherwise(0)
        hour = F.when(number.between(1, 12), (number % 12 + after_noon).cast("string"))
    # With an offset behind them, Spark's cast needs the seconds.
    parts: list[Part] = [hour, ":", pattern.place("minute") or "00", ":", pattern.place("second") or "00"]
    return [*parts, ".", pattern.place("fraction")] if pattern.has("fraction") else parts


def _offset(pattern: Pattern) -> Part:
    is_written = pattern.has("offset") and not _field(pattern, "offset").is_name
    return pattern.place("offset") if is_written else "Z"


def _number_of_name(name: Column, names: Iterable[str]) -> Column:
    """The number of a name among others, from 1, by its first letters."""
    letters = F.lit("".join(each[:SHORT].lower() for each in names))
    return ((F.instr(letters, F.lower(F.left(name, F.lit(SHORT)))) + SHORT - 1) / SHORT).cast("int")


def _day_of_year(groups: Column, pattern: Pattern) -> Column:
    year = F.concat(F.lit(_field(pattern, "year").century), _group(groups, pattern, "year"))
    first = F.concat(year, F.lit("-01-01")).try_cast("date")
    number = _group(groups, pattern, "day of year").try_cast("int")
    day = F.date_add(first, number - 1)
    return F.when((number > 0) & (F.year(day) == F.year(first)), day)


def _day_of_week(groups: Column, pattern: Pattern) -> Column:
    """The day of an ISO week, whose first week has the fourth of January; the first day of it where none is named."""
    fourth = F.concat(_group(groups, pattern, "week year"), F.lit("-01-04")).try_cast("date")
    week = _group(groups, pattern, "week").try_cast("int")
    day = _group(groups, pattern, "day of week").try_cast("int") if pattern.has("day of week") else F.lit(1)
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

    def of_micros(counted: Column) -> Column:
        instant = F.timestamp_micros(F.when(in_years(counted), counted))
        # Sessions are held to UTC, so that the cast gives the day in which the epoch begins.
        is_date = isinstance(target, T.DateType)
        return F.when(counted % F.lit(_DAY_MICROS) == 0, instant.cast("date")) if is_date else instant

    return let(micros, of_micros)


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
    found = F.when(is_number(text) & (F.lit(rounds) | ~has_more), signed)
    if digits < 0:
        return found
    # Nearly all numbers are whole and of so few digits that they can be multiplied.
    few = text.rlike(rf"\A-?[0-9]{{1,{18 - digits}}}\z")
    return F.when(few, text.try_cast("bigint") * F.lit(10**digits)).otherwise(found)


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
