"""Words of what landed files brought to days that were published before, and of the proposals that follow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from backfill_assets.core.wording import visible
from backfill_assets.planning.partitions import Grain, count_of, describe
from backfill_assets.publication.proposals import Situation
from backfill_assets.restatements.propose import REASON
from backfill_assets.staleness.landed_news import FileNews

_MOST_NAMES = 3


def proposal_words(found: Situation, files: Sequence[FileNews]) -> str:
    """Why changed days are proposed: the files that decide them, and days without a new file."""
    said = [_of_files(files)] if files else []
    if without := sorted({day for day in found.decision.proposed if not found.news.get(day)}):
        days = describe(Grain.DAILY, (day for _, day in without))
        said.append(f"{without[0][0]} {days}: loaded again or rolled back, with no new file")
    return f"{REASON}: {'; '.join(said)}"


def _of_files(files: Sequence[FileNews]) -> str:
    """One file with its name; of several the ids, because the set has a table of them."""
    if len(files) == 1:
        return file_words(files[0])
    by_source: dict[str, set[date]] = {}
    for each in files:
        by_source.setdefault(each.record.source, set()).update(each.changed.days)
    days = "; ".join(f"{source} {describe(Grain.DAILY, some, most=3)}" for source, some in by_source.items())
    ids = _few([each.record.import_id for each in files])
    people = _few(list(dict.fromkeys(each.record.landed_by for each in files)))
    return (
        f"{_rows(files)} of {days}, decided by {count_of(len(files), 'file')} ({ids}; landed by {people}), "
        f"{_late(files)} late"
    )


def file_words(file: FileNews) -> str:
    """The file, its days, how many rows it decides of them, and how late they came."""
    record = file.record
    days = describe(Grain.DAILY, file.changed.days, most=3)
    name = visible(Path(record.original_path).name)
    return (
        f"{name} ({record.import_id}, landed by {record.landed_by} on {record.landed_at:%Y-%m-%d}): "
        f"{_rows([file])} of {record.source} {days}, {_late([file])} late"
    )


def _rows(files: Sequence[FileNews]) -> str:
    """How many rows files have of their days, and how many they have taken back or ended."""
    rows = sum(each.changed.rows for each in files)
    others = {
        "moved to other days": sum(each.changed.moved_away for each in files),
        "deleted or withdrawn": sum(each.changed.taken_back for each in files),
        "restored": sum(each.changed.restored for each in files),
    }
    found = [count_of(rows, "row")] if rows or not any(others.values()) else []
    return ", ".join([*found, *(f"{count_of(count, 'row')} {how}" for how, count in others.items() if count)])


def _late(files: Sequence[FileNews]) -> str:
    """How many days passed between the days of files and their landing."""
    least, most = min(each.least_days_late for each in files), max(each.most_days_late for each in files)
    return f"{least:,} to {count_of(most, 'day')}" if least < most else count_of(least, "day")


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join([*names[:_MOST_NAMES], *([f"{more:,} more"] if more > 0 else [])])
