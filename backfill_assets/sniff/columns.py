"""Columns: the type of each column of a sample, from its texts, the forms of its times, and which columns could be the
key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import combinations, pairwise
from math import prod

from backfill_assets.domain.source_files import Epoch, FileName, Form, Unit
from backfill_assets.sniff.texts import (
    MONTHS_FIRST,
    PLAIN,
    Numbers,
    TimeForm,
    is_whole,
    kind_of_numbers,
    time_form,
    truths_of,
)

# Keys: which columns tell every record from every other, and which times could be the one of a record.

_ID = re.compile(
    r"(^|_|\b)(id|oid|uuid|guid|key|code|cd|no|nr|num|number|identifier|isbn|sku|symbol|ticker|station|stn|sensor)$",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r"[a-z](Id|ID|Key|Code|No|Nr)$|ID$")
_NOT_ID = re.compile(r"(zip|postal|post)_?code$|(^|_)(phone|fax|house)_?(no|nr|number)$", re.IGNORECASE)
_DATE_PART = re.compile(
    r"(^|_)(year|month|day|week|quarter|jahr|monat|tag)($|_)|day_?of_?(week|month|year)", re.IGNORECASE
)
_CODE = re.compile(r"(?=.*[0-9])[^\s]{1,20}")
_EVENT = (
    re.compile(r"^(unix|epoch)|^(event_?)?(time|timestamp|datetime|at|ts)$|event_?(time|date|at)$", re.IGNORECASE),
    re.compile(r"(^|_)(date|day|datum|month|week)(_?time)?$|^date_|date$|day$", re.IGNORECASE),
    re.compile(
        r"creat|start|pickup|order|occur|observ|measur|record|invoice|sold|report|receiv|book|open|release|begin",
        re.IGNORECASE,
    ),
    re.compile(r"_(at|on|ts|time|date)$|time|year", re.IGNORECASE),
)
_NOT_EVENT = re.compile(
    r"updat|modif|chang|end|stop|drop|due|birth|expir|close|deliver|until|valid|load|ingest|delet", re.IGNORECASE
)
_ORDER = re.compile(r"updat|modif|version|revision|lsn|sequence|(^|_)seq($|_)|offset", re.IGNORECASE)
_IDENTIFYING = ("STRING", "LONG", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(20,0)", "DECIMAL(38,0)")
_MOST_CHARACTERS = 60
_MOST_COLUMNS = 8
_MOST_KEYS = 3
_LEAST_FILLED = 0.6
"""Of the combinations of a dimension and a time, so many are there where the two identify records on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a sample, as far as keys go."""

    name: str
    kind: str
    values: Sequence[str | None]

    @property
    def is_complete(self) -> bool:
        """True if every record has a value of a type that can identify it."""
        return self.kind in _IDENTIFYING and all(value is not None and value.strip() for value in self.values)


def is_id(name: str) -> bool:
    """True if a name is usual for an identifier."""
    return bool(_ID.search(name) or _CAMEL_ID.search(name)) and not _NOT_ID.search(name)


def time_rank(name: str) -> int:
    """The rank of a name among those usual for the time of an event: 0 the most usual."""
    rank = next((place for place, each in enumerate(_EVENT) if each.search(name)), len(_EVENT))
    return rank + (3 if _NOT_EVENT.search(name) else 0)


def is_order(name: str) -> bool:
    """True if a name is usual for a column that orders versions of a key."""
    return _ORDER.search(name) is not None


def keys_of(columns: Sequence[Column], event_time: str, *, is_series: bool) -> list[tuple[str, ...]]:
    """Keys that tell all records of a sample apart, the likeliest first.

    Args:
        is_series: Whether event times follow each other in regular steps, as far as they are different.
    """
    complete = [column for column in columns if column.is_complete]
    found: list[tuple[str, ...]] = []
    for key in _keys(complete, event_time, is_series=is_series):
        if not any(set(known) <= set(key) for known in found):
            found.append(key)
    return found[:_MOST_KEYS]


def _keys(complete: Sequence[Column], event_time: str, *, is_series: bool) -> Iterator[tuple[str, ...]]:
    others = [column for column in complete if column.name != event_time]
    ids = [column for column in others if is_id(column.name)]
    # Of a file of one station the station is a part of the key, because the next file may be of another one.
    constant = [column.name for column in ids if _is_constant(column) and not column.name.lower().endswith("cd")]
    ids = [column for column in ids if not _is_constant(column)]
    if len(others[0].values if others else ()) == 1:
        yield from ((column.name,) for column in others if is_id(column.name))
    yield from ((column.name,) for column in ids if _is_unique([column]))
    if others and others[0] is complete[0] and _is_numbering(others[0]) and _is_unique(others[:1]):
        yield (others[0].name,)
    low = [column for column in others if _is_dimension(column) and column not in ids]
    parts = [column for column in low if not _DATE_PART.search(column.name)]
    yield from _smallest(ids, ids, 3)
    # Not of a panel, whose identifiers are in many records each.
    yield from _smallest([each for each in ids if len(set(each.values)) * 3 >= len(each.values)], parts, 2)
    times = [column for column in complete if column.name == event_time]
    if not times or not (is_series or times[0].kind == "DATE"):
        return
    if is_series and _is_unique(times):
        yield (*constant, event_time)
    for among, most in ((ids, 3), ([*ids, *parts], 2), (low, 1)):
        for count in range(1, most + 1):
            for chosen in combinations(among[:_MOST_COLUMNS], count):
                named = all(each in ids for each in chosen)
                if _is_unique([*chosen, *times]) and (named or _is_grid([*chosen, *times])):
                    yield (*constant, *(each.name for each in chosen), event_time)
                    return


def _smallest(ids: Sequence[Column], others: Sequence[Column], most: int) -> Iterator[tuple[str, ...]]:
    """The smallest set of an identifier and other columns that tells records apart."""
    for count in range(1, most):
        for one in ids[:_MOST_COLUMNS]:
            for more in combinations([each for each in others if each is not one][:_MOST_COLUMNS], count):
                if _is_unique([one, *more]):
                    yield tuple(each.name for each in (one, *more))
                    return


def _is_grid(columns: Sequence[Column]) -> bool:
    """True if most combinations of the values of some columns are there, which is no accident."""
    return len(columns[0].values) >= _LEAST_FILLED * prod(len(set(column.values)) for column in columns)


def _is_numbering(column: Column) -> bool:
    """True if a first column is a number that counts up, or a short code that differs in each record."""
    if column.kind == "LONG":
        numbers = [int(value) if value and value.isdigit() else -2 * place for place, value in enumerate(column.values)]
        return all(b - a == 1 for a, b in pairwise(numbers))
    return column.kind == "STRING" and all(_CODE.fullmatch(value or "") for value in column.values)


def _is_constant(column: Column) -> bool:
    return len(column.values) > 1 and len(set(column.values)) == 1


def _is_dimension(column: Column) -> bool:
    """True if a column has few different, short values."""
    if column.kind not in ("STRING", "LONG", "BOOLEAN"):
        return False
    different = len(set(column.values))
    return 1 < different <= max(2, len(column.values) // 2) and all(
        len(value or "") <= _MOST_CHARACTERS for value in column.values
    )


def _is_unique(columns: Sequence[Column]) -> bool:
    rows = list(zip(*(column.values for column in columns), strict=True))
    return len(set(rows)) == len(rows) > 1


def is_series(times: Sequence[datetime]) -> bool:
    """True if times that differ follow each other in regular steps, such as days, hours or months."""
    distinct = sorted(set(times))
    if len(distinct) < 3:
        return False
    steps = Counter(_step(a, b) for a, b in pairwise(distinct))
    return steps.most_common(1)[0][1] >= 0.9 * (len(distinct) - 1)


def _step(before: datetime, after: datetime) -> float:
    """The seconds between two times; equal for months, quarters and years of whatever length."""
    months = (after.year - before.year) * 12 + after.month - before.month
    if before.day == after.day and before.time() == after.time() and months:
        return -float(months)
    return (after - before).total_seconds()


# Columns: the type of each column of a sample, from its texts, and the forms of its times.

_UNITS: tuple[tuple[Unit, int], ...] = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
_EPOCH_BEGIN, _EPOCH_END = 631_152_000, 1_956_528_000
"""1990 and 2032: numbers of another time are more likely numbers."""

_SINCE = re.compile(r"[0-9]{1,19}(\.[0-9]+)?")
_CERTAIN_DIGITS = 13
_DATE_DIGITS = 8
_UNUSUAL_NAME = 4
_YEAR_NAME = re.compile(
    r"year|(^|_)(yr|yyyy|jahr|jaar|ano|año|anno|rok)($|_)|^(time|time_?period|period)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A column of a sample as it is written."""

    written: FileName  #: What the file calls it.
    texts: Sequence[str | None]  #: The text of each record; None where it has none.
    kind: str = ""  #: Its type, where the file itself says it.
    is_local: bool = False  #: True if it has times without an offset, where the file itself says that they are times.
    is_text: bool = False  #: True if its digits are texts in JSON.
    called: str = ""  #: What a line before the rows calls it, where the rows have no header.

    @property
    def values(self) -> list[str]:
        """The texts that are there."""
        return [text for text in self.texts if text is not None]

    @property
    def title(self) -> str:
        """Its name in the file; empty of one without."""
        match self.written:
            case str():
                return self.written
            case (str() as name, int()):
                return name
            case _:
                return self.called


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A column with its type."""

    raw: Raw
    kind: str
    form: TimeForm | None = None  #: How its times are written.
    unit: Unit | None = None  #: The unit of numbers that are times.
    fitting: int  #: How many of its values are of the type.

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that have to be declared for its times."""
        if self.unit is not None:
            return (Epoch(self.unit),)
        return self.form.patterns if self.form is not None else ()

    @property
    def is_local(self) -> bool:
        """True if it has times without an offset."""
        return self.raw.is_local or (self.form is not None and self.form.is_local)

    def times(self) -> list[datetime | None]:
        """The time of each record."""
        return [self._time(text) for text in self.raw.texts]

    def _time(self, text: str | None) -> datetime | None:
        if text is None:
            return None
        if self.unit is not None:
            whole = dict(_UNITS)[self.unit]
            begin = datetime(1970, 1, 1)  # noqa: DTZ001 - times of a sample are compared with each other
            is_number = _SINCE.fullmatch(text) is not None
            return begin + timedelta(microseconds=int(Decimal(text) * 10**6 / whole)) if is_number else None
        if self.form is not None:
            return self.form.read(text)
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            return None
        offset = found.utcoffset()
        return (found - offset).replace(tzinfo=None) if offset is not None else found


