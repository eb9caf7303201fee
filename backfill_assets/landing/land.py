"""Landing: files of a source land together, and landed files land again as their source is declared now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import islice

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.errors import Fault, FileRefused, NotAsCaptured
from backfill_assets.capture.landed_files import GIVEN_FILE, STATEMENT, Capture, LandedFile
from backfill_assets.capture.stream_files import StreamCapture
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import SourceTable
from backfill_assets.landing.attempt import (
    Landed,
    Landing,
    batches,
    is_about_a_file,
    landed_now,
    new_lease,
    require_all,
    require_records,
    said_of,
)
from backfill_assets.landing.conformed import first_rejected
from backfill_assets.landing.decoding.decode import remove_decoded
from backfill_assets.landing.errors import NoneAccepted, NotReadAnew, RawFileChanged
from backfill_assets.landing.file_versions import Archived
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.key_versions import Account, FileAccount, recount
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import ReadTransaction

# Landing again: landed files are read anew, as their source is declared now, and counted in their place.
#
# All of them are read anew, or none: what is made of them is written beside what counts, and one transaction
# exchanges the two. Whatever is refused, and wherever a process stops before that, every import is as it was;
# only the quarantine may show what was rejected in the reading that was not completed.

_Again = tuple[ImportRecord, Archived]
_Refusals = dict[str, BackfillError]
"""The reason why an import cannot be read as its source is declared now, by import."""


def land_again(
    work: Landing,
    imports: Sequence[ImportRecord],
    read: Callable[[ImportRecord], None] = lambda _: None,
    *,
    is_whole: bool = False,
) -> list[Landed]:
    """Reads landed files anew from their stored bytes, as the source is declared now, and counts them in their place.

    Args:
        imports: The files, in the order of arrival.
        read: Called for each file that was read.
        is_whole: The columns are declared otherwise, so that none can stay as it was read before.

    Raises:
        NotReadAnew: Some of them cannot be read as the source is declared now; nothing has changed.
        NoneAccepted: No record of the only one would count; nothing has changed.
    """
    with work.turn():
        now, waiting = _now(work), iter(imports)
        refused: _Refusals = {}
        again: list[_Again] = []
        for batch in batches([_stored(each, work.source) for each in imports]):
            some = [replace(each, judged_at=now) for each in islice(waiting, len(batch))]
            found = list(_archived(work, some, batch, refused))
            if not refused:
                _conform(work, found, refused)
            remove_decoded(work.place, work.lease.attempt)
            again += found
            for each in some:
                read(each)
        if not refused:
            counted = _counted(work, again, refused)
        if refused:
            raise _not_read(refused, imports, is_whole=is_whole)
        return _exchanged(work, again, counted)


def take_in_anew(work: Landing, again: Sequence[_Again]) -> list[Landed]:
    """Judges files that are offered once more anew, and counts them in their place, also where none of their records
    is accepted. Called with the turn."""
    now = _now(work)
    refused: _Refusals = {}
    again = [(replace(record, judged_at=now), archived) for record, archived in again]
    _conform(work, again, refused)
    if not refused:
        counted = _counted(work, again, refused, even_if_none=True)
    if refused:
        raise next(iter(refused.values()))
    return _exchanged(work, again, counted)


def _now(work: Landing) -> datetime:
    with work.ledger.write() as tx:
        tx.turns.require(work.source.name, work.lease)
        return tx.now


def _stored(record: ImportRecord, source: SourceTable) -> Capture:
    # Bytes that are captured have as many records as before, but messages that are passed over are none of them; how
    # many a file of a person has, its declaration says.
    is_counted = record.family != GIVEN_FILE and source.envelope is None
    return StreamCapture(file=record, record_count=record.counts.landed if is_counted else None)


def _archived(
    work: Landing, imports: Sequence[ImportRecord], stored: Sequence[Capture], refused: _Refusals
) -> Iterator[_Again]:
    """The files that can be read, each as what it was found to be."""
    for record, capture in zip(imports, stored, strict=True):
        try:
            (found,) = work.captured(capture)
        except FileNotFoundError as error:
            raise RawFileChanged(import_id=record.import_id, path=record.stored_path, why="is gone") from error
        except NotAsCaptured as error:
            why = "has other bytes than those that landed"
            raise RawFileChanged(import_id=record.import_id, path=record.stored_path, why=why) from error
        except BackfillError as error:
            if not is_about_a_file(error):
                raise
            refused[record.import_id] = error
        else:
            yield record, found


def _conform(work: Landing, again: Sequence[_Again], refused: _Refusals) -> None:
    """Writes the records of files: of those that can be read together in one job."""
    # The same bytes may have landed more than once, and of some files only Spark tells the version of the contract.
    by_content = {archived.file.sha256: record.import_id for record, archived in reversed(again)}
    together = [
        (record, archived)
        for record, archived in again
        if archived.probe.version is not None and by_content[archived.file.sha256] == record.import_id
    ]
    alone = [each for each in again if each not in together]
    if len(together) > 1:
        try:
            work.conform_together([archived for _, archived in together], [record for record, _ in together])
        except Exception as error:
            if not is_about_a_file(error):
                raise _of_spark(work, error, [record for record, _ in together]) from error
            alone = list(again)
    else:
        alone = list(again)
    for record, archived in alone:
        try:
            work.conform(archived, record)
        except Exception as error:
            said = _of_spark(work, error, [record])
            if not is_about_a_file(error) or not isinstance(said, BackfillError):
                raise said from error
            refused[record.import_id] = said


def _of_spark(work: Landing, error: Exception, imports: Sequence[ImportRecord]) -> Exception:
    return said_of(error, work.source, imports) or error


def _counted(work: Landing, again: Sequence[_Again], refused: _Refusals, *, even_if_none: bool = False) -> Account:
    """The account of files whose records are written; adds those that are refused for them to `refused`."""
    imports = [record for record, _ in again]
    if not imports:
        return Account(files={}, moved_elsewhere={}, linked=(), keys={})
    try:
        found = work.account(imports)
    except Exception as error:
        raise _of_spark(work, error, imports) from error
    for record, archived in again:
        try:
            require_all([archived], [record], found)
            if not even_if_none:
                _require_accepted(work, record, found)
        except BackfillError as error:
            refused[record.import_id] = error
    return found


def _exchanged(work: Landing, again: Sequence[_Again], found: Account) -> list[Landed]:
    """Lets what was written count in place of what files were read as before."""
    imports = [record for record, _ in again]
    if not imports:
        return []
    found, recounted = _recounted(work, imports, found)
    work.keep_rejected(imports, found)
    with work.ledger.write() as tx:
        tx.turns.require(work.source.name, work.lease)
        before = tx.imports.days([record.import_id for record in imports])
        found = replace(found, files={**found.files, **_with_days_before(found, before)})
        for record in imports:
            how = str(OnDuplicate.REPROCESS)
            tx.imports.reopen(record.import_id, how, work.by, lease=work.lease, at=record.judged_at)
        work.finish(tx, imports, found, archived=[archived for _, archived in again])
        if recounted:
            tx.imports.recount(recounted, because=imports[-1].import_id, actor=work.by)
        landed = [(tx.imports.get(record.import_id), archived) for record, archived in again]
    work.reached(Point.LAND_FINISHED)
    return [landed_now(record, found, archived) for record, archived in landed]


def _not_read(
    refused: Mapping[str, BackfillError], imports: Sequence[ImportRecord], *, is_whole: bool
) -> BackfillError:
    if len(imports) == 1:
        return next(iter(refused.values()))
    first, source = next(iter(refused)), imports[0].source
    others = tuple(each.import_id for each in imports if each.import_id not in refused)
    return NotReadAnew(cause=refused[first], source=source, refused=tuple(refused), others=others, is_whole=is_whole)


def _require_accepted(work: Landing, record: ImportRecord, found: Account) -> None:
    """Refuses a file of which no record would count although some have: its declaration is wrong, and not the file."""
    now = found.files[record.import_id].counts
    if now.landed > now.rejected or record.counts.landed == record.counts.rejected:
        return
    written = replace(work.present(record), conformed=found.conformed[record.import_id])
    row, why = first_rejected(work.records, written) if now.rejected else (0, "")
    raise NoneAccepted(
        import_id=record.import_id,
        path=record.original_path,
        table=work.source.name,
        rejected=now.rejected,
        accepted=record.counts.landed - record.counts.rejected,
        row=row,
        why=why,
    )


def _recounted(
    work: Landing, imports: Sequence[ImportRecord], found: Account
) -> tuple[Account, Mapping[str, ImportCounts]]:
    """The account of imports that are read anew in their place among the others, and the counts of those that change.

    The account compares with nothing in their place; the ledger has what was there before, so that all is counted
    again.
    """
    others, ids = work.others(imports), {record.import_id for record in imports}
    with work.ledger.read() as tx:
        days = _by_day(tx.imports.days(source=work.source.name, states=COUNTING))
    present = [
        replace(work.present(record), counts=found.files[import_id].counts, conformed=found.conformed[import_id])
        for record in imports
        for import_id in [record.import_id]
    ]
    every = sorted([*others, *present], key=lambda each: each.arrival)
    counted = recount(work.records, every)
    keys = counted.keys
    for other in others:
        keys -= other.keys
    for of_import in list(found.keys.values())[:-1]:
        keys -= of_import
    linked = {day: replace(each, unknown=0) for day, each in _by_day(found.linked).items() if day not in days}
    for day in {day for day in days.keys() | counted.unknown.keys() if day[0] not in ids}:
        change = counted.unknown.get(day, 0) - (days[day].unknown if day in days else 0)
        if change:
            new = ImportDay(import_id=day[0], event_date=day[1], events=0)
            linked[day] = replace(linked.get(day, new), unknown=change)
    again = replace(
        found,
        moved_elsewhere={},
        linked=tuple(linked.values()),
        keys={**found.keys, imports[-1].import_id: keys},
    )
    return again, {r.import_id: counted.counts[r.import_id] for r in others if counted.counts[r.import_id] != r.counts}


def _by_day(days: Iterable[ImportDay]) -> dict[tuple[str, date], ImportDay]:
    return {(day.import_id, day.event_date): day for day in days}


def _with_days_before(found: Account, before: Iterable[ImportDay]) -> Mapping[str, FileAccount]:
    """The accounts of files with the days that they touched as they were read before: these are built again too."""
    gone: dict[str, list[ImportDay]] = {}
    for import_id, day in _by_day(before):
        if all(each.event_date != day for each in found.files[import_id].days):
            gone.setdefault(import_id, []).append(ImportDay(import_id=import_id, event_date=day, events=0))
    return {
        import_id: replace(file, days=tuple(sorted((*file.days, *days), key=lambda day: day.event_date)))
        for import_id, days in gone.items()
        for file in [found.files[import_id]]
    }


# Landing of files.
#
# Every step is durable before the next begins: the raw copy, the ledger's record that landing has begun, the
# conformed records, the quarantine, and last the ledger's record that it is landed. Only the last step makes
# anything visible, so that a process that stops at any point loses nothing, and the same file can be landed
# again. Small new files take these steps together.


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
    """True if a file becomes an import of its own and can land with others: its contract version is known without
    Spark."""
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
    if archived.file.family == GIVEN_FILE and work.source.envelope is None:
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
    """The last import that counts, by file name; nothing for a source whose records have keys.

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
