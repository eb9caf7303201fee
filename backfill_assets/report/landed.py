"""Documents of files that were landed together, and of what an extract would withdraw."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, count_of, describe_ranges
from backfill_assets.capture.landed_files import GIVEN_FILE, STATEMENT, landing_files
from backfill_assets.core.next_steps import NAME, WHY, Command, NextStep, Option, do, step
from backfill_assets.core.wording import visible
from backfill_assets.domain import SourceTable
from backfill_assets.lake.row_values import Texts
from backfill_assets.landing.attempt import Landed
from backfill_assets.landing.days import landed_days, pending_days, rejected_of
from backfill_assets.landing.extract import Withdrawn
from backfill_assets.landing.imports import reads_otherwise
from backfill_assets.landing.names import meant_by
from backfill_assets.landing.record_rules import FUTURE
from backfill_assets.ledger.imports import ImportCounts, ImportRecord
from backfill_assets.ledger.records import EventRecord, RunRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.planning.next_steps import loads, read_rejected_anew
from backfill_assets.report.documents import INLINE
from backfill_assets.report.page import (
    Note,
    Page,
    Table,
    Tone,
    facts,
    next_steps,
    page,
    run_ref,
    section,
    table,
    words,
)
from backfill_assets.report.report import RunReport
from backfill_assets.report.sources import captured_files_table, import_state, imports_table
from backfill_assets.report.waiting import (
    NotKnownDocument,
    freeze_document,
    frozen_line,
    not_known_line,
    some_rejected,
)
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.report.locate import LocatedImport, LocatedPeriod, NotKnownKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedImport:
    """A file or a statement that was landed, or that had landed before."""

    record: ImportRecord = field(metadata=INLINE)  #: It, as the ledger has it now.
    is_new: bool  #: True if something was landed, rather than ignored.
    #: Some of its rejected records, the first of each reason before others: their numbers in it and the reasons.
    rejected: tuple[Texts, ...]
    #: How many of its records were rejected, by reason without the rejected value.
    reasons: Mapping[str, int] = field(default_factory=dict)
    #: Columns of the contract that the file does not have, so that they are null; of a file of JSON lines it is not
    #: known.
    missing_columns: tuple[str, ...] = ()
    puts_back: bool = False  #: True if the landed file was gone or damaged, and is there again.
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
    has_dates: bool = False  #: True if its event time is a date; otherwise its partitions are UTC dates.
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
    has_dates: bool  #: True if its event time is a date; otherwise its partitions are UTC dates.
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
                do(Command.LAND, source, path, by=NAME),
                "; if its contract is corrected instead, and not the file: ",
                do(Command.LAND, source, again_as_declared=True, imports=each.record.import_id, by=NAME),
            )
        elif not each.is_new and any(FUTURE in reason for reason in each.reasons):
            path, at = each.record.original_path, f"{each.record.judged_at:%Y-%m-%d %H:%M:%S} UTC"
            again = do(Command.LAND, source, path, on_duplicate="reprocess", by=NAME)
            yield step(f"its records were judged at {at}; to judge again what was in the future then: ", again)
        elif not each.is_new and otherwise(each.record):
            again = do(Command.LAND, source, again_as_declared=True, imports=each.record.import_id, by=NAME)
            yield step("it was read by an earlier declaration; to read it as its source is declared now: ", again)
        elif each.record.counts.rejected:
            yield step(
                f"next: correct the file, and land it again, or the declaration of {report.source} that the reasons "
                "above name, and read the file anew: ",
                do(Command.LAND, source, again_as_declared=True, imports=each.record.import_id, by=NAME),
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
        if any(file.family != GIVEN_FILE for file in files):
            yield step(f"{said}; to state it anew, capture it with ", Option("reconcile"))
            continue
        document = json.loads(landing_files(ws.settings).read(statement.stored_path))
        first, end = document["days"]
        where = [("where", f"{name}={value}") for name, value in document["where"].items()]
        paths = (file.original_path for file in files)
        again = do(Command.LAND, table.short_name, *paths, replaces=f"{first}..{end}", reason=WHY, by=NAME)
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
            do(Command.LOAD, table.short_name, missing=True, empty=True, reason=WHY, by=NAME),
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


# Landed files: what became of their records, where the records of a period are, and what an extract would
# withdraw.

_MOST_DAYS = 20


def landed_page(landed: LandReport) -> Page:
    """The page on files that were landed together."""
    return page(
        "Landed",
        section("landed files", imports_table([each.record for each in landed.imports])),
        *(Note(text=said) for each in landed.imports for said in _about(each, landed.quarantine)),
        *(Note(text=said) for said in (_extract(landed) if landed.extract else ())),
        *(Note(text=said, tone=Tone.ATTENTION) for said in _refused(landed)),
        None
        if landed.imports or landed.refused
        else Note(text=f"no finished file and no complete delivery is dropped for {landed.source}"),
        Note(text=f"{count_of(landed.left, 'dropped file')} may still be written") if landed.left else None,
        Note(text=_built(landed, landed.load)) if landed.load else None,
        Note(text=not_known_line(landed.not_known), tone=Tone.ATTENTION) if landed.not_known else None,
        *(Note(text=each) for each in landed.next_steps),
    )


def _refused(landed: LandReport) -> Iterator[str]:
    some = list(landed.refused.items())
    for name, why in some[:_MOST_REASONS]:
        yield f"{name} was refused, and is tried again when it is replaced: {why}"
    if len(some) > _MOST_REASONS:
        yield f"{len(some) - _MOST_REASONS:,} others were refused as well: status has them all"


def _about(landed: LandedImport, quarantine: str) -> Iterator[str]:
    """A note on a file: what it lacks, and what of it was rejected or left out."""
    record, counts = landed.record, landed.record.counts
    if landed.puts_back:
        yield f"{record.name} was landed before as {record.import_id}; its landed file was lost or damaged: it is back."
    elif not landed.is_new:
        yield f"{record.name} was landed before as {record.import_id}; nothing new."
    elif not counts.landed and record.family != STATEMENT:
        yield f"{record.name} ({record.import_id}) holds no records, so no day has to be built"
    yield from _rejected(record, landed.rejected, quarantine, landed.reasons)
    if counts.are_mostly_rejected:
        valid = counts.landed - counts.rejected
        some = f"only {valid:,}" if valid else "none"
        yield f"{some} of {count_of(counts.landed, 'record')} of {record.name} could land: exit code 1"
    # What a stream says of a record besides its value is not of the contract, unless its author wants it.
    unknown = [name for name in record.ignored_columns if not name.startswith(f"{record.family}_")]
    if landed.is_new and unknown:
        ignored = ", ".join(unknown)
        yield f"{record.import_id} has columns the contract does not know, left out: {ignored}"
    for name, column in landed.almost.items() if landed.is_new else ():
        declared = f"columns={{{visible(repr(name))}: {column!r}}}"
        meant = f"if it is the {column} of the contract, declare {declared}"
        yield f"{visible(name)} of {record.import_id} is left out: {meant}"
    for name, many in record.taken_as_first.items() if landed.is_new else ():
        yield (
            f"{count_of(many, 'record')} of {record.import_id} with a {name} that clocks show twice and no offset: the "
            f"first of the two was taken, which is early if it is the second; declare repeated_hour of the source"
        )
    if landed.missing_columns:
        yield f"{record.import_id} has no {', '.join(landed.missing_columns)}: null in all of its records"


_MOST_REASONS = 10


def _rejected(
    record: ImportRecord, some: Iterable[Texts], quarantine: str, reasons: Mapping[str, int] | None = None
) -> Iterator[str]:
    if not record.counts.rejected:
        return
    keyless = f", {record.keyless:,} of them without a key that can be read" if record.keyless else ""
    yield f"{count_of(record.counts.rejected, 'record')} of {record.import_id} rejected{keyless}, for example:"
    for row in some:
        yield f"  {record.name}, record {row['row_number']}: {row['reason']}"
    for reason, count in [*(reasons or {}).items()][:_MOST_REASONS]:
        yield f"  {count_of(count, 'record')}: {reason}"
    yield f"  all of them, with their reasons, are in the Delta table {quarantine}"


def _unknown(some: Sequence[NotKnownKey]) -> Iterator[str]:
    if some:
        yield "keys of these days that are not known, because a newer record of each was rejected, for example:"
    for each in some:
        yield f"  {_key(each.key)}, last known on {each.day}; since {each.import_id}, record {each.row}: {each.reason}"


def _extract(landed: LandReport) -> Iterator[str]:
    extract, statement = landed.extract, landed.imports[-1]
    if extract is None or not statement.is_new:
        return
    found = extract.withdrawn
    if found.current:
        yield (
            f"{found.keys:,} of {count_of(found.current, 'key')} of {extract.scope} withdrawn by "
            f"{statement.record.import_id}: the extract lacks them"
        )
    if found.rejected:
        yield (
            f"{count_of(found.rejected, 'key')} of rejected records withdrawn by {statement.record.import_id} as well: "
            "these records no longer count, even when they are read again"
        )
    if found.outside:
        yield (
            f"{found.outside:,} of {count_of(found.records, 'record')} of the extract are not of {extract.scope}; "
            "they landed like records of any other file"
        )


def _built(landed: LandReport, load: RunReport) -> str:
    source, empty = landed.source, landed.without_events
    days = f"{load.run.manifest.output}"
    if empty:
        days = f"{days}, of these {len(empty):,} without events ({describe_ranges(empty.grain, empty)})"
        if any(each.record.counts.rejected > sum(each.record.rejected_on.values()) for each in landed.imports):
            days += ", unless records that were rejected, and of which no day is known, are of them"
    if load.is_blocked:
        return f"{source}: not built, because a gate blocked {load.run.record.run_id}: {days}"
    return f"{source}: built the {_dates(landed)} {days}"


def _dates(of: LandReport | ExtractPreview | LocatedPeriod) -> str:
    """The noun for the partitions of a source."""
    return "dates" if of.has_dates else "UTC dates"


def nothing_to_load_page(found: NothingToLoad) -> Page:
    """The page of a load that had nothing to build."""
    said = f"no day of {found.source} is missing between its first and its last event; nothing was changed"
    return page("Load", Note(text=said))


def again_page(preview: AgainPreview) -> Page:
    """The page on what landed files would give as their source is declared now."""
    rows = [
        (each.import_id, each.name, each.landed, each.landed_now, each.rejected, each.rejected_now, each.days)
        for each in preview.imports
    ]
    heads = ["import", "file", "records", "records now", "rejected", "rejected now", "days"]
    return page(
        "Landed files, read anew",
        facts(("dry run", "nothing was landed again"), ("source", preview.source)),
        table(heads, rows, numbers=heads[2:6], whole=["import"])
        if rows
        else Note(text="every file was read as its source is declared now", tone=Tone.GOOD),
        next_steps(*preview.next_steps),
    )


def extract_page(preview: ExtractPreview) -> Page:
    """The page on what a complete extract would bring and withdraw, by day, and some of the keys."""
    found, effect = preview.withdrawn, preview.withdrawn.effect
    days = table(["day", "keys"], found.by_day.items(), numbers=["keys"], most=_MOST_DAYS)
    return page(
        "Extract",
        facts(
            ("dry run", "nothing was landed; the extract would have these effects"),
            ("source", preview.source),
            ("extract of", preview.scope),
            ("the files hold", _records(found)),
            (
                "keys of the files",
                f"{effect.new:,} new, {effect.changed:,} changed, {effect.moved:,} moved to another day, "
                f"{effect.unchanged:,} unchanged"
                + (f", {effect.older:,} older than what is there" if effect.older else "")
                + (f", {effect.unknown:,} not known, because their record is rejected" if effect.unknown else "")
                if effect
                else None,
            ),
            ("of their records", _become(found.files) if found.files else None),
            ("keys there now", found.current),
            ("it lacks", f"{found.keys:,} ({preview.percent:.1f} %; allowed {preview.allowed_percent:g} %)"),
            ("and keys of rejected records", found.rejected or None),
            ("built again", f"{found.rebuilt} ({_dates(preview)})" if found.rebuilt else None),
        ),
        section("days that lose keys", days),
        Note(text=f"for example {'; '.join(map(_key, found.sample))}") if found.sample else None,
        *(Note(text=each) for each in preview.next_steps),
    )


def _become(counts: ImportCounts) -> str:
    what = f"{counts.accepted:,} accepted, {counts.duplicate:,} there before, {counts.superseded:,} superseded"
    return f"{what}, {counts.rejected:,} rejected"


def _records(found: Withdrawn) -> str:
    outside = f", {found.outside:,} of them not of these days or rows" if found.outside else ""
    outside = ", and none of them is of these days and rows" if found.is_elsewhere else outside
    return f"{count_of(found.records, 'valid record')}{outside}"


def _key(key: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in key.items())


def period_page(period: LocatedPeriod) -> Page:
    """The imports that hold records of a period, and the partitions that rest on it."""
    named = f"{period.source} {DayRange.inclusive(period.from_, period.to)}"
    named += f" in {period.timezone}" if period.timezone else ""
    rows = [
        (
            each.table,
            each.partitions,
            run_ref(each.run_id),
            f"{each.transform} {each.transform_version}",
            ", ".join(each.through),
        )
        for each in period.partitions
    ]
    resting = table(["table", "partitions", "run", "release", "through"], rows, whole=["run"])
    not_loaded = f"landed, and not built into {period.source} yet: {period.not_loaded}"
    dates = f"imports, and partitions of {period.source}, are those of the UTC dates {period.dates}"
    return page(
        named,
        Note(text=dates) if period.timezone else None,
        section(f"imports with records of {named}", _located(period))
        or Note(text=f"no import holds records of {named}"),
        *(
            Note(text=said)
            for each in period.imports
            for said in _rejected(each.record, each.rejected, period.quarantine)
        ),
        *(Note(text=said) for said in _unknown(period.unknown)),
        section("captured positions with records of this time", captured_files_table(period.captured)),
        section("published partitions that depend on these days", resting)
        or Note(text="no published partition depends on these days"),
        Note(text=not_loaded) if period.not_loaded else None,
        next_steps(period.next_step),
        Note(text=words("the stream holds now: ", period.ask_the_stream)) if period.ask_the_stream else None,
    )


def _located(period: LocatedPeriod) -> Table:
    rows = [
        (
            each.record.import_id,
            each.record.name,
            import_state(each.record),
            each.record.landed_at,
            each.record.landed_by,
            _days(each),
            each.records,
            each.record.counts.rejected,
            _late(each),
        )
        for each in period.imports
    ]
    heads = ["import", "file", "state", "landed", "by", _dates(period), "records", "rejected", "late"]
    return table(heads, rows, numbers=["records", "rejected"], whole=["import", "state"])


def _days(each: LocatedImport) -> str:
    holding = [found.day.event_date for found in each.days if found.day.events]
    if not holding:
        return "none: it moved, withdrew or restored rows, or has rejected records of them"
    return str(DayRange.inclusive(min(holding), max(holding)))


def _late(each: LocatedImport) -> str:
    late = [day.days_late for day in each.days if day.days_late is not None]
    if not late:
        return ""
    least, most = min(late), max(late)
    return count_of(most, "day") if least == most else f"{least:,} to {count_of(most, 'day')}"
