"""Keys: which columns tell every record from every other, and which times could be the one of a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise
from math import prod

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
