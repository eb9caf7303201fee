"""Attempt: the steps that landing one file and landing a complete extract have in common.

An attempt takes one or more imports in, writes their conformed records, accounts for all of them together, and finishes
all of them in one transaction. Until then nothing of them is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.capture.errors import BadFile, Fault, FileRefused, RecordsMissing
from backfill_assets.capture.expected_files import Expected
from backfill_assets.capture.landed_files import Capture, Family, FileKind, LandedFile, LandingPlace, landing_place
from backfill_assets.core.crash_points import Point, Reached
from backfill_assets.core.errors import AmbiguousOrder, BackfillError, TakenOver, UnreadableFile
from backfill_assets.core.lease import LeaseTerms, renewed
from backfill_assets.core.places import for_spark
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark_causes import spark_reason
from backfill_assets.domain import SourceTable
from backfill_assets.files.port import Files
from backfill_assets.landing.batches import conform_together
from backfill_assets.landing.classify import Account, account
from backfill_assets.landing.compacted import compact
from backfill_assets.landing.conformed import ConformedRecords, conformed, folders_in_use, owner_of
from backfill_assets.landing.decoding.kept import ToRead, remove_decoded, to_read
from backfill_assets.landing.errors import RawFileChanged, SparkStopped
from backfill_assets.landing.file_versions import Archived, probe_versions, records_by_version
from backfill_assets.landing.imports import STATEMENT, OnDuplicate
from backfill_assets.landing.probe import Probe
from backfill_assets.landing.reading_digest import reading_digest
from backfill_assets.landing.record_rules import Bounds
from backfill_assets.landing.turn import fail_abandoned, landing_turn
from backfill_assets.ledger.events import SEGMENT_WRITTEN
from backfill_assets.ledger.imports import ImportRecord, KeyCounts
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.planning.partitions import count_of

Quarantine = Callable[[DataFrame, str], None]
"""Keeps the rejected records of an import, given its id; doing it again for the same import changes nothing."""

_SPARKS_REASON = re.compile(r"\[((?:FAILED_READ_FILE|PARQUET_|UNSUPPORTED_|MALFORMED_)[A-Z_.]*)\]")


_NOTHING_ELSE = Account(files={}, moved_elsewhere={}, linked=(), keys={})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What an attempt works with.

    Attributes:
        open_session: Opens the session that reads files: only when records are read, so that what is refused without
            reading them is refused at once.
        settings: Where the landing folder is, and the first day.
        quarantine: Keeps rejected records.
        lease: Names this attempt.
    """

    ledger: Ledger
    open_session: Callable[[], SparkSession]
    settings: Settings
    source: SourceTable
    by: str
    quarantine: Quarantine
    reached: Reached
    lease: LeaseTerms

    @property
    def spark(self) -> SparkSession:
        return self.open_session()

    @property
    def records(self) -> ConformedRecords:
        with self.ledger.read() as tx:
            segments = tx.events.segments(self.source.name)
        return ConformedRecords(spark=self.spark, landing=self.landing, source=self.source, segments=segments)

    @property
    def place(self) -> LandingPlace:
        return landing_place(self.settings, self.source.name)

    @property
    def landing(self) -> Files:
        return self.place.files

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the turn to land files of the source, with what killed processes left removed."""
        with landing_turn(self.ledger, self.source, self.lease, by=self.by):
            fail_abandoned(self.ledger, self.settings, self.source, self.lease, self.by)
            try:
                yield
            finally:
                remove_decoded(self.place, self.lease.attempt)

    def captured(self, capture: Capture) -> Iterator[Archived]:
        """The landed files of a capture, each found to be readable as records of the source before it is kept."""

        place, count = self.place, capture.record_count

        def check(copy: Path, kind: FileKind) -> tuple[Probe, ToRead]:
            offered, attempt = capture.is_offered, self.lease.attempt
            with to_read(place, attempt, copy, kind, self.source, name=capture.name, is_offered=offered) as read:
                counted = not offered
                probe = probe_versions(read.copy, read.kind, self.source, name=capture.name, counted=counted)
            if read.stored_path:
                self.reached(Point.LAND_DECODED)
            return probe, read

        for file, (probe, read) in capture.read(place, check):
            self.reached(Point.LAND_ARCHIVED)
            yield Archived(
                file=file,
                probe=probe,
                record_count=count,
                kind=read.kind,
                read_from=read.stored_path,
                puts_back=file.stored_path in place.put_back,
            )

    def begun(self, files: Sequence[LandedFile], on_duplicate: OnDuplicate) -> list[ImportRecord]:
        """Landed files as imports in progress, in the order of their arrival."""
        with self.ledger.write() as tx:
            tx.turns.require(self.source.name, self.lease)
            return [
                tx.imports.begin(each, on_duplicate=str(on_duplicate), actor=self.by, lease=self.lease)
                for each in files
            ]

    def require_as_offered(self, file: LandedFile, on_duplicate: OnDuplicate) -> None:
        """Refuses content that was offered before, is read once more, and of which the landed file has other bytes now.

        Raises:
            RawFileChanged: It has.
        """
        with self.ledger.read() as tx:
            known = tx.imports.with_sha(self.source.name, file.sha256)
        is_left = on_duplicate not in (OnDuplicate.REPROCESS, OnDuplicate.CORRECT)
        if is_left and any(record.state in COUNTING for record in known):
            return
        if known and self.landing.digest(file.stored_path) != file.sha256:
            why = "has other bytes than those that landed"
            raise RawFileChanged(import_id=known[-1].import_id, path=file.stored_path, why=why)

    def others(self, imports: Sequence[ImportRecord]) -> Sequence[ImportRecord]:
        """The other imports of the source that count."""
        mine = {record.import_id for record in imports}
        with self.ledger.read() as tx:
            return [r for r in tx.imports.records(self.source.name, COUNTING) if r.import_id not in mine]

    def present(self, record: ImportRecord) -> ImportRecord:
        """An import whose conformed records are being written: it will be in the present version of the contract."""
        return replace(record, contract=self.source.contract_version, conformed=None)

    def folder_of(self, record: ImportRecord) -> str:
        """The name of the folder into which its records are written: of one that has landed, beside what counts."""
        if record.landed_at is None:
            return record.import_id
        beside = f"{record.import_id}.{self.lease.attempt}"
        return f"{beside}.again" if beside in folders_in_use(self.source, [record]) else beside

    def conform(self, archived: Archived, record: ImportRecord) -> None:
        """Judges the records of a file and writes them beside the archive, as the present contract has them."""
        stored = for_spark(self.landing.place, archived.stored_path)
        raw = records_by_version(
            self.spark, stored, kind=archived.kind, probe=archived.probe, source=self.source, name=record.name
        )
        bounds = Bounds(first_day=self.settings.first_day, judged_at=record.judged_at)
        owner = owner_of(record.import_id, record.arrival, record.name)
        frame = conformed(raw, source=self.source, owner=owner, bounds=bounds)
        frame.write.mode("overwrite").parquet(self.records.folder(self.folder_of(record)))
        self.reached(Point.LAND_CONFORMED)

    def conform_together(self, archived: Sequence[Archived], imports: Sequence[ImportRecord]) -> None:
        """The same for several files of the same moment, in one Spark job."""
        bounds = Bounds(first_day=self.settings.first_day, judged_at=imports[0].judged_at)
        files = list(zip(archived, imports, strict=True))
        folders = {record.import_id: self.folder_of(record) for record in imports}
        conform_together(self.records, files, folders, bounds=bounds, attempt=self.lease.attempt)
        self.reached(Point.LAND_CONFORMED)

    def account(self, imports: Sequence[ImportRecord]) -> Account:
        """Counts the records of these imports among all others."""
        # What is digested is what is counted: both come from the same recorded files.
        held = self.records
        written = {record.import_id: held.written(self.folder_of(record)) for record in imports}
        imports = [replace(self.present(each), conformed=written[each.import_id]) for each in imports]
        others = self.others(imports)
        compact(self.records, others, attempt=self.lease.attempt, record=self._record_segment)
        return replace(account(self.records, imports, others), conformed=written)

    def keep_rejected(self, imports: Sequence[ImportRecord], found: Account) -> None:
        """Quarantines the rejected records of imports, in place of those that were rejected when they landed."""
        for record in imports:
            if found.files[record.import_id].counts.rejected or record.counts.rejected:
                written = replace(self.present(record), conformed=found.conformed[record.import_id])
                self.quarantine(self.records.rejected(written), record.import_id)
                self.reached(Point.LAND_QUARANTINED)

    def _record_segment(self, folder: str, digest: str) -> None:
        with self.ledger.write() as tx:
            tx.turns.require(self.source.name, self.lease)
            tx.events.record(
                actor=self.by,
                entity="source",
                entity_id=self.source.name,
                action=SEGMENT_WRITTEN,
                payload={"folder": folder, "sha256": digest},
            )

    def finish(
        self,
        tx: WriteTransaction,
        imports: Sequence[ImportRecord],
        found: Account,
        *,
        archived: Sequence[Archived] = (),
        note: str = "",
    ) -> None:
        """Makes imports LANDED, in the order of their arrival; what they do together is recorded with the last one.

        Args:
            archived: The files of the first of them.
            note: Of the last one.
        """
        declared = reading_digest(self.source)
        for place, record in enumerate(imports):
            file = found.files[record.import_id]
            together = found if record is imports[-1] else _NOTHING_ELSE
            held = archived[place].probe if place < len(archived) else Probe()
            tx.imports.finish(
                record.import_id,
                counts=file.counts,
                days=file.days,
                schema_versions=file.schema_versions,
                keyless=file.keyless,
                taken_as_first=file.taken_as_first,
                reading=None if record.format == STATEMENT else declared,
                rejected_on=file.rejected_on,
                ignored_columns=file.ignored_columns or held.ignored_columns,
                actor=self.by,
                keys=found.keys.get(record.import_id, KeyCounts()),
                moved_elsewhere=together.moved_elsewhere,
                linked=together.linked,
                note=note if note and together is found else _said_of_messages(held),
                contract=self.source.contract_version,
                conformed=found.conformed[record.import_id],
                attempt=self.lease.attempt,
            )

    @contextmanager
    def attempting(self, imports: Sequence[ImportRecord]) -> Iterator[list[ImportRecord]]:
        """Holds the leases of imports while they are landed, and makes them FAILED when that stops with an error.

        A killed process leaves that to `recover`. If a lease was lost, the last step is refused.

        Returns:
            Those that are not landed yet, when they are not all landed at once: who lands one removes it.
        """
        left = list(imports)

        def renew() -> bool:
            held = [self.ledger.renew_lease(record.import_id, self.lease) for record in tuple(left)]
            return all(held)

        with self._failing(left), renewed(renew, length=self.lease.length, lost=lambda: None):
            yield left

    @contextmanager
    def not_tried(self, left: list[ImportRecord], *, because_of: ImportRecord) -> Iterator[None]:
        """Makes imports FAILED that are behind one that is refused, and says of them that they were not tried."""
        try:
            yield
        except Exception as error:
            if is_about_a_file(error):
                note = f"not tried, because {because_of.name} before it was refused"
                self._fail(left, note)
                left.clear()
            raise

    def _fail(self, imports: Sequence[ImportRecord], note: str) -> None:
        with self.ledger.write() as tx:
            for record in imports:
                tx.imports.fail(record.import_id, note=note, actor=self.by, attempt=self.lease.attempt)

    @contextmanager
    def _failing(self, imports: Sequence[ImportRecord]) -> Iterator[None]:
        try:
            yield
        except TakenOver:
            raise
        except BaseException as error:
            found = _sparks_reason(error)
            self._fail(imports, f"landing stopped: {found.group(1) if found else _kind_of(error)}")
            if (said := said_of(error, self.source, imports)) is not None:
                raise said from error
            raise


def require_all(archived: Sequence[Archived], imports: Sequence[ImportRecord], found: Account) -> None:
    """Refuses files of which other records were read than were captured, or than their producer says."""
    for each, record in zip(archived, imports, strict=True):
        landed = found.files[record.import_id].counts.landed
        if each.file.family == Family.FILE:
            require_records(each.file.name, each.record_count, landed, each.probe)
        elif each.record_count not in (None, landed + _more_messages(each.probe)):
            raise RecordsMissing(path=each.file.stored_path, captured=each.record_count, landed=landed)


def require_records(name: str, expected: int | None, landed: int, probe: Probe) -> None:
    """Refuses a file with another number of records than its producer says.

    Args:
        landed: How many records of it were read, without the messages that are passed over.
    """
    Expected(name=name, records=expected, said_by="its manifest").require_records(landed + _more_messages(probe))


def _more_messages(probe: Probe) -> int:
    """How many more messages a file has than records: some are none, and some are several."""
    return sum(many for _, many in probe.passed_over) - probe.parts


def said_of(error: BaseException, source: SourceTable, imports: Sequence[ImportRecord]) -> BackfillError | None:
    """What an error of Spark means for files that were read; None for any other error."""
    if (found := _sparks_reason(error)) is not None:
        why = f"cannot be read to its end ({found.group(1)})"
        return BadFile(path=", ".join(record.name for record in imports), fault=Fault.DAMAGED, why=why)
    if isinstance(error, (PySparkException, Py4JError)):
        return SparkStopped(source=source.name, why=spark_reason(error))
    return None


def _said_of_messages(held: Probe) -> str:
    """What is recorded of messages that are no records, or several."""
    said = ", ".join(count_of(many, what) for what, many in held.passed_over)
    found = [f"passed over: {said}"] if said else []
    if held.several:
        found.append(f"{count_of(held.several, 'message')} with {held.several + held.parts:,} records")
    return "; ".join(found)


def is_about_a_file(error: BaseException) -> bool:
    """Whether landing stopped because of what a file holds, so that others can land without it."""
    is_of_delivery = isinstance(error, FileRefused) and error.fault is Fault.DELIVERY
    is_known = isinstance(error, (UnreadableFile, AmbiguousOrder, RecordsMissing)) or is_of_delivery
    return is_known or _sparks_reason(error) is not None


def _sparks_reason(error: BaseException) -> re.Match[str] | None:
    return _SPARKS_REASON.search(str(error)) if isinstance(error, (PySparkException, Py4JError)) else None


def _kind_of(error: BaseException) -> str:
    return error.recorded if isinstance(error, BackfillError) else type(error).__name__
