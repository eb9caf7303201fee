"""Causes of a number: the publications that brought it about, and what differs behind its version and the one that it
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from itertools import islice

from backfill_assets.calendar.partitions import partition_text
from backfill_assets.capture.landed_files import STATEMENT, landing_files
from backfill_assets.core.next_steps import Command, Invocation, do
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import OPERATION, Operation
from backfill_assets.lake.row_values import Texts, records_with_keys
from backfill_assets.landing.conformed import IMPORT_ID, RESTORES
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.record_rules import REASON
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.provenance import DerivedProvenance, SourceProvenance
from backfill_assets.ledger.records import Action, PartitionVersion, Period, PublicationHeader
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.report.history import approver_of
from backfill_assets.report.landed_behind import Made
from backfill_assets.workspace import Workspace

# Publications behind a number: those that brought it about, back to what a person asked for.


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPublication:
    """A publication, or a rollback, that brought a number about."""

    publication_id: str  #: The publication or the rollback.
    undoes: str | None  #: Of a rollback, the publication that it took back; null otherwise.
    table: str  #: The table that it changed.
    at: datetime | None  #: When readers saw it first; null for one that never landed.
    run_id: str  #: The run whose rows it published, or took back.
    release: str  #: The transform and its release, of that run.
    kept: bool  #: True if it kept the row as an earlier one had published it, because its run changes other rows.
    reason: str  #: Why the run was planned, or rolled back.
    requested_by: str  #: Who asked for it.
    approved_by: str | None  #: Who approved it, or null.
    ran_by: str | None  #: Who computed the run; null of a rollback.
    #: The publications that it follows, those of the same set whose rows it was computed from, or those whose versions
    #: a rollback brought back.
    follows: tuple[str, ...]


def publications_behind(
    tx: ReadTransaction, version: PartitionVersion, computed_by: str, shown_by: str
) -> Iterator[TracedPublication]:
    """The publications behind a row and those that they follow, each once; first the rollback that restored it."""
    is_kept = computed_by != version.run_id
    waiting = [shown_by, version.publication_id, *(_made(tx, computed_by) if is_kept else ())]
    seen = set[str]()
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


# Causes of a number: what differs behind the version that has it and behind the version that it replaced.
#
# A rollback, another release, other references and settings, and the landed records and statements that changed
# its rows.


class CauseOfNumber(StrEnum):
    """A cause that changed a number: an act of a person, or what landed."""

    ROLLBACK = "ROLLBACK"
    RELEASE = "RELEASE"
    CONFIGURATION = "CONFIGURATION"
    REFERENCE = "REFERENCE"
    RECORD = "RECORD"
    DELETE = "DELETE"
    WITHDRAWAL = "WITHDRAWAL"
    RESTORATION = "RESTORATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCause:
    """One cause of a number."""

    cause: CauseOfNumber  #: Its kind.
    table: str  #: The table that it changed first.
    partition: str  #: The partition of that table, as a person reads it.
    key: Mapping[str, str | None]  #: Of a record or a statement, the key of the row that it changed; empty otherwise.
    subject: str  #: The file or statement, the reference, the release, or the publication that was rolled back.
    import_id: str | None = None  #: The import of a record or a statement; null otherwise.
    record: int | None = None  #: The number of the record in its file; for JSONL, the line; null otherwise.
    earlier: str | None = None  #: The release, or the version of the reference, before it; null otherwise.
    later: str | None = None  #: The same after it; null otherwise.
    by: str  #: Who landed, stated, requested or rolled back.
    #: When it landed, was published, or was rolled back; null where its run was not published itself.
    at: datetime | None
    why: str  #: The reason or the note; empty where there is none.
    code: Invocation | None = None  #: What prints how the code of the two releases differs; null where it is the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A row that is followed because it changed."""

    partition: date
    values: Texts  #: Its values, or those it had before, where it is not there any more.
    is_gone: bool  #: True if it is not there any more.
    now: Made  #: What its version was computed from.
    before: Made | None  #: The same of the version that was replaced; None where there was none.
    rollback: PublicationHeader | None = None  #: The rollback that came between these two; None where there was none.
    #: True if it brought back the version that the row is in, or what it was is gone from, so that nothing else changed
    #: it.
    is_restored: bool = False


def rollback_cause(header: PublicationHeader, partition: str) -> TracedCause:
    """The rollback from which on readers saw a version again."""
    return TracedCause(
        cause=CauseOfNumber.ROLLBACK,
        table=header.table,
        partition=partition,
        key={},
        subject=header.undoes or "",
        by=header.by,
        at=header.at,
        why=header.reason,
    )


def rollback_between(
    tx: ReadTransaction, table: str, partition: date, before: Made | None, now: Made | None
) -> tuple[PublicationHeader | None, bool]:
    """The rollback that led from a version that was read to the one that was read next, and whether it restored it."""
    if before is None or now is None:
        return None, False
    periods = tx.publications.periods(table, partition)
    was, then = (_version_of(tx, made, periods) for made in (before, now))
    if was is None or then is None:
        return None, False
    begun = next(place for place, each in enumerate(periods) if each.version == was)
    for each in periods[begun + 1 :]:
        if then < was and each.version == then:
            return tx.publications.header(each.publication_id), True
        if each.version == then:
            break
        # Versions count up: one before what was read is seen again where that was rolled back.
        if then > was and each.version < was:
            return tx.publications.header(each.publication_id), False
    return None, False


def _version_of(tx: ReadTransaction, made: Made, periods: Sequence[Period]) -> int | None:
    """The version that readers saw of what was read; None where they did not see it."""
    if isinstance(made, PartitionVersion):
        return made.version
    published = {each.publication_id for each in tx.publications.headers(run_id=made.run_id)}
    return next((each.version for each in periods if each.publication_id in published and each.version), None)