def typed(raw: Raw, how: Numbers = PLAIN) -> Typed:
    """The type of a column: one that every value has, or else a text."""
    values = raw.values
    if raw.kind or not values:
        return Typed(raw=raw, kind=raw.kind or "STRING", fitting=len(values))
    if not raw.is_text and truths_of(values) is not None and len(set(values)) > 1:
        return Typed(raw=raw, kind="BOOLEAN", fitting=len(values))
    form = time_form(values, numbers=True)
    if form is not None and form.fitting == len(values) and _is_time(raw, form):
        return Typed(raw=raw, kind="DATE" if form.is_date else "TIMESTAMP", form=form, fitting=form.fitting)
    if (unit := epoch_unit(raw)) is not None:
        return Typed(raw=raw, kind="TIMESTAMP", unit=unit, fitting=len(values))
    if raw.is_text:
        return Typed(raw=raw, kind="STRING", fitting=len(values))
    kind, fitting = kind_of_numbers(values, how)
    if kind and fitting == len(values):
        return Typed(raw=raw, kind=kind, fitting=fitting)
    return Typed(raw=raw, kind="STRING", fitting=len(values))


def _is_time(raw: Raw, form: TimeForm) -> bool:
    """True if digits that could be a date are one: of usual years, and not of an identifier."""
    if not all(text.isdigit() for text in raw.values[:100]):
        return True
    rank = time_rank(raw.title)
    if form.patterns == (MONTHS_FIRST,):
        years, days = {text[4:] for text in raw.values}, {text[:4] for text in raw.values}
        # Numbers that count up have more years than days.
        return _are_usual(years) and not is_id(raw.title) and (rank < _UNUSUAL_NAME or len(days) > len(years))
    if ("yyyyMM" in form.patterns and rank >= _UNUSUAL_NAME) or (
        is_id(raw.title) and len(raw.values[0]) > _DATE_DIGITS
    ):
        return False
    return _are_usual({text[:4] for text in raw.values})


