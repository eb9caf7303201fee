"""Landing of a file.

Every step is durable before the next begins: the raw copy, the ledger's record that landing has begun, the conformed
records, the quarantine, and last the ledger's record that it is landed. Only the last step makes anything visible, so
that a process that stops at any point loses nothing, and the same file can be landed again.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.crash_points import Point, Reached, carry_on
from backfill_assets.domain import SourceTable
from backfill_assets.errors import Refused, TakenOver, UnreadableFile
from backfill_assets.landing.archive import Archived, archive, remove_incoming
from backfill_assets.landing.classify import Account, account, recount
from backfill_assets.landing.conformed import conformed_folder, rejected_rows, write_conformed
from backfill_assets.landing.contract import Bounds
from backfill_assets.landing.imports import LIVE, OnDuplicate
from backfill_assets.landing.turn import TurnTaken, landing_turn
from backfill_assets.landing.versions import records_by_version
from backfill_assets.lease import LeaseTerms, renewed, this_process
from backfill_assets.ledger.import_records import ImportCounts, ImportDay, ImportRecord, OfferedFile
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.next_steps import Option, step
from backfill_assets.settings import Settings

Quarantine = Callable[[DataFrame, str], None]
"""Keeps the rejected records of an import, given its id; doing it again for the same import changes nothing."""

_SPARKS_REASON = re.compile(r"\[((?:FAILED_READ_FILE|PARQUET_|UNSUPPORTED_|MALFORMED_)[A-Z_.]*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The result of landing a file.

    Attributes:
        record: The import, as the ledger has it now.
        days: The event dates that have to be built again, in order.
        is_new: Whether something was landed, rather than ignored.
    """

    record: ImportRecord
    days: tuple[date, ...]
    is_new: bool


def land(
    *,
    ledger: Ledger,
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    path: Path,
    on_duplicate: OnDuplicate = OnDuplicate.IGNORE,
    by: str,
    quarantine: Quarantine,
    reached: Reached = carry_on,
) -> Landed:
    """Lands one file.

    Args:
        ledger: The ledger.
        spark: The session that reads the file.
        settings: Where the landing folder is, and the first day.
        source: The source table that the file is for.
        path: The file.
        on_duplicate: What to do when its content was landed before: leave it (`ignore`), refuse (`reject`), judge and
            count it again in its place (`reprocess`), or land it as a new arrival whose records win (`correct`).
        by: Who lands it.
        quarantine: Keeps the rejected records.
        reached: Called after every durable step.

    Raises:
        MissingInput: There is no such file.
        UnreadableFile: The file cannot be read at all, or lacks a required column.
        Refused: The path is not a file, or its content was landed before and `on_duplicate` is `reject`.
    """
    lease = LeaseTerms(attempt=secrets.token_hex(4), length=settings.lease)
    with landing_turn(settings.landing, source):
        _fail_abandoned(ledger, settings, source, by)
        archived = archive(path, landing=settings.landing, source=source)
        reached(Point.LAND_ARCHIVED)
        with ledger.read() as tx:
            known = [r for r in tx.imports.with_sha(source.name, archived.sha256) if r.landed_at is not None]
        latest = known[-1] if known else None
        old_days: tuple[ImportDay, ...] = ()
        if latest is None or on_duplicate is OnDuplicate.CORRECT:
            record = _begin(ledger, source, archived, on_duplicate, by, lease)
        elif latest.state in LIVE and on_duplicate is not OnDuplicate.REPROCESS:
            return _known(ledger, latest, path, on_duplicate, by)
        else:  # requested, or a reprocessing that stopped before its end
            record, old_days = _reopen(ledger, latest, by, lease)
        reached(Point.LAND_BEGUN)
        with _failing(ledger, record, path, by, lease), _renewed(ledger, record, lease):
            found = _conform(ledger, spark, settings, source, archived, record, quarantine, reached)
            days = _with_old_days(record, found.days, old_days)
            again = record.landed_at is not None
            recounted = _recounted(ledger, spark, settings, source, record, found) if again else {}
            with ledger.write() as tx:
                tx.imports.finish(
                    record.import_id,
                    counts=found.counts,
                    days=days,
                    schema_versions=found.schema_versions,
                    ignored_columns=found.ignored_columns or archived.probed.found.ignored_columns,
                    contract=source.contract_version,
                    superseded_elsewhere={} if again else found.superseded_elsewhere,
                    actor=by,
                    attempt=lease.attempt,
                )
                if recounted:
                    tx.imports.recount(recounted, because=record.import_id, actor=by)
                record = tx.imports.get(record.import_id)
        reached(Point.LAND_FINISHED)
    return Landed(record=record, days=tuple(day.event_date for day in days), is_new=True)


