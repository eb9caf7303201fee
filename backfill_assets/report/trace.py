"""Trace of a number: the publications behind it, and the rows and landed records that it was computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TypeAlias

from backfill_assets.calendar.partitions import Partitions, count_of, partition_of, partition_text
from backfill_assets.core.columns import RUN_ID
from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.core.identity import FileSet
from backfill_assets.core.next_steps import NextStep, Option, step
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.domain.operations import ENDED_BY, OPERATION, STATES
from backfill_assets.lake.row_values import Among, Texts, changed_rows, rows_with_key, rows_with_keys
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import PartitionVersion, Period
from backfill_assets.ledger.states import VersionState
from backfill_assets.ledger.table_acts import ShownPeriod
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import Reason
from backfill_assets.report.errors import NothingThen
from backfill_assets.report.history import (
    business_values,
    chosen_key,
    key_columns,
    never_published,
    readers_and_periods,
    undo_of,
)
from backfill_assets.report.landed_behind import LandedBehind, Made
from backfill_assets.report.page import (
    Note,
    Page,
    Place,
    Ref,
    Section,
    Tone,
    Value,
    facts,
    page,
    publication_ref,
    run_ref,
    section,
    table,
    words,
)
from backfill_assets.report.page import Table as TableBlock
from backfill_assets.report.stale import reasons_of, stale_note
from backfill_assets.report.trace_causes import (
    CauseOfNumber,
    ChangedRow,
    TracedCause,
    TracedPublication,
    causes_in,
    publications_behind,
    rollback_between,
    rollback_cause,
)
from backfill_assets.report.values import key_text
from backfill_assets.report.versions import times_shown
from backfill_assets.workspace import Workspace

MOST_ROWS = 20
"""How many rows of a table are followed to what they were computed from, unless more are asked for."""

_IMPORT, _RECORD = "_import_id", "_row"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRow:
    """A row that contributed."""

    partition: str  #: Its partition, as a person reads it.
    values: Mapping[str, str | None]  #: Its values by column, as text or null.
    #: True if what was computed from it replaced a version that was not, as the row is new or has changed.
    is_changed: bool
    import_id: str | None = None  #: Of a row of a source, the import that has its record; null otherwise.
    file: str | None = None  #: The name of the file of that import; null otherwise.
    record: int | None = None  #: The number of that record in its file; for JSONL, the line; null otherwise.


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributingRows:
    """Rows of one table from which the rows above it were computed."""

    table: str  #: The table.
    of: str  #: The table whose rows were computed from them.
    #: The columns by which they were found: those of the key of the rows above that this table has too; empty where
    #: there are none, and every row that was read can have contributed.
    by: tuple[str, ...]
    partitions: Partitions  #: The partitions that were read for the rows above, warm-up included.
    count: int | None  #: How many rows of these partitions have these keys; null when they cannot be found.
    #: How many of them are new or changed, against what the versions that the rows above replaced had been computed
    #: from; null where they replaced none, or it is not there any more.
    changed: int | None
    #: Those that changed, then the others, up to so many as are followed; each by partition and key.
    rows: tuple[TracedRow, ...]
    #: The values that changed rows had before, and rows that are not there any more; by partition and key.
    replaced: tuple[TracedRow, ...] = ()
    problem: str | None  #: Why they cannot be found, or null.


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRecord:
    """The record of a landed file that has a row of a source."""

    landed: ImportRecord  #: The file.
    record: int | None  #: The number of the record in it; for JSONL, the line.
    table: str  #: The source.
    partition: str  #: The partition of the row, as a person reads it.
    key: Mapping[str, str | None]  #: By column of its key, its values as text or null.
    is_replaced: bool = False  #: True if the number was computed from it before, and is not any more.


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """From a number to its causes and its sources."""

    table: str  #: Its table.
    partition: str  #: Its partition, as a person reads it.
    key: Mapping[str, str]  #: By column, the value that was asked for.
    at: datetime | None  #: The time for which it was asked; null for now.
    seen: Period  #: During which time readers of the table saw the version.
    #: Of a version of a table, or of a table that has versions, the table whose readers are cut over; else null.
    name: str | None
    shown: tuple[ShownPeriod, ...]  #: When the readers of `name` were shown this table, in order; empty without `name`.
    undo: NextStep | None = None  #: What undoes the publication of the version; null where readers do not see it now.
    #: Why it does not follow from the present any more; empty where it does, or of an earlier time.
    stale: tuple[Reason, ...]
    #: The values of the row by column, as text or null; empty when they cannot be read.
    values: Mapping[str, str | None]
    problem: str | None  #: Why they cannot be read, or null.
    #: The day that was asked for, where it is a day of a longer partition; null otherwise.
    asked_day: date | None = None
    #: Last change of the number, the rollback that restored it first; empty for a first publication.
    causes: tuple[TracedCause, ...]
    #: Every version that readers saw of the partition, in order; one that was restored is there twice.
    periods: tuple[Period, ...]
    #: The publication of the version, that of the run that computed the row if another one did, and those that they
    #: follow, up to what a person asked for.
    publications: tuple[TracedPublication, ...]
    inputs: tuple[ContributingRows, ...]  #: The rows that it was computed from, table by table down to the sources.
    records: tuple[TracedRecord, ...]  #: The landed record of each row of a source, in the order of these rows.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row that is followed."""

    partition: date
    run_id: str  #: The run that computed it.
    values: Texts
    #: Where it is followed because it changed, from what to what; what changed behind it is followed first.
    changed: ChangedRow | None


