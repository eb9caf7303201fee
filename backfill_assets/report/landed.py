"""Documents of files that were landed together, and of what an extract would withdraw."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backfill_assets.capture.landed_files import Family, landing_files
from backfill_assets.core.next_steps import NAME, WHY, Act, NextStep, Option, do, step
from backfill_assets.domain import SourceTable
from backfill_assets.lake.row_values import Texts
from backfill_assets.landing.attempt import Landed
from backfill_assets.landing.days import landed_days, pending_days, rejected_of
from backfill_assets.landing.extract import Withdrawn
from backfill_assets.landing.imports import reads_otherwise
from backfill_assets.landing.names import meant_by
from backfill_assets.landing.record_rules import FUTURE
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import EventRecord, RunRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.planning.next_steps import loads, read_rejected_anew
from backfill_assets.planning.partitions import DayRange, Grain, Partitions, count_of
from backfill_assets.report.documents import INLINE
from backfill_assets.report.frozen import freeze_document, frozen_line
from backfill_assets.report.not_known import NotKnownDocument
from backfill_assets.report.rejected import some_rejected
from backfill_assets.report.report import RunReport
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedImport:
    """A file or a statement that was landed, or that had landed before."""

    record: ImportRecord = field(metadata=INLINE)  #: It, as the ledger has it now.
    is_new: bool  #: Whether something was landed, rather than ignored.
    #: Some of its rejected records, the first of each reason before others: their numbers in it and the reasons.
    rejected: tuple[Texts, ...]
    #: How many of its records were rejected, by reason without the rejected value.
    reasons: Mapping[str, int] = field(default_factory=dict)
    #: Columns of the contract that the file does not have, so that they are null; of a file of JSON lines it is not
    #: known.
    missing_columns: tuple[str, ...] = ()
    puts_back: bool = False  #: Whether the landed file was gone or damaged, and is there again.
    #: By columns that were left out, the column of the contract whose name is almost the same.
    almost: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedExtract:
    """The keys that a complete extract withdrew."""

    scope: str  #: The days, and the values of the rows, of which the extract is everything.
    withdrawn: Withdrawn  #: What it withdrew, and how many records its files have.


@dataclass(frozen=True, slots=True, kw_only=True)
class LandReport:
    """The outcome of files that were landed together."""

    source: str  #: The source table.
    has_dates: bool = False  #: Whether its event time is a date; otherwise its partitions are UTC dates.
    imports: tuple[LandedImport, ...]  #: The files, in the order in which they were given.
    extract: StatedExtract | None  #: What was withdrawn, if the files were a complete extract; null otherwise.
    quarantine: str  #: Where the Delta table of all rejected records is.
    load: RunReport | None  #: The report of the run that built bronze from them; null when nothing had to be built.
    #: The days of this run on which no file has events: plausible gaps of files. Null without a run.
    without_events: Partitions | None
    not_known: NotKnownDocument | None = None  #: The keys of the source that are not known; null where all are.
    #: Dropped files that were refused, each with the reason: they are tried again when they are replaced.
    refused: Mapping[str, str] = field(default_factory=dict)
    left: int = 0  #: How many dropped files were left, because they may still be written.
    #: The imports of which more than half of the records are rejected; then the exit code is 1.
    mostly_rejected: tuple[str, ...]
    #: What a person has to decide: about days without events between those of the source, and about files of which most
    #: records are rejected.
    next_steps: tuple[NextStep, ...]

    @property
    def needs_a_look(self) -> bool:
        """True if a gate blocked the load, most records of a file are rejected, or a dropped file was refused."""
        return bool(self.mostly_rejected or self.refused) or (self.load is not None and self.load.is_blocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractPreview:
    """A preview of a complete extract; nothing has landed."""

    source: str  #: The source table.
    has_dates: bool  #: Whether its event time is a date; otherwise its partitions are UTC dates.
    scope: str  #: The days, and the values of the rows, of which the extract is everything.
    withdrawn: Withdrawn  #: What it would withdraw, and what the keys of its files are.
    percent: float  #: The share of the keys there now that it would withdraw.
    allowed_percent: float  #: The share that the source lets be withdrawn without a person's confirmation.
    next_steps: tuple[NextStep, ...]  #: What to do next.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAgain:
    """The effect of reading a landed file anew."""

    import_id: str  #: The import.
    name: str  #: Its file.
    landed: int  #: How many records it has, as they were read.
    rejected: int  #: How many of them are rejected.
    landed_now: int  #: How many it has as its source is declared now.
    rejected_now: int  #: How many of these would be rejected.
    days: Partitions  #: The event days that it touches as it was read.


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainPreview:
    """A preview of reading landed files anew; nothing has changed."""

    source: str  #: The source table.
    imports: tuple[ReadAgain, ...]  #: The files, in the order in which they landed.
    next_steps: tuple[NextStep, ...]  #: What to do next.


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToLoad:
    """Reports that no day of a source is missing between its first and its last event; nothing was changed."""

    source: str  #: The source table.


def landed_import(ws: Workspace, table: SourceTable, landed: Landed) -> LandedImport:
    """A file that has landed, with some of what was rejected of it."""
    with ws.ledger.read() as tx:
        record = tx.imports.get(landed.record.import_id)
    some, reasons = some_rejected(ws, table, record)
    return LandedImport(
        record=record,
        is_new=landed.is_new,
        rejected=some,
        reasons=reasons,
        missing_columns=landed.missing_columns,
        puts_back=landed.puts_back,
        almost=meant_by(table, record.ignored_columns),
    )


def days_filled(ws: Workspace, table: SourceTable, load: RunRecord) -> Partitions:
    """The days of a load on which no landed file has events."""
    with ws.ledger.read() as tx:
        landed = landed_days(tx, table, load.manifest.partitions)
    return Partitions.of(Grain.DAILY, set(load.manifest.partitions).difference(landed))


def corrections(report: LandReport, table: SourceTable) -> Iterator[NextStep]:
    """The corrections for each file with rejected records, and for those that were read otherwise."""
    source, otherwise = table.short_name, reads_otherwise(table)
    for each in report.imports:
        if each.record.import_id in report.mostly_rejected:
            path = each.record.original_path
            yield step(
                f"next: correct what the reasons above and in {report.quarantine} say, and land it again: ",
                do(Act.LAND, source, path, by=NAME),
                "; if its contract is corrected instead, and not the file: ",
                do(Act.LAND, source, again_as_declared=True, imports=each.record.import_id, by=NAME),
            )
        elif not each.is_new and any(FUTURE in reason for reason in each.reasons):
            path, at = each.record.original_path, f"{each.record.judged_at:%Y-%m-%d %H:%M:%S} UTC"
            again = do(Act.LAND, source, path, on_duplicate="reprocess", by=NAME)
            yield step(f"its records were judged at {at}; to judge again what was in the future then: ", again)
        elif not each.is_new and otherwise(each.record):
            again = do(Act.LAND, source, again_as_declared=True, imports=each.record.import_id, by=NAME)
            yield step("it was read by an earlier declaration; to read it as its source is declared now: ", again)
        elif each.record.counts.rejected:
            yield step(
                f"next: correct the file, and land it again, or the declaration of {report.source} that the reasons "
                "above name, and read the file anew: ",
                do(Act.LAND, source, again_as_declared=True, imports=each.record.import_id, by=NAME),
            )


def extracts_read_anew(ws: Workspace, table: SourceTable, read: Collection[str]) -> Iterator[NextStep]:
    """The statements to repeat for extracts whose files were read anew: those made before withdraw the keys that the
    files lacked as they were read then.

    Cost: one index range of events, and the document of each such extract.
    """
    with ws.ledger.read() as tx:
        withdrawals = [each for each in tx.events.entries(actions=["keys_withdrawn"]) if each.payload.get("files")]
        records = tx.imports.named({name for each in withdrawals for name in (each.entity_id, *each.payload["files"])})
    last: dict[str, EventRecord] = {}
    for each in withdrawals:
        record = records[each.entity_id]
        if record.source == table.name and record.state in COUNTING and not set(read).isdisjoint(each.payload["files"]):
            last[str(each.payload["scope"])] = each
    for scope, each in last.items():
        statement, files = records[each.entity_id], [records[name] for name in each.payload["files"]]
        said = f"{statement.import_id} withdraws what the extract of {scope} lacked as its files were read before"
        if any(file.family != Family.FILE for file in files):
            yield step(f"{said}; to state it anew, capture it with ", Option("reconcile"))
            continue
        document = json.loads(landing_files(ws.settings).read(statement.stored_path))
        first, end = document["days"]
        where = [("where", f"{name}={value}") for name, value in document["where"].items()]
        paths = (file.original_path for file in files)
        again = do(Act.LAND, table.short_name, *paths, replaces=f"{first}..{end}", reason=WHY, by=NAME)
        yield step(f"{said}; to state it anew: ", replace(again, options=(*again.options, *where)))


def questions(ws: Workspace, table: SourceTable) -> Iterator[NextStep]:
    """A sentence that asks whether nothing happened on days without events, if there are any."""
    gaps = questioned_gaps(ws, table.name)
    if gaps and (rejecting := _rejecting(ws, table, gaps)):
        yield step(f"{table.name}: rejected records may be of days without events: ", rejecting)
    dates = "" if table.has_dates else " (UTC dates)"
    if len(gaps) == 1:
        (gap,) = gaps
        (command,) = loads(table.name, gap, empty=True)
        yield step(
            f"{table.name}: no events from {gap.start} to {gap.last}{dates}; if nothing happened then: ", command
        )
    elif gaps:
        days = count_of(sum(map(len, gaps)), "day")
        yield step(
            f"{table.name}: no events on {days}{dates} from {gaps[0].start} to {gaps[-1].last}, at most "
            f"{max(map(len, gaps)):,} of them in a row; if nothing happened then: ",
            do(Act.LOAD, table.short_name, missing=True, empty=True, reason=WHY, by=NAME),
        )


def _rejecting(ws: Workspace, table: SourceTable, gaps: Sequence[DayRange]) -> NextStep | None:
    """The command that reads rejected records anew that are, or may be, of days without events; None where there are
    none."""
    days = [day for gap in gaps for day in gap]
    with ws.ledger.read() as tx:
        found = rejected_of(tx, table, days)
    return read_rejected_anew(table.name, days, [each.import_id for each in found]) if found else None


def frozen_days(ws: Workspace, table: SourceTable) -> Iterator[NextStep]:
    """The freezes for which days that have landed wait."""
    with ws.ledger.read() as tx:
        frozen = tx.freezes.over(table.name, pending_days(tx, table).days, at=tx.now)
        yield from (frozen_line(freeze_document(tx, each)) for each in dict.fromkeys(frozen.values()))


def questioned_gaps(ws: Workspace, source: str) -> tuple[DayRange, ...]:
    """Days without events that no file and no person explains, between the first and the last event of the source."""
    with ws.ledger.read() as tx:
        return pending_days(tx, ws.domain.source_table(source)).asked
