"""Landing of files.

Every step is durable before the next begins: the raw copy, the ledger's record that landing has begun, the conformed
records, the quarantine, and last the ledger's record that it is landed. Only the last step makes anything visible, so
that a process that stops at any point loses nothing, and the same file can be landed again. Small new files take these
steps together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice

from backfill_assets.capture.errors import Fault, FileRefused, NotAsCaptured
from backfill_assets.capture.landed_files import Capture, Family, LandedFile
from backfill_assets.capture.stream_files import StreamCapture
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import SourceTable
from backfill_assets.landing.attempt import Landing, is_about_a_file, require_all
from backfill_assets.landing.batches import batches
from backfill_assets.landing.classify import Account, recount
from backfill_assets.landing.errors import RawFileChanged
from backfill_assets.landing.file_versions import Archived
from backfill_assets.landing.imports import STATEMENT, OnDuplicate
from backfill_assets.landing.turn import new_lease
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The result of landing a file.

    Attributes:
        is_new: Whether something was landed, rather than ignored.
        missing_columns: Columns of the contract that the file does not have; they are null.
        puts_back: Whether the landed file was gone or damaged, and is there again.
    """

    record: ImportRecord
    days: tuple[date, ...]
    is_new: bool
    missing_columns: tuple[str, ...] = ()
    puts_back: bool = False


def landed_now(record: ImportRecord, found: Account, archived: Archived | None = None) -> Landed:
    """The result for an import that has just landed; without a file for a statement."""
    days = tuple(day.event_date for day in found.files[record.import_id].days)
    missing = archived.probe.missing_columns if archived else ()
    return Landed(record=record, days=days, is_new=True, missing_columns=missing)


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


def land_again(work: Landing, imports: Sequence[ImportRecord], landed: Callable[[Landed], None]) -> None:
    """Reads landed files anew from their stored bytes, as the source is declared now, and counts them in their place.

    A file that cannot be read as it is declared now stops the rest, and is as it was.

    Args:
        imports: The files, in the order of arrival.
        landed: Called for each file that has landed again, in their order.
    """
    waiting = iter(imports)
    for batch in batches([_stored(each, work.source) for each in imports]):
        own = replace(work, lease=new_lease(work.settings))
        with own.turn():
            some = list(islice(waiting, len(batch)))
            archived = [_archived_again(own, *pair) for pair in zip(some, batch, strict=True)]
            for before, each in zip(some, archived, strict=True):
                record, old_days = _reopen(own, before)
                own.reached(Point.LAND_BEGUN)
                landed(_take_in(own, each, record, old_days))


def _stored(record: ImportRecord, source: SourceTable) -> Capture:
    # Bytes that are captured have as many records as before, but messages that are passed over are none of them; how
    # many a file of a person has, its declaration says.
    is_counted = record.family != Family.FILE and source.envelope is None
    return StreamCapture(file=record, record_count=record.counts.landed if is_counted else None)


def _archived_again(work: Landing, record: ImportRecord, stored: Capture) -> Archived:
    try:
        (found,) = work.captured(stored)
    except FileNotFoundError as error:
        raise RawFileChanged(import_id=record.import_id, path=record.stored_path, why="is gone") from error
    except NotAsCaptured as error:
        why = "has other bytes than those that landed"
        raise RawFileChanged(import_id=record.import_id, path=record.stored_path, why=why) from error
    return found


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
    old_days: tuple[ImportDay, ...] = ()
    if latest is None or on_duplicate is OnDuplicate.CORRECT:
        (record,) = work.begun([archived.file], on_duplicate)
    elif latest.state in COUNTING and on_duplicate is not OnDuplicate.REPROCESS:
        return _known(work, latest, archived, on_duplicate)
    else:  # requested, or a reprocessing that stopped before its end
        record, old_days = _reopen(work, latest)
    work.reached(Point.LAND_BEGUN)
    return _take_in(work, archived, record, old_days)


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
        except Exception as error:
            if not is_about_a_file(error):
                raise
            for each, record in zip(archived, begun, strict=True):
                left.remove(record)
                with work.not_tried(left, because_of=record):
                    outcome = _take_in(work, each, record, ())
                landed(outcome)
            return
        with work.ledger.write() as tx:
            work.finish(tx, begun, found, archived=archived)
            records = [tx.imports.get(record.import_id) for record in begun]
    work.reached(Point.LAND_FINISHED)
    for record, each in zip(records, archived, strict=True):
        landed(landed_now(record, found, each))


