"""Times: what a text is as a date, an instant or a local time, and which instant a local time is.

A time without an offset is an instant only where the source states its time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.landing.reading import Reading, quoting, shown

_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
# Spark's own cast also takes a bare date, a missing offset and the name of a zone, all of which leave the instant open.
_LOCAL = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
_TIMES: Mapping[type[T.DataType], str] = {
    T.TimestampType: _LOCAL + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)\z",
    T.TimestampNTZType: _LOCAL + r"\z",
}
_WITHOUT_SECONDS = r"\A(.{16})([Z+-])"
_BELOW_MICROSECONDS = r"[.][0-9]{6}[0-9]*[1-9]"


def time_of_text(text: Column, target: T.DataType, how: Reading) -> Column:
    """A text as a date, an instant or a local time; null when it is none, or has digits that the type does not keep."""
    if isinstance(target, T.DateType):
        return F.when(text.rlike(_DATE), text.try_cast(target))
    time = cut_time(text, target, how)
    return time if how.rounds else F.when(~text.rlike(_BELOW_MICROSECONDS), time)


def cut_time(text: Column, target: T.DataType, how: Reading) -> Column:
    """A time, cut to microseconds; an instant without an offset is the local time of a zone, if there is one."""
    time = _time(text, target)
    if not how.timezone or not isinstance(target, T.TimestampType):
        return time
    return F.coalesce(time, instant(_time(text, T.TimestampNTZType()), how.timezone))


def _time(text: Column, target: T.DataType) -> Column:
    with_seconds = F.regexp_replace(text, _WITHOUT_SECONDS, "$1:00$2")
    return F.when(text.rlike(_TIMES[type(target)]), with_seconds.try_cast(target))


def local_time(value: Column, found: T.DataType) -> Column:
    """The local time that a raw value is, which is a text or a local time of Parquet."""
    return value if isinstance(found, T.TimestampNTZType) else _time(value, T.TimestampNTZType())


def instant(local: Column, timezone: str) -> Column:
    """The first instant at which clocks of a zone show a local time; null when they skip it."""
    zone, utc = F.lit(timezone), F.lit("UTC")
    # Where clocks go back Spark takes the earlier offset; where they go forward it moves the time by what they skip.
    found = F.convert_timezone(zone, utc, local)
    # Sessions are held to UTC, so that the cast changes nothing.
    return F.when(F.convert_timezone(utc, zone, found) == local, found.cast(T.TimestampType()))


def is_shown_twice(value: Column, found: T.DataType, how: Reading) -> Column:
    """Whether a raw value is a time without an offset that clocks of the zone show twice."""
    if not isinstance(found, (T.StringType, T.TimestampNTZType)):
        return F.lit(False)
    local = local_time(value, found)
    zone, utc = F.lit(how.timezone), F.lit("UTC")
    first = F.convert_timezone(zone, utc, local)
    is_shown = F.convert_timezone(utc, zone, first) == local
    # The clock of a day later has the offset of the second time; close to another change that of three hours later.
    again = F.lit(False)
    for hours in (3, 25):
        later = first + F.expr(f"INTERVAL {hours} HOURS")
        back = later - F.convert_timezone(utc, zone, later)
        second = local + back
        again = again | ((second > first) & (F.convert_timezone(utc, zone, second) == local))
    return F.coalesce(is_shown & again, F.lit(False))


def shown_twice(name: str, value: Column, found: T.DataType, how: Reading) -> Column:
    """The sentence about a time that clocks show twice, where it has to tell records apart; null for others."""
    zone = how.timezone
    why = f"{name} is a time that clocks in {zone} show twice, and has no offset that tells which one it is"
    return F.when(is_shown_twice(value, found, how), quoting(F.lit(why), shown(value, found)))


def is_skipped(text: Column, how: Reading) -> Column:
    """Whether a text is a local time that clocks of the zone do not show."""
    local = local_time(text, T.StringType())
    return F.coalesce(local.isNotNull() & instant(local, how.timezone).isNull(), F.lit(False))


def is_of_no_day(text: Column, target: T.DataType, how: Reading) -> Column:
    """Whether a text is written as a date, or as a time that the type takes, of a day that no calendar has."""
    forms = [_DATE] if isinstance(target, T.DateType) else [_TIMES[type(target)]]
    if isinstance(target, T.TimestampType) and how.timezone:
        forms.append(_TIMES[T.TimestampNTZType])
    is_written = reduce(lambda left, right: left | right, (text.rlike(form) for form in forms))
    return F.coalesce(is_written & F.substring(text, 1, 10).try_cast("date").isNull(), F.lit(False))
