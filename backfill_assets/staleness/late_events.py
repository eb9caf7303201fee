"""Late events: which changed days of sources may follow by lateness, and which of them are one decision.

Pure: from what landed files brought to changed days. Lateness lets rows come that were not there before; whatever
changes, moves, takes back or restores an earlier one is for a person to decide, however recent its day is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backfill_assets.landing.imports import STATEMENT, OnDuplicate
from backfill_assets.ledger.import_records import ImportRecord, KeyCounts
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.staleness.landed_news import LandedNews

News = Mapping[SourceDay, Iterable[LandedNews]]

_PLAINLY = (OnDuplicate.IGNORE, OnDuplicate.REJECT)
"""How late events land: nothing is landed again, and no file is stated to replace another one."""


def days_of_late_events(news: News, lateness: Mapping[str, int]) -> frozenset[SourceDay]:
    """The days to which files brought nothing but new keys, each within the lateness of the source.

    Args:
        news: What landed files brought to changed days; a day whose change came with no file has none.
        lateness: The days between the day of events and their landing that a source declares.
    """
    found = {day: list(brought) for day, brought in news.items() if day[0] in lateness}
    return frozenset(
        day
        for day, brought in found.items()
        if brought and all(each.days_late <= lateness[day[0]] and _is_addition(each) for each in brought)
    )


def _is_addition(news: LandedNews) -> bool:
    day = news.day
    return brings_new_keys_only(news.record) and not (day.displaced or day.deleted or day.withdrawn or day.restored)


def brings_new_keys_only(record: ImportRecord) -> bool:
    """Whether every record that counts in a landed file is the first one of its key, and none was landed again.

    The keys that are current since a file landed are as many as its records that decide a key only if none of these
    keys was there before, whatever it was.
    """
    counts = record.counts
    return (
        record.format != STATEMENT
        and record.on_duplicate in _PLAINLY
        and counts.superseded == 0
        and record.keys == KeyCounts(current=counts.accepted)
    )


def days_with_moved_keys(news: News) -> tuple[frozenset[SourceDay], ...]:
    """The days between which files moved keys, in groups that share none: a group is restated as a whole.

    Of a file that moved keys all days are in one group, because it is not known which of them a key came from.
    """
    groups: list[set[SourceDay]] = []
    by_import: dict[str, set[SourceDay]] = {}
    for day, brought in news.items():
        for each in brought:
            by_import.setdefault(each.record.import_id, set()).add(day)
    moving = {each.record.import_id for brought in news.values() for each in brought if each.day.displaced}
    for days in (days for import_id, days in by_import.items() if import_id in moving):
        met = [group for group in groups if not group.isdisjoint(days)]
        groups = [group for group in groups if group not in met]
        groups.append(days.union(*met))
    return tuple(frozenset(group) for group in groups if len(group) > 1)