def trace_of(
    ws: Workspace,
    table: str,
    day: date,
    key: Mapping[str, str],
    at: datetime | None = None,
    *,
    most: int = MOST_ROWS,
) -> Trace:
    """Follows the row of a key to the publications behind it, and to the rows and records that it was computed from.

    Args:
        key: By column of the key, the value as text; the partition's own column may be left out.
        at: The time at which readers saw it; None for now.
        most: How many rows of a table are followed.

    Raises:
        MissingInput: Readers saw no such row at that time.
        Refused: As of `chosen_key`.
    """
    declared = ws.domain.table(table)
    partition, grain = partition_of(declared.partition.grain, day), declared.partition.grain
    described = partition_text(grain, partition)
    given = chosen_key(ws, declared.name, partition, key)
    with ws.ledger.read() as tx:
        periods = tx.publications.periods(declared.name, partition)
        if not periods:
            raise never_published(tx, declared, partition)
        nothing = NothingThen(table=declared.name, partition=described, at=at, what="version", key=given)
        seen = _seen_at(periods, at)
        if seen is None:
            raise _with_the_last_seen(ws, tx, partition, nothing, periods)
        (version,) = tx.versions.pinned(declared.name, [(partition, seen.version)]).values()
        if tx.runs.header(version.run_id).makes is VersionState.EXPIRED:
            nothing.expired_by = version.run_id
            raise _with_the_last_seen(ws, tx, partition, nothing, periods)
        problem: str | None = None
        rows: tuple[_Row, ...] = ()
        try:
            found = rows_with_key(ws.lake, declared.name, version.files, given, most=1)
        except InvalidRange:
            raise  # What the reader has typed, and not what became of the files.
        except BackfillError as error:
            # Who asked for it and who approved it is known all the same.
            problem = error.message
        else:
            if not found:
                nothing.what = f"row with {_words(given)}" if given else "row"
                raise _with_the_last_seen(ws, tx, partition, nothing, periods)
            rows = (_followed(tx, version, found[0]),)
        computed_by = rows[0].run_id if rows else version.run_id
        inputs, records, causes = _inputs(ws, tx, declared.name, rows, most)
        if rows and (origin := _of_the_version_that_brought(ws, tx, version, rows[0], given)):
            causes = _inputs(ws, tx, declared.name, (origin,), 1)[2]
        if seen.publication_id != version.publication_id:
            restored = tx.publications.header(seen.publication_id)
            causes = (rollback_cause(restored, described), *causes)
        name, shown = readers_and_periods(ws, tx, declared)
        return Trace(
            table=declared.name,
            partition=described,
            key=given,
            at=at,
            seen=seen,
            name=name,
            shown=shown,
            undo=undo_of(ws, tx, version, tx.runs.get(version.run_id)) if at is None else None,
            stale=reasons_of(ws, tx, declared.name, partition) if at is None else (),
            values=business_values(rows[0].values) if rows else {},
            problem=problem,
            causes=causes,
            periods=periods,
            publications=tuple(publications_behind(tx, version, computed_by, seen.publication_id)),
            inputs=inputs,
            records=records,
        )


