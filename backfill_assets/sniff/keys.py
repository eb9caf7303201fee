"""Keys: which columns tell every record from every other, and which times could be the one of a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise

_ID = re.compile(r"(^|_|\b)(id|uuid|guid|key|code|no|nr|number|identifier|isbn|sku|symbol|ticker)$", re.IGNORECASE)
_CAMEL_ID = re.compile(r"[a-z](Id|ID|Key|Code|No|Nr)$")
_NOT_ID = re.compile(r"(zip|postal|post)_?code$|(^|_)(phone|fax|house)_?(no|nr|number)$", re.IGNORECASE)
_EVENT = (
    re.compile(r"^(event_?)?(time|timestamp|datetime|at|ts)$|event_?(time|date|at)$", re.IGNORECASE),
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
_MOST_KEYS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a sample, as far as keys go."""

    name: str
    kind: str
    values: Sequence[str | None]

    @property
    def is_complete(self) -> bool:
        """Whether every record has a value of a type that can identify it."""
        return self.kind in _IDENTIFYING and all(value is not None and value.strip() for value in self.values)


def is_id(name: str) -> bool:
    """Whether a name is usual for what identifies something."""
    return bool(_ID.search(name) or _CAMEL_ID.search(name)) and not _NOT_ID.search(name)


def time_rank(name: str) -> int:
    """How usual a name is for the time of an event: 0 the most."""
    rank = next((place for place, each in enumerate(_EVENT) if each.search(name)), len(_EVENT))
    return rank + (3 if _NOT_EVENT.search(name) else 0)


def is_order(name: str) -> bool:
    """Whether a name is usual for what orders versions of a key."""
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
    named = {column.name: column for column in complete}
    ids = [column for column in complete if is_id(column.name) and column.name != event_time]
    yield from ((column.name,) for column in ids if _is_unique([column]))
    first = complete[0] if complete else None
    if first is not None and first.name != event_time and _is_numbering(first) and _is_unique([first]):
        yield (first.name,)
    low = [column for column in complete if column.name != event_time and _is_dimension(column)]
    times = [named[event_time]] if event_time in named else []
    yield from _smallest(ids, ids, 3)
    if times and is_series and _is_unique(times):
        yield (event_time,)
    yield from _smallest(ids, [each for each in low if each not in ids], 2)
    if times and (is_series or times[0].kind == "DATE"):
        for among in ([*ids, *(each for each in low if each not in ids)],):
            for count in (1, 2, 3):
                for chosen in combinations(_in_order(among, complete)[:_MOST_COLUMNS], count):
                    if _is_unique([*chosen, *times]):
                        yield (*(each.name for each in chosen), event_time)
                        break
                else:
                    continue
                break


def _smallest(ids: Sequence[Column], others: Sequence[Column], most: int) -> Iterator[tuple[str, ...]]:
    """The smallest set of an identifier and other columns that tells records apart."""
    for count in range(1, most):
        for one in ids[:_MOST_COLUMNS]:
            for more in combinations([each for each in others if each is not one][:_MOST_COLUMNS], count):
                if _is_unique([one, *more]):
                    yield tuple(each.name for each in (one, *more))
                    return


def _in_order(chosen: Sequence[Column], complete: Sequence[Column]) -> list[Column]:
    places = {column.name: place for place, column in enumerate(complete)}
    return sorted(chosen, key=lambda column: (not is_id(column.name), places[column.name]))


def _is_numbering(column: Column) -> bool:
    """Whether a first column is a number that counts up, or a short text that is another one in each record."""
    if column.kind == "LONG":
        numbers = [int(value) if value and value.isdigit() else -2 * place for place, value in enumerate(column.values)]
        return all(b - a == 1 for a, b in pairwise(numbers))
    return column.kind == "STRING" and all(
        len(value or "") <= 20 and " " not in (value or "") for value in column.values
    )


def _is_dimension(column: Column) -> bool:
    """Whether a column has few different, short values."""
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
    """Whether times that differ follow each other in regular steps, such as days, hours or months."""
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
