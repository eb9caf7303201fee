"""What a public file looks like, what has to be declared of it, and what pandas reads in it."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

RECORDS = 40


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A file that anybody can download, as far as its form goes."""

    name: str  #: Of the shape, and of the table that it becomes.
    file: str  #: What it is called; the suffix says what it is taken for.
    like: str  #: A public file that looks like this.
    write: Callable[[], bytes]  #: Its bytes.
    #: What pandas reads in it: one row per record that can land, one column per column of the file, under the names
    #: that pandas gives them. A column that is made of several has the name of the contract's.
    pandas: Callable[[Path], pd.DataFrame]
    key: tuple[str, ...] = ()  #: What `sniff` proposes; nothing stands for the number of the row.
    event_time: str  #: Likewise.
    #: Likewise, the lines besides name, key, event time (with the zone of its clocks) and columns.
    declared: tuple[str, ...] = ()
    zone: bool = False
    rejected: int = 0  #: How many records cannot land.


def made(name: str) -> random.Random:
    """The same numbers for the same shape, in every process."""
    return random.Random(name)


def days_from(first: date, *, step: int = 1, count: int = RECORDS) -> list[date]:
    return [first + timedelta(days=step * number) for number in range(count)]


def months_from(year: int, month: int = 1, *, count: int = RECORDS) -> list[date]:
    return [date(year + (month - 1 + number) // 12, (month - 1 + number) % 12 + 1, 1) for number in range(count)]


def times_from(first: datetime, *, minutes: int, count: int = RECORDS) -> list[datetime]:
    return [first + timedelta(minutes=minutes * number) for number in range(count)]


def irregular(draw: random.Random, first: datetime, *, count: int = RECORDS) -> list[datetime]:
    """Times as people make them: seconds or minutes apart, some of them at once."""
    found = [first]
    while len(found) < count:
        found.append(found[-1] + timedelta(seconds=draw.choice((0, 7, 41, 300, 1234))))
    return found


def comma(rows: Iterable[Sequence[object]], *, end: str = "\n", quoting: int = csv.QUOTE_MINIMAL) -> str:
    """Rows as Python's own CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


def joined(rows: Iterable[Sequence[object]], *, by: str, end: str = "\n") -> str:
    """Rows as programs write them that quote nothing."""
    return "".join(by.join("" if value is None else str(value) for value in row) + end for row in rows)


def dates(frame: pd.DataFrame, **formats: str) -> pd.DataFrame:
    """Columns of days and local times, read by these formats."""
    return as_dates(frame, formats)


def as_dates(frame: pd.DataFrame, formats: Mapping[Any, str]) -> pd.DataFrame:
    """The same for names that Python has no words for."""
    for column, form in formats.items():
        frame[column] = pd.to_datetime(frame[column].astype(str), format=form)
    return frame


def read_by_pandas(
    formats: Mapping[Any, str] | None = None,
    together: Mapping[str, tuple[Sequence[Any], str]] | None = None,
    units: Mapping[Any, Any] | None = None,
    **options: Any,
) -> Callable[[Path], pd.DataFrame]:
    """What `pandas.read_csv` reads with some options.

    Args:
        formats: How columns are dates or times.
        together: Columns that are made of several, joined by blanks, and how these are dates or times.
        units: Of numbers since 1970.
        options: Of `read_csv`.
    """

    def read(path: Path) -> pd.DataFrame:
        frame: pd.DataFrame = pd.read_csv(path, **options)
        frame.columns = pd.Index([each.strip() if isinstance(each, str) else each for each in frame.columns])
        for name, (parts, form) in (together or {}).items():
            rows = zip(*(frame[part].astype(str).str.strip() for part in parts), strict=True)
            frame[name] = pd.to_datetime(pd.Series([" ".join(row) for row in rows], index=frame.index), format=form)
        for column, form in (formats or {}).items():
            frame[column] = pd.to_datetime(frame[column].astype(str), format=form)
        for column, unit in (units or {}).items():
            frame[column] = pd.to_datetime(frame[column], unit=unit)
        return frame

    return read


def as_it_is(*, keep: Sequence[str] = ("",)) -> dict[str, Any]:
    """Options of pandas with which only these texts are no value."""
    return {"keep_default_na": False, "na_values": list(keep)}
