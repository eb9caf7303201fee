"""Trace of a number: the publications behind it, and the rows and landed records that it was computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import islice

from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.core.identity import FileSet
from backfill_assets.domain import SourceTable
from backfill_assets.lake.row_values import Texts, rows_with_key, rows_with_keys
from backfill_assets.ledger.records import Action, Period
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.partitions import Partitions, partition_of, partition_text
from backfill_assets.report.errors import NothingThen
from backfill_assets.report.fresh import reasons_of
from backfill_assets.report.landed_behind import LandedBehind, Made
from backfill_assets.report.partition import approver_of
from backfill_assets.report.row_history import chosen_key, key_columns
from backfill_assets.staleness.ranges import Reason
from backfill_assets.workspace import Workspace

MOST_ROWS = 20
"""How many rows of a table are followed to what they were computed from, unless more are asked for."""

_IMPORT, _RECORD = "_import_id", "_row"
_LINEAGE = "_"


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
        reason: Why the run was planned, or rolled back.
        requested_by: Who asked for it.
        approved_by: Who approved it, or null.
        follows: The publications that it follows, those of the same set whose rows it was computed from, or those whose
            versions a rollback brought back.
    """

    publication_id: str
    undoes: str | None
    table: str
    at: datetime | None
    run_id: str
    release: str
    reason: str
    requested_by: str
    approved_by: str | None
    follows: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRow:
    """A row that contributed.

    Attributes:
        partition: Its partition, as a person reads it.
        values: Its values by column, as text or null.
    """

    partition: str
    values: Mapping[str, str | None]


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
        rows: The first of them.
        problem: Why they cannot be found, or null.
    """

    table: str
    of: str
    by: tuple[str, ...]
    partitions: Partitions
    count: int | None
    rows: tuple[TracedRow, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRecord:
    """A record of a landed file.

    Attributes:
        import_id: The import.
        file: The name of the file as it came.
        record: The number of the record in the file; for JSONL, the line.
        landed_by: Who landed the file.
        landed_at: When it had landed.
    """

    import_id: str
    file: str
    record: int | None
    landed_by: str
    landed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """From a number to its causes and its sources.

    Attributes:
        table: Its table.
        partition: Its partition, as a person reads it.
        key: By column, the value that was asked for.
        at: The time for which it was asked; null for now.
        seen: During which time readers saw the version.
        stale: Why it does not follow from the present any more; empty where it does, or of an earlier time.
        values: The values of the row by column, as text or null; empty when they cannot be read.
        problem: Why they cannot be read, or null.
        periods: Every version that readers saw of the partition, in order; one that was restored is there twice.
        publications: The publication of the version, and those that it follows, up to what a person asked for.
        inputs: The rows that it was computed from, table by table down to the sources.
        records: The landed records of the rows of sources.
    """

    table: str
    partition: str
    key: Mapping[str, str]
    at: datetime | None
    seen: Period
    stale: tuple[Reason, ...]
    values: Mapping[str, str | None]
    problem: str | None
    periods: tuple[Period, ...]
    publications: tuple[TracedPublication, ...]
    inputs: tuple[ContributingRows, ...]
    records: tuple[TracedRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Some rows of a table, and the partition and the run of each."""

    table: str
    rows: tuple[tuple[date, str, Texts], ...]


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
        Refused: A column of the key is missing, or was named that is none.
    """
    declared = ws.domain.table(table)
    partition, grain = partition_of(declared.partition.grain, day), declared.partition.grain
    described = partition_text(grain, partition)
    given = chosen_key(ws, declared.name, key)
    with ws.ledger.read() as tx:
        periods = tx.publications.periods(declared.name, partition)
        seen = _seen_at(periods, at)
        if seen is None:
            raise NothingThen(table=declared.name, partition=described, at=at, what="version")
        (version,) = tx.versions.pinned(declared.name, [(partition, seen.version)]).values()
        problem: str | None = None
        rows: tuple[tuple[date, str, Texts], ...] = ()
        try:
            found = rows_with_key(ws.lake, declared.name, version.files, given, most=1)
        except InvalidRange:
            raise  # What the reader has typed, and not what became of the files.
        except BackfillError as error:
            # Who asked for it and who approved it is known all the same.
            problem = error.message
        else:
            if not found:
                raise NothingThen(table=declared.name, partition=described, at=at, what=f"row with {_words(given)}")
            rows = ((partition, version.run_id, found[0]),)
        inputs, sources = _inputs(ws, tx, _Rows(table=declared.name, rows=rows), most) if rows else ((), ())
        return Trace(
            table=declared.name,
            partition=described,
            key=given,
            at=at,
            seen=seen,
            stale=reasons_of(ws, tx, declared.name, partition) if at is None else (),
            values=_business(rows[0][2]) if rows else {},
            problem=problem,
            periods=periods,
            publications=tuple(_publications(tx, version.publication_id)),
            inputs=inputs,
            records=tuple(_records(tx, sources)),
        )


def _seen_at(periods: Sequence[Period], at: datetime | None) -> Period | None:
    """The period at a time, unless readers saw no version then."""
    reached = [each for each in periods if at is None or each.since <= at]
    return reached[-1] if reached and reached[-1].version else None


def _publications(tx: ReadTransaction, publication_id: str) -> Iterator[TracedPublication]:
    """A publication and those that it follows, each once."""
    waiting, seen = [publication_id], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        header = tx.publications.header(name)
        run = tx.runs.get(header.run_id)
        manifest, is_undone = run.manifest, header.action is Action.ROLLBACK
        follows = tx.publications.restored_by(name) if is_undone else tuple(_came_from(tx, manifest))
        waiting += follows
        yield TracedPublication(
            publication_id=name,
            undoes=header.undoes,
            table=header.table,
            at=header.finished_at,
            run_id=run.run_id,
            release=f"{manifest.transform} {manifest.transform_version}",
            reason=header.reason if is_undone else manifest.reason,
            requested_by=header.by if is_undone else manifest.requested_by,
            approved_by=None if is_undone else approver_of(tx, run),
            follows=follows,
        )


def _came_from(tx: ReadTransaction, manifest: Manifest) -> Iterator[str]:
    """The publications that a run follows, and those of the runs of its set whose rows it read."""
    if manifest.cause.kind is CauseKind.FOLLOW_UP:
        yield from manifest.cause.publications
    read = {pin.from_run: None for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    for run_id in read:
        made = (each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH)
        yield from (each.publication_id for each in islice(made, 1))


def _inputs(
    ws: Workspace, tx: ReadTransaction, start: _Rows, most: int
) -> tuple[tuple[ContributingRows, ...], Sequence[Texts]]:
    """The rows from which some rows were computed, level by level, and those of sources."""
    behind = LandedBehind(ws=ws, tx=tx)
    found: list[ContributingRows] = []
    sources: list[Texts] = []
    level = [start]
    while level:
        below: list[_Rows] = []
        for rows in level:
            if isinstance(ws.domain.table(rows.table), SourceTable):
                sources += [values for _, _, values in rows.rows]
                continue
            for table, reads in _reads(behind, rows).items():
                contributing, followed = _contributing(ws, rows, table, reads, most)
                found.append(contributing)
                below += [followed] if followed.rows else []
        level = below
    return tuple(found), sources


def _reads(behind: LandedBehind, rows: _Rows) -> Mapping[str, Mapping[date, Made]]:
    """What was read for some rows, by table and partition."""
    wanted = {read for partition, run_id, _ in rows.rows for read in behind.reads(run_id, rows.table, partition)}
    found: dict[str, dict[date, Made]] = {}
    # A partition that two versions were read of is followed in the later one; what a set staged comes after them.
    in_order = sorted(wanted, key=lambda read: (read.table, read.from_run or "", read.partition, read.version))
    for read, made in behind.made(in_order).items():
        found.setdefault(read.table, {})[read.partition] = made
    return found


def _contributing(
    ws: Workspace, rows: _Rows, table: str, reads: Mapping[date, Made], most: int
) -> tuple[ContributingRows, _Rows]:
    declared, above = ws.domain.table(table), ws.domain.table(rows.table)
    grain = declared.partition.grain
    by = tuple(name for name in key_columns(ws, rows.table) if name in declared.schema.fieldNames())
    seen = ContributingRows(
        table=table,
        of=above.name,
        by=by,
        partitions=Partitions.of(grain, reads),
        count=None,
        rows=(),
        problem=None,
    )
    keys = list({tuple((name, values[name] or "") for name in by): None for _, _, values in rows.rows})
    origins = {file.path: (day, made.run_id) for day, made in reads.items() for file in made.files.files}
    read = FileSet.of(file for made in reads.values() for file in made.files.files)
    try:
        found = rows_with_keys(ws.lake, table, read, [dict(each) for each in keys], most=most)
    except BackfillError as error:
        return replace(seen, problem=error.message), _Rows(table=table, rows=())
    followed = tuple((*origins[path], values) for path, values in found.rows)
    shown = tuple(
        TracedRow(partition=partition_text(grain, day), values=_business(values)) for day, _, values in followed
    )
    return replace(seen, count=found.count, rows=shown), _Rows(table=table, rows=followed)


def _records(tx: ReadTransaction, sources: Sequence[Texts]) -> Iterator[TracedRecord]:
    named = {(values[_IMPORT], values.get(_RECORD)) for values in sources if values.get(_IMPORT)}
    for import_id, record in sorted(named, key=lambda each: (str(each[0]), int(each[1] or 0))):
        found = tx.imports.get(str(import_id))
        yield TracedRecord(
            import_id=found.import_id,
            file=found.original_path,
            record=int(record) if record is not None else None,
            landed_by=found.landed_by,
            landed_at=found.landed_at,
        )


def _business(values: Texts) -> Texts:
    return {name: value for name, value in values.items() if not name.startswith(_LINEAGE)}


def _words(key: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())
