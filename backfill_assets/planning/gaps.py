"""Gaps: days between events that have none, and which of these gaps are plausible.

A short gap in a landed file is a weekend or a holiday, and its days are built as empty. A long one is more likely a
wrong clock, and one between two files may be a missing file, so a person has to confirm these.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from itertools import pairwise

from backfill_assets.planning.partitions import ONE_DAY, DayRange


def plausible_gaps(spans: Iterable[DayRange], event_days: Iterable[date], *, plausible_days: int) -> frozenset[date]:
    """The days of plausible gaps between events that lie in one of these spans.

    Args:
        spans: Per file, from its first event to its last.
        event_days: Every day with an event in any file.
        plausible_days: The length of the longest plausible gap.
    """
    merged = _merged(spans)
    found: set[date] = set()
    for before, after in pairwise(sorted(set(event_days))):
        gap = DayRange(before + ONE_DAY, after)
        if len(gap) <= plausible_days and any(span.start <= before and after < span.end for span in merged):
            found.update(gap)
    return frozenset(found)


def _merged(spans: Iterable[DayRange]) -> list[DayRange]:
    """The spans with overlapping ones merged."""
    found: list[DayRange] = []
    for span in sorted(spans):
        if found and span.start < found[-1].end:
            found[-1] = DayRange(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found
