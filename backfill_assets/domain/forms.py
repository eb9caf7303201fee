"""Forms: how the dates and times of a column are written, and the mistakes in what is declared of that.

Several forms of a column are tried in order, so no text may be another time in a later one. That is found by
construction: each form writes many times, and the others read what it wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import combinations
from zoneinfo import ZoneInfo

from pyspark.sql import types as T

from backfill_assets.domain.dialects import Epoch, Form
from backfill_assets.planning.patterns import NoPattern, Pattern, patterns_of

Reader = Pattern | Epoch

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (of UTC, as everything that is compared here)
_NUMBER = re.compile("[+-]?[0-9]{1,19}")


def forms_of(declared: Form | tuple[Form, ...]) -> tuple[Form, ...]:
    """The forms of a column, in the order in which they are tried."""
    return declared if isinstance(declared, tuple) else (declared,)


def readers_of(declared: Form | tuple[Form, ...]) -> tuple[Reader, ...]:
    """The readers of a column's texts, in order: a pattern with brackets is several.

    Raises:
        NoPattern: A form is no pattern.
    """
    found: list[Reader] = []
    for form in forms_of(declared):
        found += [form] if isinstance(form, Epoch) else patterns_of(form)
    return tuple(found)


def named(form: Reader | Form) -> str:
    """A form as a sentence names it: as it is declared."""
    if isinstance(form, Epoch):
        return f"Epoch({form.unit!r})"
    return repr(form.text if isinstance(form, Pattern) else form)


def mistakes_of_forms(column: str, declared: Form | tuple[Form, ...], kind: T.DataType, zone: str) -> Iterator[str]:
    """The mistakes in the forms of a column, as what follows the name of its table.

    Args:
        kind: The type of the column.
        zone: The time zone that its source declares; empty without one.
    """
    readers: list[Reader] = []
    for form in forms_of(declared):
        try:
            readers += readers_of(form)
        except NoPattern as error:
            yield f"formats has {named(form)} for {column!r}, and {error}"
            return
    for reader in readers:
        why = _mistake_of_epoch(reader, kind) if isinstance(reader, Epoch) else _mistake_of_type(reader, kind, zone)
        if why:
            yield f"formats has {named(reader)} for {column!r}, and {why}"
            return
    for one, other in combinations(dict.fromkeys(readers), 2):
        if text := read_differently(one, other):
            yield (
                f"formats has {named(one)} and {named(other)} for {column!r}, of which each reads {text!r} as "
                "another time: declare the one that the source writes"
            )
            return


def _mistake_of_epoch(epoch: Epoch, kind: T.DataType) -> str:
    if isinstance(kind, T.TimestampNTZType):
        return "an epoch is an instant: make the column a TIMESTAMP"
    if isinstance(kind, T.TimestampType) and epoch.unit == "d":
        return "days have no time of day: make the column a DATE"
    return ""


def _mistake_of_type(pattern: Pattern, kind: T.DataType, zone: str) -> str:
    if isinstance(kind, T.DateType):
        return ""
    if not pattern.has_time:
        return "it has no time of day: make the column a DATE"
    if isinstance(kind, T.TimestampNTZType) and pattern.has_offset:
        return "it has an offset: make the column a TIMESTAMP"
    if isinstance(kind, T.TimestampType) and not (pattern.has_offset or zone):
        return "it has no offset: declare the timezone of the source, such as timezone='UTC'"
    return ""


@lru_cache(maxsize=4096)
def read_differently(one: Reader, other: Reader) -> str:
    """A text that two forms read as different times; empty when none was found."""
    for writing, reading in ((one, other), (other, one)):
        for at in _times():
            text = _write(writing, at)
            found = _read(reading, text)
            if found is not None and found != _read(writing, text):
                return text
    return ""


def written_in(declared: Form | tuple[Form, ...], kind: T.DataType, zone: str, at: datetime) -> str:
    """An instant as the first form of a column is read: its day in UTC, of a date.

    Args:
        kind: The type of the column.
        zone: The time zone that its source declares; empty without one.
    """
    form, local = readers_of(declared)[0], at.astimezone(UTC)
    if isinstance(kind, T.DateType):
        local = local.replace(hour=0, minute=0, second=0, microsecond=0)
    elif isinstance(form, Pattern) and not form.has_offset:
        local = local.astimezone(ZoneInfo(zone))
    return _write(form, local.replace(tzinfo=None))


def _write(form: Reader, at: datetime) -> str:
    if isinstance(form, Pattern):
        return form.write(at)
    since = at - _EPOCH
    return str(since.days if form.unit == "d" else since // _MICROSECOND * PER_SECOND[form.unit] // 1_000_000)


def _read(form: Reader, text: str) -> object:
    """The time of a text, in whatever is equal for equal times; None when it is not of the form."""
    if isinstance(form, Pattern):
        return form.read(text)
    if _NUMBER.fullmatch(text) is None:
        return None
    # As a number of days, or of parts of a second, whatever its size: years behind 9999 are compared as well.
    return (form.unit, int(text))


@lru_cache(maxsize=1)
def _times() -> Sequence[datetime]:
    """Times whose parts could be taken for one another: each is small, or as large as another part can be."""
    days = [
        _EPOCH.replace(year=year, month=month, day=day)
        for year in (2001, 2002, 2003, 2010, 2011, 2012, 2020, 1999, 1010, 1101, 1102, 1212)
        for month in (1, 2, 3, 10, 11, 12)
        for day in (1, 2, 3, 11, 12, 20)
    ]
    clocks = [(1, 2, 3, 4), (2, 1, 12, 123_456), (11, 12, 10, 0), (20, 10, 11, 120_000), (0, 0, 0, 0), (13, 59, 30, 1)]
    return [
        day.replace(hour=hour, minute=minute, second=second, microsecond=micros)
        for place, day in enumerate(days)
        for hour, minute, second, micros in (clocks[place % len(clocks)], clocks[place * 5 % 7 % len(clocks)])
    ]
