"""Times: texts and numbers of a declared form as dates, local times and instants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.calendar.patterns import DAYS, MONTHS, SHORT, Field, Pattern, patterns_of
from backfill_assets.domain.source_files import Epoch, Reader, named
from backfill_assets.landing.json_text import bind_column
from backfill_assets.landing.likely_forms import how_to_declare, mark_to_declare
from backfill_assets.landing.reading import REJECT, SECOND, Reading, quoting, shown

# Written times: texts and numbers of a declared form, as dates, local times and instants.
#
# A text is compared with a regular expression from its first character to its last, and its parts are put in the
# order of ISO 8601, which Spark casts. So nothing that Spark's own parser of patterns would guess takes part: 30
# February is no date, and `1/2/2020` is not read by `MM/dd/yyyy`.

_NUMBER = r"\A[+-]?([0-9]{1,19})(?:[.]([0-9]+))?\z"
_DIGITS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""The digits by which the point of an epoch moves until it counts microseconds."""
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
    """True if a text has the form of a pattern, even if its day and time do not exist."""
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
    """True if an instant is within the years 1 to 9999, also with its offset."""
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
    return bind_column(F.split(F.regexp_replace(text, _whole(pattern), every), _APART), body)


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
    """True if a text is a number of the form of an epoch: digits and perhaps a fraction, without an exponent."""
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

    return bind_column(micros, of_micros)


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


# Times: what a text is as a date, an instant or a local time, and which instant a local time is.
#
# A time without an offset is an instant only where the source states its time zone. Without declared forms times
# are written as in ISO 8601; texts and numbers of declared forms are read in `written_times`.

TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)

_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
# Spark's own cast also takes a bare date, a missing offset and the name of a zone, all of which leave the instant open.
_LOCAL = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
_TIMES: Mapping[type[T.DataType], str] = {
    T.TimestampType: _LOCAL + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)\z",
    T.TimestampNTZType: _LOCAL + r"\z",
}
_INNER = (datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC))
"""Between these no clock of a zone leads out of the years that dates have."""
_WITHOUT_SECONDS = r"\A(.{16})([Z+-])"
_DEMANDS: Mapping[type[T.DataType], str] = {
    T.DateType: "a date like 2026-01-01",
    T.TimestampType: "a timestamp like 2026-01-01T09:00:00Z",
    T.TimestampNTZType: "a timestamp like 2026-01-01T09:00:00, without an offset",
}
_UNITS = {9: "s", 12: "ms", 15: "us", 18: "ns"}
"""Of numbers with so many digits or one more, the unit in which they are times of this century."""


def can_be_time(target: T.DataType, found: T.DataType, how: Reading) -> bool:
    """True if values are texts, or numbers of a declared form, that are read as dates or times."""
    is_number = isinstance(found, T.NumericType) and bool(how.forms)
    return isinstance(target, TIMES) and (isinstance(found, T.StringType) or is_number)


def number_of(column: str, target: T.DataType) -> str:
    """The declaration of a source whose times are numbers, as what follows a sentence; empty for columns of other
    types."""
    if not isinstance(target, (T.DateType, T.TimestampType)):
        return ""
    unit = "d" if isinstance(target, T.DateType) else "ms"
    return f'; if it counts from 1970, declare formats={{{json.dumps(column)}: Epoch("{unit}")}}'


def read_time(value: Column, found: T.DataType, target: T.DataType, how: Reading) -> Column:
    """A text or a number as a date, an instant or a local time.

    Null when it is none, or has digits that the type does not keep.
    """
    if how.forms:
        return F.coalesce(*(_formed(value, found, form, target, how) for form in how.forms))
    if isinstance(target, T.DateType):
        return F.when(value.rlike(_DATE), value.try_cast(target))
    time = _cut(value, target, how)
    return time if how.rounds else F.when(~value.rlike(_BELOW_MICROSECONDS), time)


def _cut(text: Column, target: T.DataType, how: Reading) -> Column:
    """A time in the form of ISO 8601, cut to microseconds."""
    time = _iso(text, target)
    if not how.timezone or not isinstance(target, T.TimestampType):
        return time
    return F.coalesce(time, instant(_iso(text, T.TimestampNTZType()), how))


def _iso(text: Column, target: T.DataType) -> Column:
    with_seconds = F.regexp_replace(text, _WITHOUT_SECONDS, "$1:00$2")
    time = F.when(text.rlike(_TIMES[type(target)]), with_seconds.try_cast(target))
    if not isinstance(target, T.TimestampType):
        return time
    return F.when(~_may_be_beyond(text) | in_years(F.unix_micros(time)), time)


def _may_be_beyond(text: Column) -> Column:
    """True if a text begins with a day whose times an offset can lead out of the years that dates have."""
    return text.startswith("0001-01-01") | text.startswith("9999-12-31")


