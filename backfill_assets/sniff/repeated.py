"""Repeated: an hour that a file has twice, as clocks showed it, and the key of which its times are a part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import compress
from zoneinfo import ZoneInfo

from backfill_assets.sniff.keys import Column, is_series, keys_of

_ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Europe/London",
    "Europe/Helsinki",
    "Australia/Sydney",
    "Pacific/Auckland",
)
"""One of each rule by which clocks go back."""


def key_of_clocks(
    columns: Sequence[Column], event_time: str, times: Sequence[datetime]
) -> tuple[tuple[str, ...], str, datetime] | None:
    """The key of records of which one hour is there twice, a zone whose clocks show it so, and its first time.

    Args:
        times: The event time of each record, without an offset.

    Returns:
        None where records have no such key, or other times are there twice.
    """
    for zone in _ZONES:
        is_shown = [_is_shown_twice(at, ZoneInfo(zone)) for at in times]
        if not any(is_shown):
            continue
        is_other = [not each for each in is_shown]
        others = [Column(name=c.name, kind=c.kind, values=list(compress(c.values, is_other))) for c in columns]
        for key in keys_of(others, event_time, is_series=is_series(list(compress(times, is_other)))):
            chosen = [each for each in columns if each.name in key]
            if sum(each.kind == "TIMESTAMP" for each in chosen) != 1 or event_time not in key:
                continue
            rows = list(zip(*(each.values for each in chosen), strict=True))
            counts = Counter(rows)
            if all(counts[row] == 1 + shown for row, shown in zip(rows, is_shown, strict=True)):
                return key, zone, min(compress(times, is_shown))
    return None


def _is_shown_twice(at: datetime, zone: ZoneInfo) -> bool:
    """True if clocks that go back show a time twice."""
    first, second = (at.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second
