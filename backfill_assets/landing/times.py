"""Times: what a text is as a date, an instant or a local time, and which instant a local time is.

A time without an offset is an instant only where the source states its time zone. Without declared forms times are
written as in ISO 8601; texts and numbers of declared forms are read in `written_times`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain.dialects import Epoch
from backfill_assets.domain.forms import Reader, named
from backfill_assets.landing.json_text import let
from backfill_assets.landing.likely_forms import how_to_declare
from backfill_assets.landing.likely_marks import mark_to_declare
from backfill_assets.landing.reading import REJECT, SECOND, Reading, quoting, shown
from backfill_assets.landing.written_times import as_text, day_of, in_years, is_number, is_of, of_epoch, time_of
from backfill_assets.planning.patterns import Pattern, patterns_of

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
_BELOW_MICROSECONDS = r"[.][0-9]{6}[0-9]*[1-9]"
_DEMANDS: Mapping[type[T.DataType], str] = {
    T.DateType: "a date like 2026-01-01",
    T.TimestampType: "a timestamp like 2026-01-01T09:00:00Z",
    T.TimestampNTZType: "a timestamp like 2026-01-01T09:00:00, without an offset",
}
_UNITS = {9: "s", 12: "ms", 15: "us", 18: "ns"}
"""Of numbers with so many digits or one more, the unit in which they are times of this century."""


def can_be_time(target: T.DataType, found: T.DataType, how: Reading) -> bool:
    """Whether values are texts, or numbers of a declared form, that are read as dates or times."""
    is_number = isinstance(found, T.NumericType) and bool(how.forms)
    return isinstance(target, TIMES) and (isinstance(found, T.StringType) or is_number)


def number_of(column: str, target: T.DataType) -> str:
    """What a source declares whose times are numbers, as what follows a sentence; empty for columns of other types."""
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
    """Whether a text begins with a day whose times an offset can lead out of the years that dates have."""
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

    return let(_as_utc(local), of)


def _as_utc(local: Column) -> Column:
    """A local time as the instant at which clocks of UTC show it: sessions are held to UTC, so that nothing changes."""
    return local.cast(T.TimestampType())


def _first(at: Column, how: Reading) -> Column:
    """The first instant at which clocks of a zone show a local time: Spark takes the earlier offset where they go back.
    Where they go forward it moves the time by what they skip."""
    # `convert_timezone` says the same, and looks for its zones once for each record.
    return F.to_utc_timestamp(at, how.timezone)


def _is_beyond(at: Column, instant: Column) -> Column:
    """Whether the instant of a local time is of none of the years that dates have."""
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
    """Whether a raw value is a time without an offset that clocks of the zone show twice."""
    if not isinstance(found, T.TimestampNTZType) and not can_be_time(T.TimestampType(), found, how):
        return F.lit(False)

    def of(at: Column) -> Column:
        first = _first(at, how)
        return (_shown(first, how) == at) & _second(at, first, how).isNotNull()

    return F.coalesce(let(_as_utc(local_time(value, found, how)), of), F.lit(False))


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
    """What a source declares whose times look like a text; empty where it looks like none."""
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
