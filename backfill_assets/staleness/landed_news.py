"""News of landed files: what each brought to changed days since accepted output was computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.import_records import ImportDay, ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.basis import Basis
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.wording import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedNews:
    """What one landed file brought to a day since accepted output was computed from it.

    Attributes:
        record: The file.
        day: The event day, with its counts.
    """

    record: ImportRecord
    day: ImportDay

    @property
    def days_late(self) -> int:
        """The days between the day of the events and the landing."""
        landed_at = self.record.landed_at
        return 0 if landed_at is None else max(0, (landed_at.date() - self.day.event_date).days)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNews:
    """What one landed file brought to changed days."""

    news: tuple[LandedNews, ...]

    @property
    def sentence(self) -> str:
        """The file, its days, how many rows it has of them, how late they came, and how many records count."""
        record = self.news[0].record
        late = sorted({each.days_late for each in self.news})
        how_late = f"{late[0]:,} to {count_of(late[-1], 'day')}" if len(late) > 1 else count_of(late[0], "day")
        days = describe(Grain.DAILY, (each.day.event_date for each in self.news), most=3)
        name = visible(Path(record.original_path).name)
        return (
            f"{name} ({record.import_id}, landed by {record.landed_by} on {record.landed_at:%Y-%m-%d}): "
            f"{', '.join(self._counts())} of {record.source} {days}, {how_late} late{self._deciding(record)}"
        )

    @staticmethod
    def _deciding(record: ImportRecord) -> str:
        """How many records of the whole file decide what their key is, where others were there before or come after."""
        counts = record.counts
        if counts.accepted == counts.landed:
            return ""
        return f" ({counts.accepted:,} of its {count_of(counts.landed, 'record')} decide what a key is)"

    def _counts(self) -> Iterator[str]:
        """How many rows it has of the days, and how many it has taken back or ended."""
        rows = sum(each.day.events for each in self.news)
        others = {
            "moved to other days": sum(each.day.displaced for each in self.news),
            "deleted": sum(each.day.deleted for each in self.news),
            "withdrawn": sum(each.day.withdrawn for each in self.news),
            "restored": sum(each.day.restored for each in self.news),
        }
        if rows or not any(others.values()):
            yield count_of(rows, "row")
        yield from (f"{count_of(count, 'row')} {how}" for how, count in others.items() if count)


def files_of(news: Mapping[SourceDay, Iterable[LandedNews]], days: Iterable[SourceDay]) -> tuple[FileNews, ...]:
    """What landed files brought to some days, file by file in the order of arrival."""
    by_file: dict[str, list[LandedNews]] = {}
    for day in sorted(days):
        for each in news.get(day, ()):
            by_file.setdefault(each.record.import_id, []).append(each)
    files = [FileNews(news=tuple(some)) for some in by_file.values()]
    return tuple(sorted(files, key=lambda each: each.news[0].record.arrival))


def landed_news(
    tx: ReadTransaction, changes: Mapping[SourceDay, frozenset[str]]
) -> Mapping[SourceDay, tuple[LandedNews, ...]]:
    """What landed files brought to changed days since accepted output was computed from them, in order of arrival.

    A day whose change came with no file, such as a load that was rolled back, has none.
    """
    if not changes:
        return {}
    found: dict[SourceDay, tuple[LandedNews, ...]] = {}
    read = _read_before(tx, changes)
    for source in {source for source, _ in changes}:
        days = [day for name, day in changes if name == source]
        records = {record.import_id: record for record in tx.imports.records(source, [ImportState.LOADED])}
        touching: dict[date, list[ImportDay]] = {day: [] for day in days}
        for each in tx.imports.days(source=source, days=days, states=[ImportState.LOADED]):
            touching[each.event_date].append(each)
        for day in days:
            news = (LandedNews(record=records[each.import_id], day=each) for each in touching[day])
            found[source, day] = tuple(each for each in news if _is_new(each, read.get((source, day), ())))
    return found


def _is_new(news: LandedNews, read: Iterable[Basis]) -> bool:
    """Whether a version of the day that output was computed from was built without the file, or before it was
    landed again."""
    record = news.record
    again = record.on_duplicate == OnDuplicate.REPROCESS
    versions = list(read)
    return not versions or any(
        record.import_id not in basis.imports
        or (again and record.landed_at is not None and record.landed_at > basis.requested_at)
        for basis in versions
    )


def _read_before(
    tx: ReadTransaction, changes: Mapping[SourceDay, frozenset[str]]
) -> Mapping[SourceDay, tuple[Basis, ...]]:
    """The loads that built the versions of changed days that accepted output was computed from."""
    sources = {source for source, _ in changes}
    known = tx.bases.of_accepted(sorted(set().union(*changes.values())), inputs=sorted(sources))
    digests: dict[SourceDay, set[str]] = {}
    for basis in (basis for some in known.bases.values() for basis in some):
        for read in basis.inputs:
            now = known.digests.get(read.edge.table, {})
            for day, digest in read.digests.items() if read.within is not now else ():
                if (read.edge.table, day) in changes and digest != now.get(day):
                    digests.setdefault((read.edge.table, day), set()).add(digest)
    runs: dict[SourceDay, set[str]] = {}
    for source in sources:
        days = [day for name, day in changes if name == source]
        made = tx.versions.made_by_digest(source, days)
        for day in days:
            makers = {made.get((day, digest)) for digest in digests.get((source, day), ())}
            runs[source, day] = {run_id for run_id in makers if run_id is not None}
    bases = {run_id: tx.bases.of_run(run_id, ()) for run_id in sorted(set().union(*runs.values()))}
    return {day: tuple(bases[run_id] for run_id in sorted(some)) for day, some in runs.items()}
