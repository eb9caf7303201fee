"""Remarks about landed files, in addition to their counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets.domain import SourceTable
from backfill_assets.lake.row_values import Texts, few_rows
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.land import Landed
from backfill_assets.ledger.import_records import ImportRecord
from backfill_assets.planning.partitions import DayRange, count_of
from backfill_assets.report.advice.filling import loads
from backfill_assets.report.report import RunReport
from backfill_assets.report.requests import NAME, Act, NextStep, do, step
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LandReport:
    """What became of files that were landed together.

    Attributes:
        imports: The files, in the order in which they were given.
        load: The report of the run that built bronze from them; null when nothing had to be built.
        mostly_rejected: The imports of which more than half of the records are rejected; then the exit code is 1.
        sentences: What a person reads of it.
        next_steps: What a person has to decide: about days without events between those of the source.
    """

    imports: tuple[ImportRecord, ...]
    load: RunReport | None
    mostly_rejected: tuple[str, ...]
    sentences: tuple[str, ...]
    next_steps: tuple[NextStep, ...]

    @property
    def needs_a_look(self) -> bool:
        """Whether a gate blocked the load, or most records of a file are rejected."""
        return bool(self.mostly_rejected) or (self.load is not None and self.load.is_blocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayWithdrawn:
    """What an extract withdraws of one day.

    Attributes:
        day: The event date.
        keys: How many keys it withdraws there.
    """

    day: date
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractPreview:
    """What a complete extract would withdraw; nothing has landed.

    Attributes:
        source: The source table.
        scope: The days, and the values of the rows, of which the extract is everything.
        current: How many keys the source has there.
        withdrawn: How many of them the extract lacks.
        percent: The same as a share.
        new: How many keys of the files are not there now.
        changed: How many have other values on the same day.
        moved: How many are on another day now.
        unchanged: How many stay as they are.
        records: How many valid records the files have.
        outside: How many of them are of other days, or not in the scope: they land as those of any file.
        is_elsewhere: Whether none of the records is of the days and the scope: these are other files than were meant.
        allowed_percent: The share that the source lets be withdrawn without a person's confirmation.
        by_day: The days that lose keys.
        sample: Some of the keys.
        next_steps: What to do next.
    """

    source: str
    scope: str
    current: int
    withdrawn: int
    percent: float
    new: int
    changed: int
    moved: int
    unchanged: int
    records: int
    outside: int
    is_elsewhere: bool
    allowed_percent: float
    by_day: tuple[DayWithdrawn, ...]
    sample: tuple[Texts, ...]
    next_steps: tuple[NextStep, ...]


def about_import(ws: Workspace, table: SourceTable, landed: Landed) -> Iterator[str]:
    """Sentences about a file that has landed: what it lacks, what of it was rejected or left out."""
    record = landed.record
    if landed.is_new and not record.counts.landed:
        yield f"{record.import_id} holds no records"
    if record.counts.rejected:
        first = few_rows(ws.lake, table.quarantine, ["row_number", "reason"], where=("import_id", record.import_id))
        yield f"{count_of(record.counts.rejected, 'record')} of {record.import_id} rejected, for example:"
        for row in first:
            yield f"  {Path(record.original_path).name}, record {row['row_number']}: {row['reason']}"
        yield f"  all of them, with their reasons, are in the Delta table {ws.lake.place(table.quarantine)}"
    if record.counts.are_mostly_rejected:
        valid = record.counts.landed - record.counts.rejected
        some = f"only {valid:,}" if valid else "none"
        name = Path(record.original_path).name
        yield f"{some} of {count_of(record.counts.landed, 'record')} of {name} could land: exit code 1"
    if landed.is_new and record.ignored_columns:
        ignored = ", ".join(record.ignored_columns)
        yield f"{record.import_id} has columns the contract does not know, left out: {ignored}"


def questions(ws: Workspace, table: SourceTable) -> Iterator[NextStep]:
    """A sentence that asks whether nothing happened on days without events, if there are any."""
    gaps = questioned_gaps(ws, table.name)
    if len(gaps) == 1:
        (gap,) = gaps
        (command,) = loads(table.name, gap, empty=True)
        yield step(f"{table.name}: no events from {gap.start} to {gap.last}; if nothing happened then: ", command)
    elif gaps:
        days = count_of(sum(map(len, gaps)), "day")
        yield step(
            f"{table.name}: no events on {days} from {gaps[0].start} to {gaps[-1].last}, at most "
            f"{max(map(len, gaps)):,} of them in a row; if nothing happened then: ",
            do(Act.LOAD, table.short_name, missing=True, empty=True, by=NAME),
        )


def questioned_gaps(ws: Workspace, source: str) -> tuple[DayRange, ...]:
    """Days without events that no file and no person explains, between the first and the last event of the source."""
    with ws.ledger.read() as tx:
        return pending_days(tx, ws.domain.source_table(source)).asked
