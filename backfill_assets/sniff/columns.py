"""Columns: the type of each column of a sample, from its texts, and the forms of its times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from backfill_assets.domain.dialects import Epoch, Form, Unit
from backfill_assets.domain.file_names import FileName
from backfill_assets.sniff.keys import is_id, time_rank
from backfill_assets.sniff.texts import PLAIN, Numbers, is_whole, kind_of_numbers, truths_of
from backfill_assets.sniff.times import MONTHS_FIRST, TimeForm, time_form

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
    is_local: bool = False  #: Whether it has times without an offset, where the file itself says that they are times.
    is_text: bool = False  #: Whether its digits are texts in JSON.
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
