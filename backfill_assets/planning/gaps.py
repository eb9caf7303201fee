"""Gaps: days between events that have none, and which of these gaps are plausible.

A short gap in a landed file is a weekend or a holiday, and its days are built as empty. A long one is more likely a
wrong clock or a missing file, so a person has to confirm it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from backfill_assets.planning.partitions import ONE_DAY, DayRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The days without events within what files span.

    Attributes:
        plausible: Days of gaps that are short enough to be what happened.
        asked: Longer gaps, which a person has to confirm.
    """

    plausible: frozenset[date]
    asked: tuple[DayRange, ...]


def gaps_within(spans: Iterable[DayRange], event_days: Iterable[date], *, plausible_days: int) -> Gaps:
    """The gaps between events that lie in one of these spans.

    Args:
        spans: Per file, from its first event to its last.
        event_days: Every day with an event in any file.
        plausible_days: The length of the longest plausible gap.
    """
    merged = _merged(spans)
    plausible: set[date] = set()
    asked: list[DayRange] = []
    for before, after in pairwise(sorted(set(event_days))):
        gap = DayRange(before + ONE_DAY, after)
        if not len(gap) or not any(span.start <= before and after < span.end for span in merged):
            continue
        if len(gap) <= plausible_days:
            plausible.update(gap)
        else:
            asked.append(gap)
    return Gaps(plausible=frozenset(plausible), asked=tuple(asked))


def _merged(spans: Iterable[DayRange]) -> list[DayRange]:
    """The spans with overlapping ones merged."""
    found: list[DayRange] = []
    for span in sorted(spans):
        if found and span.start < found[-1].end:
            found[-1] = DayRange(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found