def _are_usual(years: Iterable[str]) -> bool:
    return all("1800" <= year <= "2100" for year in years)


def plausible(column: Typed, as_of: datetime) -> Typed:
    """A column whose times are in the form without times to come, of several that fit as many of its texts."""
    form, latest = column.form, as_of.replace(tzinfo=None) + timedelta(days=1)
    if form is None or not form.others or all(at is None or at <= latest for at in column.times()):
        return column
    first, *more = form.patterns
    for each in form.others:
        others = (first, *(other for other in form.others if other != each))
        found = replace(column, form=replace(form, patterns=(each, *more), others=others))
        if all(at is None or at <= latest for at in found.times()):
            return found
    return column


def as_nearly_time(column: Typed) -> Typed | None:
    """A column of texts as times, where nearly all of them are; None of others."""
    if column.kind != "STRING" or (form := time_form(column.raw.values)) is None:
        return None
    return Typed(raw=column.raw, kind="DATE" if form.is_date else "TIMESTAMP", form=form, fitting=form.fitting)


def as_epoch(raw: Raw) -> Typed | None:
    """A column without a name as times since 1970, where its numbers could be; None of others."""
    unit = None if raw.title else epoch_unit(raw, least_digits=9)
    return None if unit is None else Typed(raw=raw, kind="TIMESTAMP", unit=unit, fitting=len(raw.values))