def _take_in(work: Landing, archived: Archived, record: ImportRecord, old_days: Sequence[ImportDay]) -> Landed:
    with work.attempting([record]):
        work.conform(archived, record)
        found = work.account([record])
        require_all([archived], [record], found)
        recounted: Mapping[str, ImportCounts] = {}
        if record.landed_at is not None:
            found, recounted = _recounted(work, record, found)
        file = found.files[record.import_id]
        file = replace(file, days=_with_old_days(record, file.days, old_days))
        with work.ledger.write() as tx:
            found = replace(found, files={record.import_id: file})
            work.finish(tx, [record], found, archived=[archived])
            if recounted:
                tx.imports.recount(recounted, because=record.import_id, actor=work.by)
            record = tx.imports.get(record.import_id)
    work.reached(Point.LAND_FINISHED)
    return landed_now(record, found, archived)


def _reopen(work: Landing, record: ImportRecord) -> tuple[ImportRecord, tuple[ImportDay, ...]]:
    with work.ledger.write() as tx:
        tx.turns.require(work.source.name, work.lease)
        days = tx.imports.days([record.import_id])
        tx.imports.reopen(record.import_id, str(OnDuplicate.REPROCESS), work.by, lease=work.lease)
        return tx.imports.get(record.import_id), days


def _known(work: Landing, record: ImportRecord, archived: Archived, on_duplicate: OnDuplicate) -> Landed:
    """The content was landed before: refused, or ignored with a record of it. A landed file that was gone or damaged is
    there again, and that is recorded."""
    path = archived.file.original_path
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


def _recounted(work: Landing, record: ImportRecord, found: Account) -> tuple[Account, Mapping[str, ImportCounts]]:
    """The account of an import that was reprocessed in its place among the others, and the counts of those that change.

    The account compares with nothing in its place; the ledger has what was there before, so that all is counted again.
    """
    others = work.others([record])
    with work.ledger.read() as tx:
        days = _by_day(tx.imports.days(source=work.source.name, states=COUNTING))
    counts, written = found.files[record.import_id].counts, found.conformed[record.import_id]
    present = replace(work.present(record), counts=counts, conformed=written)
    counted = recount(work.records, [*others, present])
    keys = counted.keys
    for other in others:
        keys -= other.keys
    linked = {day: replace(each, unknown=0) for day, each in _by_day(found.linked).items() if day not in days}
    for day in (days | counted.unknown.keys()) - {day for day in counted.unknown if day[0] == record.import_id}:
        change = counted.unknown.get(day, 0) - (days[day].unknown if day in days else 0)
        if change:
            new = ImportDay(import_id=day[0], event_date=day[1], events=0)
            linked[day] = replace(linked.get(day, new), unknown=change)
    again = replace(found, moved_elsewhere={}, linked=tuple(linked.values()), keys={record.import_id: keys})
    return again, {r.import_id: counted.counts[r.import_id] for r in others if counted.counts[r.import_id] != r.counts}


def _by_day(days: Iterable[ImportDay]) -> dict[tuple[str, date], ImportDay]:
    return {(day.import_id, day.event_date): day for day in days}


def _with_old_days(
    record: ImportRecord, days: Sequence[ImportDay], old_days: Sequence[ImportDay]
) -> tuple[ImportDay, ...]:
    """The days of a reprocessed import: those it touched before have to be built again too."""
    present = {day.event_date for day in days}
    left = {day.event_date for day in old_days} - present
    gone = [ImportDay(import_id=record.import_id, event_date=day, events=0) for day in left]
    return tuple(sorted((*days, *gone), key=lambda day: day.event_date))


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