def causes_in(ws: Workspace, tx: ReadTransaction, table: str, changed: Sequence[ChangedRow]) -> Iterator[TracedCause]:
    """The causes of a change in some rows of a table: for a derived one, those other than its inputs; for a source,
    what landed."""
    declared = ws.domain.table(table)
    undone = {row.rollback.publication_id: row for row in reversed(changed) if row.rollback}
    for row in reversed(undone.values()):
        assert row.rollback is not None, "chosen above"
        yield rollback_cause(row.rollback, partition_text(declared.partition.grain, row.partition))
    changed = [row for row in changed if not row.is_restored]
    if isinstance(declared, SourceTable):
        by_partition: dict[date, list[ChangedRow]] = {}
        for row in changed:
            by_partition.setdefault(row.partition, []).append(row)
        for _, rows in sorted(by_partition.items()):
            yield from _landed(ws, tx, declared, rows)
        return
    seen: set[tuple[CauseOfNumber, str | None, str | None]] = set()
    for row in changed:
        for cause in _differences(tx, partition_text(declared.partition.grain, row.partition), declared.name, row):
            if (found := (cause.cause, cause.subject, cause.later)) not in seen:
                seen.add(found)
                yield cause


def _differences(tx: ReadTransaction, partition: str, table: str, row: ChangedRow) -> Iterator[TracedCause]:
    now, before = row.now.provenance, row.before.provenance if row.before else None
    if not isinstance(now, DerivedProvenance) or not isinstance(before, DerivedProvenance):
        return
    releases = (before.transform_version, now.transform_version)
    found: list[tuple[CauseOfNumber, str, tuple[str | None, str | None]]] = []
    if releases[0] != releases[1]:
        found.append((CauseOfNumber.RELEASE, now.transform, releases))
    elif now.code != before.code:
        found.append((CauseOfNumber.RELEASE, f"code of {now.transform}", releases))
    if now.configuration != before.configuration:
        found.append((CauseOfNumber.CONFIGURATION, f"configuration of {table}", (None, None)))
    for name, (version, sha256) in sorted(now.references.items()):
        earlier = before.references.get(name)
        if earlier != (version, sha256):
            found.append((CauseOfNumber.REFERENCE, name, (earlier[0] if earlier else None, version)))
    for cause, subject, versions in found:
        found_cause = _of_run(tx, row.now.run_id, table, partition, cause, subject, versions)
        is_code = cause is CauseOfNumber.RELEASE and now.code != before.code
        yield replace(found_cause, code=do(Command.CODE, before.code[:12], now.code[:12])) if is_code else found_cause


def _of_run(
    tx: ReadTransaction,
    run_id: str,
    table: str,
    partition: str,
    cause: CauseOfNumber,
    subject: str,
    versions: tuple[str | None, str | None] = (None, None),
) -> TracedCause:
    manifest = tx.runs.get(run_id).manifest
    made = [each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH]
    return TracedCause(
        cause=cause,
        table=table,
        partition=partition,
        key={},
        subject=subject,
        earlier=versions[0],
        later=versions[1],
        by=manifest.requested_by,
        at=made[0].finished_at if made else None,
        why=manifest.reason,
    )


def _landed(
    ws: Workspace, tx: ReadTransaction, source: SourceTable, rows: Sequence[ChangedRow]
) -> Iterator[TracedCause]:
    """The landed records and statements that changed rows of one partition of a source."""
    first = rows[0]
    if first.before is None:
        return
    known = _imports(first.before)
    new = [tx.imports.get(import_id) for import_id in _imports(first.now) if import_id not in known]
    by_id, place = {each.import_id: each for each in new}, partition_text(source.partition.grain, first.partition)
    unexplained: dict[tuple[str, ...], Mapping[str, str]] = {}
    for row in rows:
        values = {**row.values, source.partition.column: str(first.partition)}
        key = {name: values[name] or "" for name in source.key}
        landed = by_id.get(values.get(IMPORT_ID) or "")
        if landed is not None and not row.is_gone:
            yield _of_import(landed, source, place, key, values)
        else:
            unexplained[tuple(key.values())] = key
    if not unexplained:
        return
    columns = [*source.key, ROW, REASON, OPERATION, RESTORES]
    for landed in new:
        paths = landed.conformed.paths if landed.conformed else ()
        for record in records_with_keys(landing_files(ws.settings), paths, [*unexplained.values()], columns):
            if record.get(REASON) is None:
                yield _of_import(landed, source, place, {name: record[name] for name in source.key}, record)


def _of_import(
    landed: ImportRecord, source: SourceTable, partition: str, key: Mapping[str, str | None], values: Texts
) -> TracedCause:
    number = values.get(ROW)
    match values.get(OPERATION):
        case Operation.DELETE | Operation.TRUNCATE:
            cause = CauseOfNumber.DELETE
        case Operation.WITHDRAW:
            cause = CauseOfNumber.WITHDRAWAL
        case Operation.RESTORE:
            cause = CauseOfNumber.RESTORATION
        case _:
            cause = CauseOfNumber.RECORD
    return TracedCause(
        cause=cause,
        table=source.name,
        partition=partition,
        key=key,
        subject=landed.name,
        import_id=landed.import_id,
        record=None if number is None or landed.family == STATEMENT else int(number),
        by=landed.landed_by,
        at=landed.landed_at,
        why=landed.note,
    )


def _imports(made: Made) -> Iterable[str]:
    if not isinstance(made.provenance, SourceProvenance):
        return ()
    return [import_id for import_id, _ in made.provenance.imports]
