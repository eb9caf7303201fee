"""News of landed files: what each brought to changed days since accepted output was computed from them.

Which of these days may follow by lateness: lateness lets rows come that were not there before; whatever changes, moves,
takes back or restores an earlier one is for a person to decide, however recent its day is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.grouped import grouped
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import ImportDay, ImportRecord, KeyCounts
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.planning.sets import ChangedByFile
from backfill_assets.planning.state import ComputedFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedChange:
    """The changes that one landed file brought to a day since accepted output was computed from it."""

    record: ImportRecord  #: The file.
    day: ImportDay  #: The event day, with its counts as the file landed.
    #: How many accepted rows of the day are its records; before these are read, how many records it has of it.
    rows: int

    @property
    def days_late(self) -> int:
        """The days between the day of the events and the landing."""
        return self.record.days_late(self.day.event_date) or 0

    @property
    def decides(self) -> bool:
        """True if a row of the day exists, or no longer exists, because of the file."""
        day = self.day
        return any((self.rows, day.displaced, day.deleted, day.withdrawn, day.restored, day.unknown))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNews:
    """The changes that one landed file brought to days."""

    record: ImportRecord
    changed: ChangedByFile

    @property
    def days(self) -> Partitions:
        """The changed days that it decides something of."""
        return Partitions.of(Grain.DAILY, self.changed.days)

    @property
    def least_days_late(self) -> int:
        """The fewest days between such a day and the landing."""
        return min(self.record.days_late(day) or 0 for day in self.changed.days)

    @property
    def most_days_late(self) -> int:
        """The most days between such a day and the landing."""
        return max(self.record.days_late(day) or 0 for day in self.changed.days)


def files_of(news: Mapping[SourceDay, Iterable[LandedChange]], days: Iterable[SourceDay]) -> tuple[FileNews, ...]:
    """The changes that landed files brought to some days, file by file in the order of arrival."""
    by_file = grouped((each.record.import_id, each) for day in sorted(days) for each in news.get(day, ()))
    files = [FileNews(record=some[0].record, changed=_changed_by(some)) for some in by_file.values()]
    return tuple(sorted(files, key=lambda each: each.record.arrival))


def _changed_by(news: Sequence[LandedChange]) -> ChangedByFile:
    days = [each.day for each in news]
    return ChangedByFile(
        import_id=news[0].record.import_id,
        days=tuple(day.event_date for day in days),
        rows=sum(each.rows for each in news),
        moved_away=sum(day.displaced for day in days),
        taken_back=sum(day.deleted + day.withdrawn for day in days),
        restored=sum(day.restored for day in days),
    )


def landed_news(
    graph: Graph,
    tx: ReadTransaction,
    changes: Mapping[SourceDay, Collection[str]],
    states: Collection[ImportState] = (ImportState.LOADED,),
) -> Mapping[SourceDay, tuple[LandedChange, ...]]:
    """The changes that landed files brought to days since accepted output was computed from them, in order of arrival.

    A day whose change came with no file, such as a load that was rolled back, has none.

    Args:
        states: Only files in one of these states.
    """
    if not changes:
        return {}
    found: dict[SourceDay, tuple[LandedChange, ...]] = {}
    read = _read_before(graph, tx, changes)
    for source in {source for source, _ in changes}:
        days = [day for name, day in changes if name == source]
        records = {record.import_id: record for record in tx.imports.records(source, states)}
        touching: dict[date, list[ImportDay]] = {day: [] for day in days}
        for each in tx.imports.days(source=source, days=days, states=states):
            touching[each.event_date].append(each)
        for day in days:
            news = (LandedChange(record=records[each.import_id], day=each, rows=each.events) for each in touching[day])
            found[source, day] = tuple(each for each in news if _is_new(each, read.get((source, day), ())))
    return found


def days_that_lost_files(
    graph: Graph, tx: ReadTransaction, changes: Mapping[SourceDay, Collection[str]]
) -> frozenset[SourceDay]:
    """The changed days that are built now without a file of theirs with which the versions were built that accepted
    output was computed from: a load of them was rolled back, and what that took away is no late event."""
    if not changes:
        return frozenset()
    before = {
        day: frozenset[str]().union(*(basis.imports for basis in bases))
        for day, bases in _read_before(graph, tx, changes).items()
    }
    found: set[SourceDay] = set()
    for source in {source for source, _ in changes}:
        days = sorted(day for name, day in changes if name == source)
        makers = {day: claim.run_id for day, claim in tx.versions.claims(source, days).items()}
        present = {run_id: tx.bases.of_run(run_id, ()).imports for run_id in sorted(set(makers.values()))}
        for each in tx.imports.days(source=source, days=days):
            day = each.event_date
            has = present.get(makers.get(day, ""), frozenset())
            if each.import_id in before.get((source, day), frozenset()) and each.import_id not in has:
                found.add((source, day))
    return frozenset(found)


def _is_new(news: LandedChange, read: Iterable[ComputedFrom]) -> bool:
    """True if a version of the day that output was computed from was built without the file, or before it was landed
    again."""
    record = news.record
    again = record.on_duplicate == OnDuplicate.REPROCESS
    versions = list(read)
    return not versions or any(
        record.import_id not in basis.imports
        or (again and record.landed_at is not None and record.landed_at > basis.requested_at)
        for basis in versions
    )


def _read_before(
    graph: Graph, tx: ReadTransaction, changes: Mapping[SourceDay, Collection[str]]
) -> Mapping[SourceDay, tuple[ComputedFrom, ...]]:
    """The loads that built the versions of changed days that accepted output was computed from.

    A run has read them for all of its partitions, and counts only for those that it still stands for: other runs have
    restated the rest.
    """
    sources = {source for source, _ in changes}
    known = tx.bases.of_accepted(sorted(set().union(*changes.values())), inputs=sorted(sources))
    digests: dict[SourceDay, set[str]] = {}
    for table, basis in ((table, basis) for table, some in known.bases.items() for basis in some):
        for read in basis.inputs:
            name, now = read.edge.table, known.digests.get(read.edge.table, {})
            if name not in sources or read.within is now:
                continue
            for day in graph.needed(read.edge, graph.table(table), basis.partitions):
                digest = read.digests.get(day)
                if (name, day) in changes and digest not in (None, now.get(day)):
                    digests.setdefault((name, day), set()).add(digest)
    runs: dict[SourceDay, set[str]] = {}
    for source in sources:
        days = [day for name, day in changes if name == source]
        made = tx.versions.made_by_digest(source, days)
        for day in days:
            makers = {made.get((day, digest)) for digest in digests.get((source, day), ())}
            runs[source, day] = {run_id for run_id in makers if run_id is not None}
    bases = {run_id: tx.bases.of_run(run_id, ()) for run_id in sorted(set().union(*runs.values()))}
    return {day: tuple(bases[run_id] for run_id in sorted(some)) for day, some in runs.items()}


News = Mapping[SourceDay, Iterable[LandedChange]]

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


def _is_addition(news: LandedChange) -> bool:
    day = news.day
    return brings_new_keys_only(news.record) and not any(
        (day.displaced, day.deleted, day.withdrawn, day.restored, day.unknown)
    )


def brings_new_keys_only(record: ImportRecord) -> bool:
    """True if every record that counts in a landed file is the first one of its key, and none was landed again.

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
