"""Landing of files.

Every step is durable before the next begins: the raw copy, the ledger's record that landing has begun, the conformed
records, the quarantine, and last the ledger's record that it is landed. Only the last step makes anything visible, so
that a process that stops at any point loses nothing, and the same file can be landed again. Small new files take these
steps together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from backfill_assets.capture.errors import Fault, FileRefused
from backfill_assets.capture.landed_files import Capture, Family, LandedFile
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import SourceTable
from backfill_assets.landing.again import take_in_anew
from backfill_assets.landing.attempt import Landed, Landing, is_about_a_file, landed_now, require_all, require_records
from backfill_assets.landing.batches import batches
from backfill_assets.landing.file_versions import Archived
from backfill_assets.landing.imports import STATEMENT, OnDuplicate
from backfill_assets.landing.turn import new_lease
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange


def land_files(
    work: Landing, captures: Sequence[Capture], on_duplicate: OnDuplicate, landed: Callable[[Landed], None]
) -> None:
    """Lands files in their order. Small new ones land together, with the result that each has alone.

    A refused file stops the rest; files before it land.

    Args:
        on_duplicate: What to do when content was landed before: leave it (`ignore`), refuse (`reject`), judge and count
            it again in its place (`reprocess`), or land it as a new arrival whose records win (`correct`).
        landed: Called for each file that has landed, in their order.
    """
    for batch in batches(captures):
        own = replace(work, lease=new_lease(work.settings))
        with own.turn():
            _land_batch(own, batch, on_duplicate, landed)


def _land_batch(
    work: Landing, captures: Sequence[Capture], on_duplicate: OnDuplicate, landed: Callable[[Landed], None]
) -> None:
    new: list[Archived] = []
    refused: BackfillError | None = None
    with work.ledger.read() as tx:
        names = _landed_names(tx, work.source)
    for capture in captures:
        try:
            files = list(work.captured(capture))
            for each in files:
                _require_own_name(each.file, names, [other.file for other in new], work.source, on_duplicate)
                work.require_as_offered(each.file, on_duplicate)
        except BackfillError as error:
            refused = error
            break
        for each in files:
            if _is_new(work, each, on_duplicate) and each.file.sha256 not in {other.file.sha256 for other in new}:
                new.append(each)
                continue
            _land_new(work, new, on_duplicate, landed)
            new = []
            landed(_land_one(work, each, on_duplicate))
    _land_new(work, new, on_duplicate, landed)
    if refused is not None:
        raise refused


def _is_new(work: Landing, archived: Archived, on_duplicate: OnDuplicate) -> bool:
    """Whether a file becomes an import of its own, and can land with others: without Spark it is known which version of
    the contract its records are in."""
    if archived.probe.version is None:
        return False
    return on_duplicate is OnDuplicate.CORRECT or _latest(work, archived.file) is None


def _latest(work: Landing, file: LandedFile) -> ImportRecord | None:
    """The import that landed this content last, if one did."""
    with work.ledger.read() as tx:
        known = [r for r in tx.imports.with_sha(work.source.name, file.sha256) if r.landed_at is not None]
    return known[-1] if known else None


def _land_one(work: Landing, archived: Archived, on_duplicate: OnDuplicate) -> Landed:
    latest = _latest(work, archived.file)
    if latest is None or on_duplicate is OnDuplicate.CORRECT:
        (record,) = work.begun([archived.file], on_duplicate)
        work.reached(Point.LAND_BEGUN)
        return _take_in(work, archived, record)
    if latest.state in COUNTING and on_duplicate is not OnDuplicate.REPROCESS:
        return _known(work, latest, archived, on_duplicate)
    (again,) = take_in_anew(work, [(latest, archived)])  # requested, or a reprocessing that stopped before its end
    return again


def _land_new(
    work: Landing, archived: Sequence[Archived], on_duplicate: OnDuplicate, landed: Callable[[Landed], None]
) -> None:
    """Lands new files together; when one of them stops that, one after the other up to that one."""
    if len(archived) < 2:
        for each in archived:
            landed(_land_one(work, each, on_duplicate))
        return
    begun = work.begun([each.file for each in archived], on_duplicate)
    work.reached(Point.LAND_BEGUN)
    with work.attempting(begun) as left:
        try:
            work.conform_together(archived, begun)
            found = work.account(begun)
            require_all(archived, begun, found)
            work.keep_rejected(begun, found)
        except Exception as error:
            if not is_about_a_file(error):
                raise
            for each, record in zip(archived, begun, strict=True):
                left.remove(record)
                with work.not_tried(left, because_of=record):
                    outcome = _take_in(work, each, record)
                landed(outcome)
            return
        with work.ledger.write() as tx:
            work.finish(tx, begun, found, archived=archived)
            records = [tx.imports.get(record.import_id) for record in begun]
    work.reached(Point.LAND_FINISHED)
    for record, each in zip(records, archived, strict=True):
        landed(landed_now(record, found, each))


def _take_in(work: Landing, archived: Archived, record: ImportRecord) -> Landed:
    with work.attempting([record]):
        work.conform(archived, record)
        found = work.account([record])
        require_all([archived], [record], found)
        work.keep_rejected([record], found)
        with work.ledger.write() as tx:
            work.finish(tx, [record], found, archived=[archived])
            record = tx.imports.get(record.import_id)
    work.reached(Point.LAND_FINISHED)
    return landed_now(record, found, archived)


def _known(work: Landing, record: ImportRecord, archived: Archived, on_duplicate: OnDuplicate) -> Landed:
    """The content was landed before: refused, or ignored with a record of it. A landed file that was gone or damaged is
    there again, and that is recorded."""
    path = archived.file.original_path
    # Of change events, a producer counts messages too that are no records.
    if archived.file.family == Family.FILE and work.source.envelope is None:
        require_records(archived.file.name, archived.record_count, record.counts.landed, archived.probe)
    puts_back = archived.puts_back and archived.file.stored_path == record.stored_path
    if on_duplicate is OnDuplicate.REJECT and not puts_back:
        why = f"{path} has the content of {record.import_id}, landed from {record.original_path}"
        raise FileRefused(fault=Fault.LANDED_BEFORE, why=why, import_id=record.import_id)
    with work.ledger.write() as tx:
        tx.events.record(
            actor=work.by,
            entity="import",
            entity_id=record.import_id,
            action="landed_file_put_back" if puts_back else "duplicate_ignored",
            payload={"path": path},
        )
    return Landed(record=record, days=(), is_new=False, puts_back=puts_back)


def _landed_names(tx: ReadTransaction, source: SourceTable) -> Mapping[str, ImportRecord]:
    """By file name the last import that counts; nothing for a source whose records have keys.

    Records without a key are known by the name of their file with their number in it. So another file of a name that
    has landed would replace records of the first one, number by number: that is stated with a complete extract.
    """
    if not source.row_number:
        return {}
    files = (record for record in tx.imports.records(source.name, COUNTING) if record.format != STATEMENT)
    return {record.name: record for record in files}


def _require_own_name(
    file: LandedFile,
    landed: Mapping[str, ImportRecord],
    before: Sequence[LandedFile],
    source: SourceTable,
    on_duplicate: OnDuplicate,
) -> None:
    """Refuses a file that would replace records of another one of its name without that being stated.

    Args:
        before: The files that land before it and are not in the ledger yet.
    """
    if not source.row_number:
        return
    if on_duplicate is OnDuplicate.CORRECT:
        why = f"records of {source.name} have no key, so that no file can correct those of another one"
        raise FileRefused(fault=Fault.NO_KEY, why=why, source=source.name)
    others = {each.original_path: each.sha256 for each in before if each.name == file.name}
    if (record := landed.get(file.name)) is not None and on_duplicate is not OnDuplicate.REPROCESS:
        others[record.import_id] = record.sha256
    for other, sha256 in others.items():
        if sha256 != file.sha256:
            why = f"{file.name} has the name of {other}, and other content"
            raise FileRefused(fault=Fault.SAME_NAME, why=why, path=file.name)


def require_whole_files(
    tx: ReadTransaction,
    source: SourceTable,
    captures: Sequence[Capture],
    days: DayRange,
    has_others: Callable[[ImportRecord], bool],
) -> None:
    """Refuses an extract that would replace records of other days than its own, which it does not withdraw, and one
    with two files of a name.

    Args:
        has_others: Whether an import has records of other days; asked where a UTC date is of two days.
    """
    if not source.row_number:
        return
    dates, whole = source.days.partitions(days), source.days.whole_partitions(days)
    for name, many in Counter(each.name for each in captures).items():
        if many > 1:
            why = f"{many} files of the extract are named {name}"
            raise FileRefused(fault=Fault.NAMED_TWICE, why=why, path=name)
    landed = _landed_names(tx, source)
    for each in captures:
        record = landed.get(each.name)
        if record is None:
            continue
        touched = [day.event_date for day in tx.imports.days([record.import_id]) if day.events]
        is_of_others = any(day not in dates for day in touched)
        if is_of_others or (any(day not in whole for day in touched) and has_others(record)):
            why = f"{each.name} has the name of {record.import_id}, which has records of other days than {days}"
            raise FileRefused(fault=Fault.OTHER_DAYS, why=why, path=each.name)