def _followed(tx: ReadTransaction, version: PartitionVersion, values: Texts) -> _Row:
    """A row of a version, from which it is followed what the version that it replaced was computed from."""
    run_id, before = _computed_by(values, version), _replaced(tx, version)
    changed = ChangedRow(partition=version.partition, values=values, is_gone=False, now=version, before=before)
    return _Row(partition=version.partition, run_id=run_id, values=values, changed=changed)


def _replaced(tx: ReadTransaction, version: PartitionVersion) -> PartitionVersion | None:
    if not version.replaces:
        return None
    return tx.versions.pinned(version.table, [(version.partition, version.replaces)])[version.partition]


def _of_the_version_that_brought(
    ws: Workspace, tx: ReadTransaction, version: PartitionVersion, row: _Row, key: Mapping[str, str]
) -> _Row | None:
    """The row in the earliest version that has its values in a row up to this one; None where that is this one."""
    found: _Row | None = None
    for _ in range(_MOST_SEARCHED):
        earlier = _replaced(tx, version)
        if earlier is None:
            break
        try:
            rows = rows_with_key(ws.lake, version.table, earlier.files, key, most=1)
        except BackfillError:
            break  # Its files are not there any more.
        if not rows or business_values(rows[0]) != business_values(row.values):
            break
        version, found = earlier, _followed(tx, earlier, rows[0])
    return found


_MOST_SEARCHED = 10
"""In so many earlier versions at most a row is looked for that readers do not see any more."""


def _with_the_last_seen(
    ws: Workspace, tx: ReadTransaction, partition: date, nothing: NothingThen, periods: Sequence[Period]
) -> NothingThen:
    """The refusal with the last time, before that which was asked for, at which readers saw the row."""
    # Of a version that was replaced at its own instant no time is that at which it was seen.
    ended = [each for each in periods if each.until and each.until > each.since]
    earlier = [each for each in ended if nothing.at is None or (each.until and each.until <= nothing.at)]
    seen = {each.version: each for each in earlier if each.version}
    for period in sorted(seen.values(), key=lambda each: each.since, reverse=True)[:_MOST_SEARCHED]:
        (version,) = tx.versions.pinned(nothing.table, [(partition, period.version)]).values()
        if tx.runs.header(version.run_id).makes is VersionState.EXPIRED:
            continue
        with suppress(BackfillError):  # Its files are not there any more.
            if rows_with_key(ws.lake, nothing.table, version.files, nothing.key, most=1):
                nothing.seen_last_at = _within(period)
                break
    return nothing


def _within(period: Period) -> datetime:
    """An instant of a period that is over: its last whole second, or, of a shorter one, near its beginning."""
    last = (period.until or period.since).replace(microsecond=0) - timedelta(seconds=1)
    if last + timedelta(seconds=1) > period.since:
        return last
    return period.since if period.since.microsecond else period.since + timedelta(microseconds=1)


def _seen_at(periods: Sequence[Period], at: datetime | None) -> Period | None:
    """The period at a time, unless readers saw no version then."""
    reached = [each for each in periods if at is None or each.since <= at]
    return reached[-1] if reached and reached[-1].version else None


