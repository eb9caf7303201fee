"""Landing again: landed files are read anew, as their source is declared now, and counted in their place.

All of them are read anew, or none: what is made of them is written beside what counts, and one transaction exchanges
the two. Whatever is refused, and wherever a process stops before that, every import is as it was; only the quarantine
may show what was rejected in the reading that was not completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import islice

from backfill_assets.capture.errors import NotAsCaptured
from backfill_assets.capture.landed_files import Capture, Family
from backfill_assets.capture.stream_files import StreamCapture
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import SourceTable
from backfill_assets.landing.attempt import (
    Landed,
    Landing,
    is_about_a_file,
    landed_now,
    require_all,
    said_of,
)
from backfill_assets.landing.batches import batches
from backfill_assets.landing.classify import Account, FileAccount, recount
from backfill_assets.landing.conformed import first_rejected
from backfill_assets.landing.decoding.kept import remove_decoded
from backfill_assets.landing.errors import NoneAccepted, NotReadAnew, RawFileChanged
from backfill_assets.landing.file_versions import Archived
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord
from backfill_assets.ledger.states import COUNTING

_Again = tuple[ImportRecord, Archived]
_Refusals = dict[str, BackfillError]
"""By import, why it cannot be read as its source is declared now."""


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
    is_counted = record.family != Family.FILE and source.envelope is None
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
    """What files hold whose records are written, and which of them are refused for that."""
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