def epoch_unit(raw: Raw, *, least_digits: int = _CERTAIN_DIGITS) -> Unit | None:
    """The unit of numbers that are times since 1970, with fractions down to the microsecond; None of others.

    Args:
        least_digits: So many digits are of a time, also in a column that is called differently.
    """
    values = raw.values
    if not values or not all(map(_SINCE.fullmatch, values)) or is_id(raw.title):
        return None
    is_named = raw.title != "" and time_rank(raw.title) < _UNUSUAL_NAME
    if not is_named and (raw.is_text or not all(map(is_whole, values)) or min(map(len, values)) < least_digits):
        return None
    numbers = [Decimal(text) for text in values]
    fractions = [number for number in numbers if number % 1]
    for unit, whole in _UNITS:
        if all(_EPOCH_BEGIN * whole <= number < _EPOCH_END * whole for number in numbers):
            return None if any(number * 10**6 % whole for number in fractions) else unit
    return None


def as_year(raw: Raw) -> Typed | None:
    """A column of four digits as years; None of others."""
    if raw.kind not in ("", "LONG") or not _YEAR_NAME.search(raw.title):
        return None
    form = time_form(raw.values, years=True)
    if form is None or form.patterns != ("yyyy",) or not all("1500" <= text <= "2100" for text in raw.values):
        return None
    return Typed(raw=raw, kind="DATE", form=form, fitting=form.fitting)