def _formed(value: Column, found: T.DataType, form: Reader, target: T.DataType, how: Reading) -> Column:
    """A value of one form; null when it is of another one."""
    if isinstance(form, Epoch):
        return of_epoch(value, found, form, target, rounds=how.rounds)
    text = as_text(value, found)
    if isinstance(target, T.DateType):
        if not form.has_time:
            return day_of(text, form)
        local = time_of(text, form, T.TimestampNTZType(), rounds=False)
        day = local.cast("date")
        return F.when(day.cast(T.TimestampNTZType()) == local, day)
    time = time_of(text, form, target, rounds=how.rounds)
    is_local = isinstance(target, T.TimestampType) and not form.has_offset
    return instant(time, how) if is_local else time


# --------------------------------------------------------------------------------------------------------- local times


def local_time(value: Column, found: T.DataType, how: Reading) -> Column:
    """The local time that a raw value is, which is a text, a number of a declared form or a local time of Parquet."""
    if isinstance(found, T.TimestampNTZType):
        return value
    if not how.forms:
        return _iso(value, T.TimestampNTZType())
    local = [form for form in how.forms if isinstance(form, Pattern) and not form.has_offset]
    text, nothing = as_text(value, found), F.lit(None).cast(T.TimestampNTZType())
    return F.coalesce(*(time_of(text, form, T.TimestampNTZType(), rounds=how.rounds) for form in local), nothing)


def instant(local: Column, how: Reading) -> Column:
    """The instant at which clocks of a zone show a local time; null when they skip it. Of two it is the one that is
    stated."""

    def of(at: Column) -> Column:
        found = _first(at, how)
        is_shown = (_shown(found, how) == at) & ~_is_beyond(at, found)
        if how.repeated == REJECT:
            is_shown &= _second(at, found, how).isNull()
        if how.repeated == SECOND:
            return F.when(is_shown, F.coalesce(_second(at, found, how), found))
        return F.when(is_shown, found)

    return bind_column(_as_utc(local), of)


def _as_utc(local: Column) -> Column:
    """A local time as the instant at which clocks of UTC show it: sessions are held to UTC, so that nothing changes."""
    return local.cast(T.TimestampType())


def _first(at: Column, how: Reading) -> Column:
    """The first instant at which clocks of a zone show a local time: Spark takes the earlier offset where they go back.
    Where they go forward it moves the time by what they skip."""
    # `convert_timezone` says the same, and looks for its zones once for each record.
    return F.to_utc_timestamp(at, how.timezone)


def _is_beyond(at: Column, instant: Column) -> Column:
    """True if the instant of a local time is outside the years that dates have."""
    return ~(at.between(F.lit(_INNER[0]), F.lit(_INNER[1])) | in_years(F.unix_micros(instant)))


def _shown(at: Column, how: Reading) -> Column:
    """The local time that clocks of a zone show at an instant."""
    return F.from_utc_timestamp(at, how.timezone)


def _second(at: Column, first: Column, how: Reading) -> Column:
    """The second instant at which clocks of a zone show a local time that they do not skip; null when they show it
    once."""
    found = F.lit(None).cast(T.TimestampType())
    # The clock of a day later has the offset of the second time; close to another change that of three hours later.
    for hours in (3, 25):
        later = first + F.expr(f"INTERVAL {hours} HOURS")
        second = at + (later - _shown(later, how))
        is_one = (second > first) & (_shown(second, how) == at)
        found = F.coalesce(found, F.when(is_one, second))
    return found


def is_shown_twice(value: Column, found: T.DataType, how: Reading) -> Column:
    """True if a raw value is a time without an offset that clocks of the zone show twice."""
    if not isinstance(found, T.TimestampNTZType) and not can_be_time(T.TimestampType(), found, how):
        return F.lit(False)

    def of(at: Column) -> Column:
        first = _first(at, how)
        return (_shown(first, how) == at) & _second(at, first, how).isNotNull()

    return F.coalesce(bind_column(_as_utc(local_time(value, found, how)), of), F.lit(False))


# ------------------------------------------------------------------------------------------------------------- reasons


def shown_twice(name: str, value: Column, found: T.DataType, how: Reading, *, is_declared: bool) -> Column:
    """The sentence about a time that clocks show twice, where it has to tell records apart; null for others.

    Args:
        is_declared: Whether its source declares that such times are rejected.
    """
    zone = how.timezone
    why = f"{name} is a time that clocks in {zone} show twice, and has no offset that tells which one it is"
    why += "" if is_declared else "; declare repeated_hour"
    return F.when(is_shown_twice(value, found, how), quoting(F.lit(why), shown(value, found)))


def time_complaint(name: str, value: Column, found: T.DataType, target: T.DataType, how: Reading) -> Column:
    """The sentence about a value that is no date and no time of its column: what it is, or what to declare."""
    text = shown(value, found)
    if how.forms and can_be_time(target, found, how):
        known = _of_forms(name, value, found, target, how)
    else:
        known = _of_iso(name, text, target, how)
    if isinstance(target, T.TimestampType) and how.timezone:
        local = local_time(value, found, how)
        at = _as_utc(local)
        why = F.when(_is_beyond(at, _first(at, how)), F.lit(f"{name} does not fit {target.simpleString()}"))
        why = why.otherwise(F.lit(f"{name} is a time that clocks in {how.timezone} skip"))
        known = F.coalesce(F.when(local.isNotNull() & instant(local, how).isNull(), why), known)
    return quoting(known, text)


