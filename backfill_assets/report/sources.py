"""Landed files and captures of sources, as several pages show them: from the ledger alone, no stream is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from backfill_assets.calendar.partitions import DayRange, count_of
from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.capture.streams import SCAN
from backfill_assets.core.next_steps import Command, Invocation, do
from backfill_assets.domain import SourceTable
from backfill_assets.landing.imports import read_otherwise
from backfill_assets.ledger.captures import CapturedFile, CaptureRecord
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.page import Note, Table, Tone, Toned, table
from backfill_assets.report.runs import state_of

_MOST_IMPORTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBefore:
    """Landed files of a source whose records were read by an earlier declaration."""

    source: str  #: The source table.
    imports: tuple[str, ...]  #: The files.

    @property
    def again(self) -> Invocation:
        """The command that shows what they would give as their source is declared now."""
        return do(Command.LAND, self.source.rpartition(".")[2], again_as_declared=True, dry_run=True)


def read_before(tx: ReadTransaction, sources: Sequence[SourceTable]) -> tuple[ReadBefore, ...]:
    """The files of some sources that were read by an earlier declaration; of those of earlier releases it is not known.

    Cost: one row per landed file.
    """
    found = {each.name: [r.import_id for r in read_otherwise(tx, each) if r.reading is not None] for each in sources}
    return tuple(ReadBefore(source=source, imports=tuple(imports)) for source, imports in found.items() if imports)


def read_before_notes(read_before: Sequence[ReadBefore]) -> Iterator[Note]:
    """Notes that files were read by earlier declarations."""
    for each in read_before:
        many, some = count_of(len(each.imports), "landed file"), ", ".join(each.imports[:_MOST_IMPORTS])
        more = " and more" if len(each.imports) > _MOST_IMPORTS else ""
        text = f"{many} of {each.source} was read by an earlier declaration: {some}{more}"
        yield Note(text=text if len(each.imports) == 1 else text.replace(" was ", " were ", 1), tone=Tone.ATTENTION)


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


_COUNTS = ("landed", "accepted", "duplicate", "superseded", "rejected")


def imports_table(imports: Sequence[ImportRecord]) -> Table:
    """Landed files, and why statements were made and landings stopped."""
    has_notes = any(each.note for each in imports)
    rows = [
        (
            each.import_id,
            each.name,
            import_state(each),
            *(getattr(each.counts, name) for name in _COUNTS),
            *([each.note] if has_notes else []),
        )
        for each in imports
    ]
    heads = ["import", "file", "state", *_COUNTS, *(["note"] if has_notes else [])]
    return table(heads, rows, numbers=_COUNTS, whole=["import", "state"])


def import_state(record: ImportRecord) -> Toned:
    """The state of a landed file; of one without records, or with rejected ones only, that it has no days to build."""
    if record.state is ImportState.LANDED and not record.counts.landed and record.family != STATEMENT:
        return Toned(value="NO RECORDS", tone=Tone.ATTENTION)
    is_refused = record.counts.landed and record.counts.rejected == record.counts.landed
    if record.state is ImportState.LANDED and is_refused:
        return Toned(value="NOTHING ACCEPTED", tone=Tone.ATTENTION)
    return state_of(record.state)
