"""Trace of a number: the publications behind it, and the rows and landed records that it was computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import islice

from backfill_assets.core.columns import RUN_ID
from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.core.identity import FileSet
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.domain.operations import ENDED_BY, OPERATION, STATES
from backfill_assets.lake.row_values import Among, FoundRows, Texts, changed_rows, rows_with_key, rows_with_keys
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import Action, PartitionVersion, Period
from backfill_assets.ledger.table_acts import ShownPeriod
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.partitions import Partitions, partition_of, partition_text
from backfill_assets.planning.reasons import Reason
from backfill_assets.report.errors import NothingThen
from backfill_assets.report.fresh import reasons_of
from backfill_assets.report.history import approver_of, never_published, times_shown
from backfill_assets.report.landed_behind import LandedBehind, Made
from backfill_assets.report.row_history import business_values, chosen_key, key_columns
from backfill_assets.workspace import Workspace

MOST_ROWS = 20
"""How many rows of a table are followed to what they were computed from, unless more are asked for."""

_IMPORT, _RECORD = "_import_id", "_row"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPublication:
    """A publication, or a rollback, that brought a number about.

    Attributes:
        publication_id: The publication or the rollback.
        undoes: Of a rollback, the publication that it took back; null otherwise.
        table: The table that it changed.
        at: When readers saw it first; null for one that never landed.
        run_id: The run whose rows it published, or took back.
        release: The transform and its release, of that run.
        kept: Whether it kept the row as an earlier one had published it, because its run changes other rows.
        reason: Why the run was planned, or rolled back.
        requested_by: Who asked for it.
        approved_by: Who approved it, or null.
        ran_by: Who computed the run; null of a rollback.
        follows: The publications that it follows, those of the same set whose rows it was computed from, or those whose
            versions a rollback brought back.
    """

    publication_id: str
    undoes: str | None
    table: str
    at: datetime | None
    run_id: str
    release: str
    kept: bool
    reason: str
    requested_by: str
    approved_by: str | None
    ran_by: str | None
    follows: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRow:
    """A row that contributed.

    Attributes:
        partition: Its partition, as a person reads it.
        values: Its values by column, as text or null.
        is_changed: Whether what was computed from it replaced a version that was not, as the row is new or has changed.
    """

    partition: str
    values: Mapping[str, str | None]
    is_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributingRows:
    """Rows of one table from which the rows above it were computed.

    Attributes:
        table: The table.
        of: The table whose rows were computed from them.
        by: The columns by which they were found: those of the key of the rows above that this table has too; empty
            where there are none, and every row that was read can have contributed.
        partitions: The partitions that were read for the rows above, warm-up included.
        count: How many rows of these partitions have these keys; null when they cannot be found.
        changed: How many of them are new or changed, against what the versions that the rows above replaced had been
            computed from; null where they replaced none, or it is not there any more.
        rows: Those that changed, then the others, up to so many as are followed; each by partition and key.
        problem: Why they cannot be found, or null.
    """

    table: str
    of: str
    by: tuple[str, ...]
    partitions: Partitions
    count: int | None
    changed: int | None
    rows: tuple[TracedRow, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRecord:
    """A record of a landed file.

    Attributes:
        landed: The file.
        record: The number of the record in it; for JSONL, the line.
    """

    landed: ImportRecord
    record: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """From a number to its causes and its sources.

    Attributes:
        table: Its table.
        partition: Its partition, as a person reads it.
        key: By column, the value that was asked for.
        at: The time for which it was asked; null for now.
        seen: During which time readers of the table saw the version.
        name: Of a version of a table, or of a table that has versions, the table whose readers are cut over; else null.
        shown: When the readers of `name` were shown this table, in order; empty without `name`.
        stale: Why it does not follow from the present any more; empty where it does, or of an earlier time.
        values: The values of the row by column, as text or null; empty when they cannot be read.
        problem: Why they cannot be read, or null.
        periods: Every version that readers saw of the partition, in order; one that was restored is there twice.
        publications: The publication of the version, that of the run that computed the row if another one did, and
            those that they follow, up to what a person asked for.
        inputs: The rows that it was computed from, table by table down to the sources.
        records: The landed records of the rows of sources.
    """

    table: str
    partition: str
    key: Mapping[str, str]
    at: datetime | None
    seen: Period
    name: str | None
    shown: tuple[ShownPeriod, ...]
    stale: tuple[Reason, ...]
    values: Mapping[str, str | None]
    problem: str | None
    periods: tuple[Period, ...]
    publications: tuple[TracedPublication, ...]
    inputs: tuple[ContributingRows, ...]
    records: tuple[TracedRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row that is followed.

    Attributes:
        run_id: The run that computed it.
        is_changed: Whether it is followed because it changed, so that what changed behind it is followed first.
    """

    partition: date
    run_id: str
    values: Texts
    is_changed: bool


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
        if tx.runs.header(version.run_id).kind.expires:
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
                nothing.what = f"row with {_words(given)}"
                raise _with_the_last_seen(ws, tx, partition, nothing, periods)
            rows = (
                _Row(partition=partition, run_id=_computed_by(found[0], version), values=found[0], is_changed=True),
            )
        computed_by = rows[0].run_id if rows else version.run_id
        inputs, sources = _inputs(ws, tx, declared.name, rows, most)
        name, shown = times_shown(ws, tx, declared)
        return Trace(
            table=declared.name,
            partition=described,
            key=given,
            at=at,
            seen=seen,
            name=name,
            shown=shown,
            stale=reasons_of(ws, tx, declared.name, partition) if at is None else (),
            values=business_values(rows[0].values) if rows else {},
            problem=problem,
            periods=periods,
            publications=tuple(_publications(tx, version, computed_by)),
            inputs=inputs,
            records=tuple(_records(tx, sources)),
        )


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
        if tx.runs.header(version.run_id).kind.expires:
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