def _inputs(
    ws: Workspace, tx: ReadTransaction, table: str, rows: tuple[_Row, ...], most: int
) -> tuple[tuple[ContributingRows, ...], tuple[TracedRecord, ...], tuple[TracedCause, ...]]:
    """The rows from which some rows of a table were computed, level by level, their landed records, and what changed
    them."""
    behind = LandedBehind(ws=ws, tx=tx)
    found: list[ContributingRows] = []
    records: dict[str, TracedRecord] = {}
    causes: dict[str, TracedCause] = {}
    waiting = [(table, rows)] if rows else []
    while waiting:
        above, followed = waiting.pop(0)
        changed = [row.changed for row in followed if row.changed]
        causes |= {str(cause): cause for cause in causes_in(ws, tx, above, changed)}
        if isinstance(ws.domain.table(above), SourceTable):
            records |= {str(each): each for each in _records(ws, tx, above, followed)}
            continue
        moving = [row for row in followed if row.changed and not row.changed.is_restored]
        replaced = {(row.partition, row.changed.before.run_id) for row in moving if row.changed and row.changed.before}
        before = _reads(behind, above, replaced)
        now = _reads(behind, above, {(row.partition, row.run_id) for row in moving})
        for read, reads in _reads(behind, above, {(row.partition, row.run_id) for row in followed}).items():
            moved = _changed(now.get(read, {}), before[read]) if read in before else None
            contributing, below = _contributing(behind, above, followed, read, reads, moved, most)
            found.append(contributing)
            waiting += [(read, below)] if below else []
    return tuple(found), tuple(records.values()), tuple(causes.values())


Moved: TypeAlias = Mapping[date, tuple[Made | None, Made | None]]
"""What was read of partitions whose files differ, and what was read before."""


def _changed(now: Mapping[date, Made], before: Mapping[date, Made]) -> Moved:
    digests = [{day: made.files.digest for day, made in reads.items()} for reads in (now, before)]
    days = sorted(now.keys() | before.keys())
    return {day: (now.get(day), before.get(day)) for day in days if digests[0].get(day) != digests[1].get(day)}


def _reads(
    behind: LandedBehind, table: str, versions: Collection[tuple[date, str]]
) -> Mapping[str, Mapping[date, Made]]:
    """The inputs from which some partitions of runs were computed, by table and partition."""
    wanted = {read for partition, run_id in versions for read in behind.reads(run_id, table, partition)}
    found: dict[str, dict[date, Made]] = {}
    # A partition that two versions were read of is followed in the later one; what a set staged comes after them.
    in_order = sorted(wanted, key=lambda read: (read.table, read.from_run or "", read.partition, read.version))
    for read, made in behind.made(in_order).items():
        found.setdefault(read.table, {})[read.partition] = made
    return found


def _contributing(
    behind: LandedBehind,
    above: str,
    rows: Sequence[_Row],
    table: str,
    reads: Mapping[date, Made],
    moved: Moved | None,
    most: int,
) -> tuple[ContributingRows, tuple[_Row, ...]]:
    ws, declared = behind.ws, behind.ws.domain.table(table)
    by = tuple(name for name in key_columns(ws, above) if name in declared.schema.fieldNames())
    seen = ContributingRows(
        table=table,
        of=ws.domain.table(above).name,
        by=by,
        partitions=Partitions.of(declared.partition.grain, reads),
        count=None,
        changed=None,
        rows=(),
        problem=None,
    )

    def keys_of(chosen: Iterable[_Row]) -> list[dict[str, str]]:
        return [dict(each) for each in {tuple((name, row.values[name] or "") for name in by): None for row in chosen}]

    origins = {file.path: made for made in reads.values() for file in made.files.files}
    read = FileSet.of(file for made in reads.values() for file in made.files.files)
    among, key = _given(ws.domain.table(above), declared), key_columns(ws, table)
    try:
        first = None
        if moved is not None:
            first = _moved_rows(behind, table, moved, keys_of(row for row in rows if row.changed), among, key)
        known = list(first.changed) if first else []
        found = rows_with_keys(ws.lake, table, read, keys_of(rows), most=most + len(known), among=among)
    except BackfillError as error:
        return replace(seen, problem=error.message), ()
    same = {(row.partition, *row.values.items()) for row in known}
    others = [
        _Row(partition=made.partition, run_id=_computed_by(values, made), values=values, changed=None)
        for path, values in found.rows
        for made in [origins[path]]
        if (made.partition, *values.items()) not in same
    ]

    def in_order(chosen: Iterable[_Row]) -> list[_Row]:
        return sorted(chosen, key=lambda row: (row.partition, [row.values.get(name) or "" for name in key]))

    listed = [*in_order(known), *in_order(others[: max(most - len(known), 0)])]
    contributing = replace(
        seen,
        count=found.count,
        changed=first.count if first else None,
        rows=tuple(_traced(behind.tx, declared, row, is_changed=row.changed is not None) for row in listed),
        replaced=tuple(
            _traced(behind.tx, declared, row, is_changed=True) for row in in_order(first.replaced if first else ())
        ),
    )
    return contributing, (*listed, *(row for row in (first.replaced if first else ()) if row.changed))