def _begin(
    ledger: Ledger, source: SourceTable, archived: Archived, on_duplicate: OnDuplicate, by: str, lease: LeaseTerms
) -> ImportRecord:
    offered = OfferedFile(
        source=source.name,
        sha256=archived.sha256,
        original_path=archived.original_path,
        stored_path=archived.stored_path,
        size_bytes=archived.size_bytes,
        format=str(archived.kind.format),
        compression=archived.kind.compression,
        on_duplicate=str(on_duplicate),
    )
    with ledger.write() as tx:
        return tx.imports.begin(offered, actor=by, lease=lease)


def _reopen(
    ledger: Ledger, record: ImportRecord, by: str, lease: LeaseTerms
) -> tuple[ImportRecord, tuple[ImportDay, ...]]:
    with ledger.write() as tx:
        days = tx.imports.days([record.import_id])
        tx.imports.reopen(record.import_id, str(OnDuplicate.REPROCESS), by, lease=lease)
        return tx.imports.get(record.import_id), days


def _known(ledger: Ledger, record: ImportRecord, path: Path, on_duplicate: OnDuplicate, by: str) -> Landed:
    """The content was landed before: refused, or ignored with a record of it."""
    if on_duplicate is OnDuplicate.REJECT:
        raise Refused(
            f"{path} has the content of {record.import_id}, landed from {record.original_path}.",
            next_step=step("land it with ", Option("on_duplicate", "ignore"), ", reprocess or correct"),
            import_id=record.import_id,
        )
    with ledger.write() as tx:
        tx.events.record(
            actor=by,
            entity="import",
            entity_id=record.import_id,
            action="duplicate_ignored",
            payload={"path": str(path)},
        )
    return Landed(record=record, days=(), is_new=False)


def _conform(
    ledger: Ledger,
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    archived: Archived,
    record: ImportRecord,
    quarantine: Quarantine,
    reached: Reached,
) -> Account:
    """Judges, counts and quarantines the records of an import that is LANDING."""
    stored = settings.landing / archived.stored_path
    name = Path(record.original_path).name
    raw = records_by_version(spark, stored, kind=archived.kind, probed=archived.probed, source=source, name=name)
    bounds = Bounds(first_day=settings.first_day, landed_at=record.first_seen_at)
    folder = conformed_folder(settings.landing, source, record.import_id)
    write_conformed(raw, folder, source=source, record=record, bounds=bounds)
    reached(Point.LAND_CONFORMED)
    with ledger.read() as tx:
        others = [r for r in tx.imports.records(source.name, LIVE) if r.import_id != record.import_id]
    record = replace(record, contract=source.contract_version)
    found = account(spark, settings.landing, source, record, others)
    # A reprocessed file may have had rejected records that are valid now: the quarantined ones are replaced.
    if found.counts.rejected or record.on_duplicate == OnDuplicate.REPROCESS:
        quarantine(rejected_rows(spark, settings.landing, source, record, file_name=name), record.import_id)
        reached(Point.LAND_QUARANTINED)
    return found


def _recounted(
    ledger: Ledger,
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    record: ImportRecord,
    found: Account,
) -> Mapping[str, ImportCounts]:
    """The counts of the other imports that change because this one was reprocessed in its place among them."""
    with ledger.read() as tx:
        others = [r for r in tx.imports.records(source.name, LIVE) if r.import_id != record.import_id]
    if not others:
        return {}
    present = replace(record, counts=found.counts, contract=source.contract_version)
    counts = recount(spark, settings.landing, source, [*others, present])
    return {r.import_id: counts[r.import_id] for r in others if counts[r.import_id] != r.counts}