def _of_iso(name: str, text: Column, target: T.DataType, how: Reading) -> Column:
    forms = [_DATE] if isinstance(target, T.DateType) else [_TIMES[type(target)]]
    if isinstance(target, T.TimestampType) and how.timezone:
        forms.append(_TIMES[T.TimestampNTZType])
    is_written = reduce(lambda left, right: left | right, (text.rlike(form) for form in forms))
    is_of_no_day = is_written & F.substring(text, 1, 10).try_cast("date").isNull()
    said = F.when(is_of_no_day, F.lit(f"{name} is a date that does not exist"))
    if not isinstance(target, T.DateType):
        has_digits = _cut(text, target, how).isNotNull() | (is_written & _may_be_beyond(text))
        said = said.when(has_digits, F.lit(f"{name} does not fit {target.simpleString()}"))
    demand = "a timestamp" if isinstance(target, T.TimestampType) and how.timezone else _DEMANDS[type(target)]
    mark = mark_to_declare(text, target, how.csv)
    way_out = F.when(mark != "", mark).otherwise(_way_out(name, text, target, how))
    return said.otherwise(F.concat(F.lit(f"{name} is not {demand}"), way_out))


def _way_out(name: str, text: Column, target: T.DataType, how: Reading) -> Column:
    """The declaration for a source whose times look like a text; empty where it looks like none."""
    unit = F.lit("d" if isinstance(target, T.DateType) else "s")
    for digits, known in _UNITS.items():
        unit = F.when(F.length(F.regexp_extract(text, "[0-9]+", 0)) >= digits, F.lit(known)).otherwise(unit)
    column = json.dumps(name)
    as_epoch = F.concat(F.lit(f'; if it counts from 1970, declare formats={{{column}: Epoch("'), unit, F.lit('")}'))
    as_number = F.when(is_number(text) & F.lit(not isinstance(target, T.TimestampNTZType)), as_epoch)
    of_iso = F.when(F.lit(False), F.lit(""))
    if not isinstance(target, T.DateType):
        of_iso = of_iso.when(text.rlike(_DATE), F.lit("; a date has no time of day: make the column a DATE"))
    if isinstance(target, T.TimestampType) and not how.timezone:
        of_iso = of_iso.when(text.rlike(_TIMES[T.TimestampNTZType]), F.lit("; it has no offset: declare its timezone"))
    likely = how_to_declare(name, text, target, has_zone=bool(how.timezone))
    unknown = F.when(text.rlike("[0-9].*[0-9]"), F.lit("; declare its form, which `sniff` proposes for its file"))
    return F.coalesce(of_iso, likely, as_number, unknown, F.lit(""))


def _of_forms(name: str, value: Column, found: T.DataType, target: T.DataType, how: Reading) -> Column:
    text, kind = as_text(value, found), target.simpleString()
    said = F.when(F.lit(False), F.lit(""))
    for form in how.forms:
        if isinstance(form, Epoch):
            is_epoch = F.lit(isinstance(found, T.NumericType)) | is_number(text)
            said = said.when(is_epoch, F.lit(f"{name} does not fit {kind} as {named(form)}"))
            continue
        day, time = day_of(text, form), time_of(text, form, T.TimestampNTZType(), rounds=True)
        known = F.when(day.isNull(), _no_day(name, text, form))
        if form.has_time:
            known = known.when(time.isNull(), F.lit(f"{name} is a time that does not exist as {named(form)}"))
        if form.has_time and isinstance(target, T.DateType):
            known = known.when(day.isNotNull(), F.lit(f"{name} has a time of day, and its column is a date"))
        said = said.when(is_of(text, form), known.otherwise(F.lit(f"{name} does not fit {kind}")))
    declared = " or ".join(dict.fromkeys(map(named, how.forms)))
    mark = mark_to_declare(text, target, how.csv)
    likely = how_to_declare(name, text, target, has_zone=bool(how.timezone))
    way_out = F.when(mark != "", mark).otherwise(F.coalesce(likely, F.lit("")))
    return said.otherwise(F.concat(F.lit(f"{name} is not written as {declared}"), way_out))


_DAY_OR_MONTH = re.compile(r"'(?:[^']|'')*'|M+|d+")
"""In a form: quoted text, and the letters of months and days."""


def _no_day(name: str, text: Column, form: Pattern) -> Column:
    """The sentence about a text of a form whose day no calendar has; day and month may have changed places in it."""
    said = F.lit(f"{name} is a date that does not exist as {named(form)}")
    letters = {"M": "d", "d": "M"}
    exchanged = _DAY_OR_MONTH.sub(lambda found: letters.get(found[0][0], found[0]) * len(found[0]), form.text)
    if exchanged == form.text or "MMM" in form.text or "[" in form.text or not (form.has("day") and form.has("month")):
        return said
    (other,) = patterns_of(exchanged)
    meant = F.lit(f"; as {exchanged!r} it is one")
    return F.concat(said, F.when(day_of(text, other).isNotNull(), meant).otherwise(""))