def _traced(tx: ReadTransaction, table: Table, row: _Row, *, is_changed: bool) -> TracedRow:
    number, import_id = row.values.get(_RECORD), row.values.get(_IMPORT)
    return TracedRow(
        partition=partition_text(table.partition.grain, row.partition),
        values=business_values(row.values),
        is_changed=is_changed,
        import_id=import_id,
        file=tx.imports.get(import_id).name if import_id else None,
        record=None if number is None else int(number),
    )


def _given(above: Table, table: Table) -> Among | None:
    """The condition for the rows of a table that a transform was given, null for all: for a changelog the current
    ones, without `changes`."""
    if not isinstance(above, DerivedTable) or not isinstance(table, SourceTable) or table.operation is None:
        return None
    if any(above.inputs[argument].name == table.name for argument in above.changes):
        return None
    return {OPERATION: STATES, ENDED_BY: (None,)}


_MOST_CHANGED = 500
"""How many rows that changed are followed at most, however few of the others are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MovedRows:
    """The rows that changed."""

    count: int  #: How many are new or changed.
    changed: tuple[_Row, ...]  #: Some of them.
    #: What some of them were, and those that are not there any more: only these have `changed`.
    replaced: tuple[_Row, ...]


def _moved_rows(
    behind: LandedBehind,
    table: str,
    moved: Moved,
    keys: Sequence[Mapping[str, str]],
    among: Among | None,
    key: Sequence[str],
) -> _MovedRows | None:
    """The rows that changed; None where what they replaced cannot be read any more."""
    count, changed, replaced, lake = 0, list[_Row](), list[_Row](), behind.ws.lake
    try:
        for day, (now, before) in moved.items():
            files, earlier = (made.files if made else FileSet.of(()) for made in (now, before))
            most = max(_MOST_CHANGED - len(changed), 1)
            new = changed_rows(lake, table, files, earlier, keys, most=most, among=among)
            old = changed_rows(lake, table, earlier, files, keys, most=_MOST_CHANGED, among=among)
            count += new.count
            rollback, is_restored = rollback_between(behind.tx, table, day, before, now)
            there = {tuple(values.get(name) for name in key) for _, values in new.rows}
            for (_, values), made, is_old in (
                *((each, now, False) for each in new.rows),
                *((each, before, True) for each in old.rows),
            ):
                assert made is not None, "its files have the row"
                is_gone = is_old and tuple(values.get(name) for name in key) not in there
                left = now or made
                row = ChangedRow(
                    partition=day,
                    values=values,
                    is_gone=is_gone,
                    now=left,
                    before=before,
                    rollback=rollback,
                    is_restored=is_restored,
                )
                run_id = left.run_id if is_old else _computed_by(values, made)
                followed = None if is_old and not is_gone else row
                found = _Row(partition=day, run_id=run_id, values=values, changed=followed)
                (replaced if is_old else changed).append(found)
    except BackfillError:
        return None
    return _MovedRows(count=count, changed=tuple(changed[:_MOST_CHANGED]), replaced=tuple(replaced[:_MOST_CHANGED]))


def _records(ws: Workspace, tx: ReadTransaction, table: str, rows: Iterable[_Row]) -> Iterator[TracedRecord]:
    declared, names = ws.domain.table(table), key_columns(ws, table)
    for row in rows:
        import_id, record = row.values.get(_IMPORT), row.values.get(_RECORD)
        if import_id:
            yield TracedRecord(
                landed=tx.imports.get(import_id),
                record=int(record) if record is not None else None,
                table=table,
                partition=partition_text(declared.partition.grain, row.partition),
                key={name: row.values.get(name) for name in names},
                is_replaced=row.changed is not None and row.changed.is_gone,
            )


def _computed_by(values: Texts, made: Made) -> str:
    """The run that computed a row: an earlier one than that which made its version, where that kept the row."""
    return values.get(RUN_ID) or made.run_id


def _words(key: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


# Trace of a number: its value, the publications behind it, and the rows and records that it was computed from.

_MORE = words("To follow more of them: ", step(Option("rows", "N")), ".")


_EVERY = words("Every row of the tables: ", step(Option("json")), ".")
_MOST = 20
"""How many rows of a table a terminal shows."""


def trace_page(found: Trace, *, more: Value = _MORE, every: Value = _EVERY) -> Page:
    """A number with its causes and its sources.

    Args:
        more: How a reader follows more rows.
        every: How a reader of a terminal, which shows the first of many, sees every row.
    """
    seen = found.seen
    periods = [
        (each.version or "none", each.since, each.until or "now", publication_ref(each.publication_id))
        for each in found.periods
    ]
    lengths = [len(found.records), *(len(each.rows) + len(each.replaced) for each in found.inputs)]
    return page(
        f"{found.table} {found.partition}{f': {key_text(found.key)}' if found.key else ''}",
        stale_note(found.table, found.stale),
        Note(text=f"{found.asked_day} is a day of the partition {found.partition}: this is the number of all its days.")
        if found.asked_day
        else None,
        facts(
            ("at", found.at),
            ("version", seen.version),
            (f"published in {found.table} from" if found.name else "readers saw it from", seen.since),
            ("until", seen.until or "now"),
            *found.values.items(),
            ("to undo it", found.undo),
        ),
        Note(text=f"Its values cannot be shown: {found.problem}", tone=Tone.ATTENTION) if found.problem else None,
        times_shown(found.table, found.name, found.shown),
        section("Last change of the number", _causes(found), *_codes(found)),
        section("Publications, back to the request", _publications(found)),
        section(
            f"Every version in {found.table}" if found.name else "Every version that readers saw",
            table(["version", "from", "until", "by"], periods),
        ),
        *(_rows(each, more) for each in found.inputs),
        section("Landed records", _records_block(found)),
        Note(text=every, tone=Tone.SOFT) if every and max(lengths, default=0) > _MOST else None,
    )


_CAUSES = {
    CauseOfNumber.ROLLBACK: "rollback",
    CauseOfNumber.RELEASE: "release",
    CauseOfNumber.CONFIGURATION: "configuration",
    CauseOfNumber.REFERENCE: "reference",
    CauseOfNumber.RECORD: "landed record",
    CauseOfNumber.DELETE: "delete",
    CauseOfNumber.WITHDRAWAL: "withdrawal",
    CauseOfNumber.RESTORATION: "restoration",
}


def _causes(found: Trace) -> TableBlock:
    rows = [
        (
            _CAUSES[each.cause],
            f"{each.table} {each.partition}{f', {key_text(each.key)}' if each.key else ''}",
            _subject(each),
            _number(each.record),
            each.by,
            each.at,
            each.why,
        )
        for each in found.causes
    ]
    heads = ["what", "of", "file or version", "record", "by", "at", "why"]
    return table(heads, rows, numbers=["record"])


def _codes(found: Trace) -> Iterator[Note]:
    for code in dict.fromkeys(each.code for each in found.causes if each.code):
        yield Note(text=words("How the code differs: ", code), tone=Tone.SOFT)


def _subject(cause: TracedCause) -> Value:
    if cause.cause is CauseOfNumber.ROLLBACK:
        return words("of ", publication_ref(cause.subject))
    if cause.later is None:
        return cause.subject
    earlier = "none" if cause.earlier is None else cause.earlier
    same = cause.earlier == cause.later
    return f"{cause.subject} {cause.later}, edited" if same else f"{cause.subject}: {earlier}, then {cause.later}"


def _publications(found: Trace) -> TableBlock:
    rows = [
        (
            publication_ref(each.publication_id),
            each.table,
            each.at,
            run_ref(each.run_id),
            _released(each),
            each.requested_by,
            each.approved_by,
            each.ran_by,
            each.reason,
        )
        for each in found.publications
    ]
    heads = ["publication", "table", "at", "run", "release", "asked by", "approved by", "run by", "reason"]
    return table(heads, rows, whole=["publication", "run"])


def _released(found: TracedPublication) -> str:
    if found.undoes:
        return f"rolled {found.release} back"
    return f"{found.release}, which kept the row" if found.kept else found.release


def _rows(found: ContributingRows, more: Value) -> Section | None:
    """Rows of a table, and what those that changed were before; of a source each with its landed record."""
    every = (*found.rows, *found.replaced)
    columns = list(dict.fromkeys(name for row in every for name in row.values))
    marks, is_source = bool(found.changed or found.replaced), any(row.import_id for row in every)
    rows = [
        (
            Ref(place=Place.PARTITION, id=row.partition, table=found.table),
            *([mark if row.is_changed else ""] if marks else []),
            *(row.values.get(name) for name in columns),
            *((row.file, _number(row.record)) if is_source else ()),
        )
        for mark, listed in (("yes", found.rows), ("was", found.replaced))
        for row in listed
    ]
    heads = ["partition", *(["changed"] if marks else []), *columns, *(["file", "record"] if is_source else [])]
    return section(
        f"{found.table}, from which {found.of} was computed",
        *(Note(text=text, tone=Tone.SOFT) for text in _said(found)),
        Note(text=more, tone=Tone.SOFT) if found.count and found.count > len(found.rows) else None,
        table(heads, rows, most=_MOST),
    )


def _number(record: int | None) -> str | None:
    """The number of a record, as an editor writes that of its line."""
    return None if record is None else str(record)


def _said(found: ContributingRows) -> Iterator[str]:
    yield f"Read: {found.partitions}."
    if found.problem:
        yield f"Its rows cannot be named: {found.problem}."
    elif found.count is not None:
        more = f"; followed: the first {count_of(len(found.rows), 'row')}" if found.count > len(found.rows) else ""
        first = ", those that changed before the others" if more and found.changed else ""
        same = f" with the same {', '.join(found.by)}" if found.by else ", all that was read"
        yield f"{count_of(found.count, 'row')}{same}{more}{first}."
    if found.changed is not None:
        changed = f"{found.changed:,} of them" if found.changed else "None of them"
        is_or_are = "is" if found.changed == 1 else "are"
        yield f"{changed} {is_or_are} new or changed since the version of {found.of} that was replaced."


def _records_block(found: Trace) -> TableBlock:
    rows = [
        (
            f"{each.table} {each.partition}",
            key_text(each.key),
            each.landed.import_id,
            each.landed.name,
            _number(each.record),
            "was" if each.is_replaced else "",
            each.landed.landed_by,
            each.landed.landed_at,
        )
        for each in found.records
    ]
    heads = ["row of", "key", "import", "file", "record", "", "landed by", "landed"]
    return table(heads, rows, numbers=["record"], whole=["import"], most=_MOST)