def _publications(tx: ReadTransaction, version: PartitionVersion, computed_by: str) -> Iterator[TracedPublication]:
    """The publications behind a row and those that they follow, each once."""
    is_kept = computed_by != version.run_id
    waiting, seen = [version.publication_id, *(_made(tx, computed_by) if is_kept else ())], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        header = tx.publications.header(name)
        run = tx.runs.get(header.run_id)
        manifest, is_undone = run.manifest, header.action is Action.ROLLBACK
        keeps = is_kept and name == version.publication_id
        follows = tx.publications.restored_by(name) if is_undone else tuple(_came_from(tx, manifest))
        waiting += follows
        yield TracedPublication(
            publication_id=name,
            undoes=header.undoes,
            table=header.table,
            at=header.finished_at,
            run_id=run.run_id,
            release=f"{manifest.transform} {manifest.transform_version}",
            kept=keeps,
            reason=header.reason if is_undone else manifest.reason,
            requested_by=header.by if is_undone else manifest.requested_by,
            approved_by=None if is_undone else approver_of(run, tx.events.entries(entity_id=run.run_id), header),
            ran_by=None if is_undone else tx.events.ran_by([run.run_id]).get(run.run_id),
            follows=follows,
        )


def _came_from(tx: ReadTransaction, manifest: Manifest) -> Iterator[str]:
    """The publications that a run follows, and those of the runs of its set whose rows it read."""
    if manifest.cause.kind is CauseKind.FOLLOW_UP:
        yield from manifest.cause.publications
    read = {pin.from_run: None for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    for run_id in read:
        yield from _made(tx, run_id)


def _made(tx: ReadTransaction, run_id: str) -> Iterator[str]:
    """The publication of a run, if it has one."""
    made = (each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH)
    yield from (each.publication_id for each in islice(made, 1))


def _inputs(
    ws: Workspace, tx: ReadTransaction, table: str, rows: tuple[_Row, ...], most: int
) -> tuple[tuple[ContributingRows, ...], Sequence[Texts]]:
    """The rows from which some rows of a table were computed, level by level, and those of sources."""
    behind = LandedBehind(ws=ws, tx=tx)
    found: list[ContributingRows] = []
    sources: list[Texts] = []
    waiting = [(table, rows)] if rows else []
    while waiting:
        above, followed = waiting.pop(0)
        if isinstance(ws.domain.table(above), SourceTable):
            sources += [row.values for row in followed]
            continue
        before = _reads(behind, above, _replaced(tx, above, followed))
        for read, reads in _reads(behind, above, {(row.partition, row.run_id) for row in followed}).items():
            changed = _changed(reads, before[read]) if read in before else None
            contributing, below = _contributing(ws, above, followed, read, reads, changed, most)
            found.append(contributing)
            waiting += [(read, below)] if below else []
    return tuple(found), sources


def _replaced(tx: ReadTransaction, table: str, rows: Iterable[_Row]) -> set[tuple[date, str]]:
    """The versions that the changed rows replaced: their partitions and the runs that made them."""
    changed = {(row.partition, row.run_id) for row in rows if row.is_changed}
    staged = {run_id: tx.candidates.of_run(run_id) for _, run_id in changed}
    compared = {
        (partition, version)
        for partition, run_id in changed
        if partition in staged[run_id] and (version := staged[run_id][partition].compared_version)
    }
    return {(partition, found.run_id) for partition, found in tx.versions.pinned(table, compared).items()}


def _changed(reads: Mapping[date, Made], before: Mapping[date, Made]) -> Mapping[date, tuple[FileSet, FileSet]]:
    """The files that were read, and those that were read before, of the partitions where they differ."""
    earlier = {day: before[day].files if day in before else FileSet.of(()) for day in reads}
    return {day: (made.files, earlier[day]) for day, made in reads.items() if made.files.digest != earlier[day].digest}


def _reads(
    behind: LandedBehind, table: str, versions: Collection[tuple[date, str]]
) -> Mapping[str, Mapping[date, Made]]:
    """What some partitions of runs were computed from, by table and partition."""
    wanted = {read for partition, run_id in versions for read in behind.reads(run_id, table, partition)}
    found: dict[str, dict[date, Made]] = {}
    # A partition that two versions were read of is followed in the later one; what a set staged comes after them.
    in_order = sorted(wanted, key=lambda read: (read.table, read.from_run or "", read.partition, read.version))
    for read, made in behind.made(in_order).items():
        found.setdefault(read.table, {})[read.partition] = made
    return found


def _contributing(
    ws: Workspace,
    above: str,
    rows: Iterable[_Row],
    table: str,
    reads: Mapping[date, Made],
    changed: Mapping[date, tuple[FileSet, FileSet]] | None,
    most: int,
) -> tuple[ContributingRows, tuple[_Row, ...]]:
    declared = ws.domain.table(table)
    grain = declared.partition.grain
    by = tuple(name for name in key_columns(ws, above) if name in declared.schema.fieldNames())
    seen = ContributingRows(
        table=table,
        of=ws.domain.table(above).name,
        by=by,
        partitions=Partitions.of(grain, reads),
        count=None,
        changed=None,
        rows=(),
        problem=None,
    )
    chosen = {tuple((name, row.values[name] or "") for name in by): None for row in rows}
    keys = [dict(each) for each in chosen]
    origins = {file.path: made for made in reads.values() for file in made.files.files}
    read = FileSet.of(file for made in reads.values() for file in made.files.files)
    try:
        among = _given(ws.domain.table(above), declared)
        first = _changed_rows(ws, table, changed, keys, most, among) if changed is not None else None
        known = list(first.rows) if first else []
        found = rows_with_keys(ws.lake, table, read, keys, most=most + len(known), among=among)
    except BackfillError as error:
        return replace(seen, problem=error.message), ()
    chosen_rows = [*known, *(each for each in found.rows if each not in known)][:most]
    key = key_columns(ws, table)
    followed = sorted(
        (
            _Row(
                partition=made.partition,
                run_id=_computed_by(values, made),
                values=values,
                is_changed=place < len(known),
            )
            for place, (path, values) in enumerate(chosen_rows)
            for made in [origins[path]]
        ),
        key=lambda row: (not row.is_changed, row.partition, [row.values.get(n) or "" for n in key]),
    )
    shown = tuple(
        TracedRow(
            partition=partition_text(grain, row.partition),
            values=business_values(row.values),
            is_changed=row.is_changed,
        )
        for row in followed
    )
    count = first.count if first else None
    return replace(seen, count=found.count, changed=count, rows=shown), tuple(followed)


def _given(above: Table, table: Table) -> Among | None:
    """Which rows of a table a transform was given, null for all: of a changelog the current ones, without `changes`."""
    if not isinstance(above, DerivedTable) or not isinstance(table, SourceTable) or table.operation is None:
        return None
    if any(above.inputs[argument].name == table.name for argument in above.changes):
        return None
    return {OPERATION: STATES, ENDED_BY: (None,)}


def _changed_rows(
    ws: Workspace,
    table: str,
    changed: Mapping[date, tuple[FileSet, FileSet]],
    keys: Sequence[Mapping[str, str]],
    most: int,
    among: Among | None,
) -> FoundRows | None:
    """The rows that changed; None where what they replaced cannot be read any more."""
    count, rows = 0, list[tuple[str, Texts]]()
    try:
        for _, (files, before) in sorted(changed.items()):
            found = changed_rows(ws.lake, table, files, before, keys, most=max(most - len(rows), 1), among=among)
            count += found.count
            rows += found.rows
    except BackfillError:
        return None
    return FoundRows(count=count, rows=tuple(rows[:most]))


def _records(tx: ReadTransaction, sources: Sequence[Texts]) -> Iterator[TracedRecord]:
    named = {(values[_IMPORT], values.get(_RECORD)) for values in sources if values.get(_IMPORT)}
    for import_id, record in sorted(named, key=lambda each: (str(each[0]), int(each[1] or 0))):
        number = int(record) if record is not None else None
        yield TracedRecord(landed=tx.imports.get(str(import_id)), record=number)


def _computed_by(values: Texts, made: Made) -> str:
    """The run that computed a row: an earlier one than that which made its version, where that kept the row."""
    return values.get(RUN_ID) or made.run_id


def _words(key: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())
