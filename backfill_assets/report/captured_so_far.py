"""Documents of sources that are captured: how far their captures are, and which positions hold a period.

From the ledger alone: no stream is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.streams import SCAN
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.captures import CapturedFile, CaptureRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.page import Table, table

_MOST_FILES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedSource:
    """The progress of a source's captures, from the ledger alone."""

    last: CaptureRecord  #: The last capture.
    positions: Mapping[str, str]  #: The position behind the last one that was captured, by partition.
    records: int  #: How many records were captured.
    captured_until: datetime | None  #: The latest time of a captured record; null without records.
    lag_seconds: float | None  #: How long ago that is; null without records.
    #: From when on the retention may take records that are not captured; null where it takes nothing.
    expires_at: datetime | None


def captured_sources(
    tx: ReadTransaction, sources: Sequence[SourceTable], *, as_of: datetime
) -> tuple[CapturedSource, ...]:
    """The progress of captures, for the sources that have any."""
    found = ((source, tx.captures.records(source.name, limit=1)) for source in sources if source.capture is not None)
    return tuple(_captured(tx, source, last[0], as_of) for source, last in found if last)


def _captured(tx: ReadTransaction, source: SourceTable, last: CaptureRecord, as_of: datetime) -> CapturedSource:
    files = tx.captures.files(source.name, stream=last.stream)
    until = max((each.last_at for each in files if each.last_at), default=None)
    kept = int(last.pinned.get("retention.ms", "-1"))
    positions: dict[str, str] = {}
    for each in files:
        if each.partition.startswith(SCAN):
            continue
        before = positions.get(each.partition, "0")
        is_number = before.isdigit() and each.range_to.isdigit()
        positions[each.partition] = max(before, each.range_to, key=int) if is_number else each.range_to
    return CapturedSource(
        last=last,
        positions=positions,
        records=sum(each.records for each in files),
        captured_until=until,
        lag_seconds=None if until is None else max(0.0, (as_of - until).total_seconds()),
        expires_at=until + timedelta(milliseconds=kept) if until is not None and kept >= 0 else None,
    )


def captured_in(tx: ReadTransaction, source: SourceTable, days: DayRange) -> tuple[CapturedFile, ...]:
    """The captured files with records whose time is in some days, as far as the first and the last record tell."""
    start, end = source.days.instants(days)
    return tuple(
        each
        for each in tx.captures.files(source.name)
        if each.first_at is not None and each.last_at is not None and each.first_at < end and each.last_at >= start
    )


def captured_table(captured: Sequence[CapturedSource]) -> Table:
    """A table of the captures of sources: how far they are, and from when on the retention may remove what is behind
    them."""
    rows = [
        (*last, each.records, each.captured_until, ago, each.expires_at)
        for each in captured
        for last in [(each.last.source, each.last.name, each.last.capture_id)]
        for ago in [None if each.lag_seconds is None else str(timedelta(seconds=round(each.lag_seconds)))]
    ]
    heads = ["source", "captured from", "capture", "records", "until", "lag", "expires"]
    return table(heads, rows, numbers=["records"], whole=["capture"])


def captured_files_table(files: Sequence[CapturedFile]) -> Table:
    """A table of captured files with their positions."""
    rows = [
        (each.capture_id, each.partition, each.range_from, each.range_to, each.records, each.first_at, each.last_at)
        for each in files
    ]
    heads = ["capture", "partition", "from", "to (not included)", "records", "first record", "last record"]
    numbers = ["from", "to (not included)", "records"]
    return table(heads, rows, numbers=numbers, whole=["capture"], most=_MOST_FILES)