def _with_old_days(
    record: ImportRecord, days: Sequence[ImportDay], old_days: Sequence[ImportDay]
) -> tuple[ImportDay, ...]:
    """The days of a reprocessed import: those it touched before have to be built again too."""
    present = {day.event_date for day in days}
    left = {day.event_date for day in old_days} - present
    gone = [ImportDay(import_id=record.import_id, event_date=day, events=0) for day in left]
    return tuple(sorted((*days, *gone), key=lambda day: day.event_date))


@contextmanager
def _failing(ledger: Ledger, record: ImportRecord, path: Path, by: str, lease: LeaseTerms) -> Iterator[None]:
    """An import whose landing stops with an error is FAILED at once; a killed process leaves that to `recover`."""
    try:
        yield
    except TakenOver:
        raise
    except BaseException as error:
        found = _SPARKS_REASON.search(str(error)) if isinstance(error, (PySparkException, Py4JError)) else None
        note = f"landing stopped: {found.group(1) if found else type(error).__name__}"
        with ledger.write() as tx:
            tx.imports.fail(record.import_id, note=note, actor=by, attempt=lease.attempt)
        if found is None:
            raise
        raise UnreadableFile(
            f"{path.name} cannot be read to its end ({found.group(1)}).",
            next_step="get the file again from its source",
            import_id=record.import_id,
        ) from error


def _renewed(ledger: Ledger, record: ImportRecord, lease: LeaseTerms) -> AbstractContextManager[None]:
    """Holds a lease while a file is landed. If the lease was lost, the last step is refused."""
    return renewed(lambda: ledger.renew_lease(record.import_id, lease), length=lease.length, lost=lambda: None)


def clean_up_landing(
    ledger: Ledger,
    settings: Settings,
    sources: Sequence[SourceTable],
    *,
    by: str,
    now: str | None = None,
    reached: Reached = carry_on,
) -> tuple[ImportRecord, ...]:
    """Fails the imports whose process has stopped, and removes what they left; imports in progress are skipped.

    Args:
        ledger: The ledger.
        settings: Where the landing folder is.
        sources: The source tables.
        by: Who cleans up.
        now: An import that is failed even if the lease of another machine has not ended.
        reached: Called after every durable step.

    Returns:
        The imports that were failed. Landing their files again works; `landed_at` of one that was being reprocessed
        is not None, and its days cannot be built until it is landed again.
    """
    failed: list[ImportRecord] = []
    for source in sources:
        try:
            with landing_turn(settings.landing, source, wait=False):
                failed += _fail_abandoned(ledger, settings, source, by, now, reached)
        except TurnTaken:
            continue
    return tuple(failed)


def _fail_abandoned(
    ledger: Ledger,
    settings: Settings,
    source: SourceTable,
    by: str,
    now: str | None = None,
    reached: Reached = carry_on,
) -> list[ImportRecord]:
    """Called with the turn: imports that are still LANDING belong to no process of this machine, and are failed unless
    the lease of another machine has not ended."""
    remove_incoming(settings.landing, source)
    with ledger.write() as tx:
        landing = tx.imports.records(source.name, [ImportState.LANDING])
        abandoned = [r for r in landing if r.import_id == now or not _is_landed_elsewhere(tx, r)]
        for record in abandoned:
            tx.imports.fail(record.import_id, note="landing stopped: its process is gone", actor=by)
    if abandoned:
        reached(Point.RECOVER_SWEPT)
    with ledger.read() as tx:
        used = {record.import_id for record in tx.imports.records(source.name, [*LIVE, ImportState.LANDING])}
    # For every unused import, not only for those that were LANDING: a process that failed the others may have stopped
    # at this line.
    for folder in conformed_folder(settings.landing, source, "").glob("*"):
        if folder.name not in used:
            shutil.rmtree(folder, ignore_errors=True)
    with ledger.read() as tx:
        return [tx.imports.get(record.import_id) for record in abandoned]


def _is_landed_elsewhere(tx: WriteTransaction, record: ImportRecord) -> bool:
    """Whether a process of another machine works on it: the turn only covers the processes of this one."""
    held = tx.leases.get(record.import_id)
    host = this_process().partition(":")[0]
    return held is not None and held.is_alive(tx.now) and held.machine.partition(":")[0] != host
