"""Landing attempt: the steps that landing a file and landing a complete extract share, in batches, by one process at a
time for each source.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.calendar.partitions import count_of
from backfill_assets.capture.errors import BadFile, Fault, FileRefused, RecordsMissing
from backfill_assets.capture.files.file_capture import Expected
from backfill_assets.capture.landed_files import (
    GIVEN_FILE,
    STATEMENT,
    Capture,
    FileKind,
    LandedFile,
    LandingPlace,
    landing_place,
)
from backfill_assets.core.crash_points import Point, Reached, carry_on
from backfill_assets.core.errors import AmbiguousOrder, BackfillError, Retryable, TakenOver, UnreadableFile, sentence
from backfill_assets.core.lease import LeaseTerms, doing_of, renewed, this_process
from backfill_assets.core.places import for_spark
from backfill_assets.core.progress import waiting
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark_causes import spark_reason
from backfill_assets.domain import SourceTable
from backfill_assets.domain.sources import FILE_NAME
from backfill_assets.files.port import Files
from backfill_assets.landing.conformed import (
    ARRIVAL,
    IMPORT_ID,
    ConformedRecords,
    compact,
    conformed,
    conformed_folder,
    conformed_schema,
    folders_in_use,
    owner_of,
    remove_half_built,
)
from backfill_assets.landing.decoding.decode import ToRead, remove_left, removed_at_end, to_read
from backfill_assets.landing.errors import RawFileChanged, SparkStopped
from backfill_assets.landing.file_versions import Archived, probe_versions, records_by_version
from backfill_assets.landing.formats import FILE, records
from backfill_assets.landing.imports import OnDuplicate, reading_digest
from backfill_assets.landing.key_versions import Account, account
from backfill_assets.landing.probe import Probe
from backfill_assets.landing.record_rules import Bounds
from backfill_assets.ledger.events import SEGMENT_WRITTEN
from backfill_assets.ledger.imports import ImportRecord, KeyCounts
from backfill_assets.ledger.leases import turn_of
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction

# Turn: under which one process at a time lands files of a source, and fails imports whose process has stopped.
#
# The counts of a file depend on every file before it. The turn is a lease in the ledger, so that it holds for the
# processes of every machine that shares the landing place. It ends with its process: another one of the same
# machine sees that at once, and those of other machines when the lease was not renewed.

_PAUSE_S = 0.2


@sentence
class TurnTaken(Retryable):
    """files of {source} are being landed right now."""

    source: str


@contextmanager
def landing_turn(
    ledger: Ledger, source: SourceTable, lease: LeaseTerms, *, by: str, wait: bool = True
) -> Iterator[None]:
    """Holds the turn to land files of a source.

    Args:
        lease: Names the attempt; whatever is written to the ledger about landed files requires that it has the turn.
        wait: Wait until another process gives the turn back, instead of raising an error.

    Raises:
        TurnTaken: Another process has the turn, and `wait` is False.
    """
    with waiting(lambda: _who_lands(ledger, source)):
        while True:
            with ledger.write() as tx:
                if tx.turns.take(source.name, lease, holder=by):
                    break
            if not wait:
                raise TurnTaken(source=source.name)
            time.sleep(_PAUSE_S)
    try:
        with renewed(lambda: ledger.renew_lease(turn_of(source.name), lease), length=lease.length, lost=lambda: None):
            yield
    finally:
        with suppress(BackfillError), ledger.write() as tx:  # else it ends with its lease
            tx.turns.give_back(source.name, lease)


def _who_lands(ledger: Ledger, source: SourceTable) -> str:
    with ledger.read() as tx:
        held = tx.leases.get(turn_of(source.name))
    who = f"{held.holder}, {doing_of(held.machine)}, since {held.since_at:%Y-%m-%d %H:%M:%S} UTC" if held else "nobody"
    return f"waiting for the turn to land files of {source.name}, which has: {who}"


def new_lease(settings: Settings) -> LeaseTerms:
    """The lease of a new attempt."""
    return LeaseTerms(attempt=secrets.token_hex(4), length=settings.lease)


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
        now: An import that is failed even if the lease of another machine has not ended, with those of its extract.

    Returns:
        The imports that were failed. Landing their files again works; `landed_at` of one that was being reprocessed
        is not None, and its days cannot be built until it is landed again.
    """
    failed: list[ImportRecord] = []
    for source in sources:
        try:
            lease = new_lease(settings)
            with landing_turn(ledger, source, lease, by=by, wait=False):
                failed += fail_abandoned(ledger, settings, source, lease, by, now, reached)
        except TurnTaken:
            continue
    return tuple(failed)


def fail_abandoned(
    ledger: Ledger,
    settings: Settings,
    source: SourceTable,
    lease: LeaseTerms,
    by: str,
    now: str | None = None,
    reached: Reached = carry_on,
) -> list[ImportRecord]:
    """Called with the turn: imports that are still LANDING belong to no process of this machine, and are failed unless
    the lease of another machine has not ended."""
    place = landing_place(settings, source.name)
    place.remove_incoming()
    landing = place.files
    remove_half_built(landing, source)
    # Looked for before the ledger is asked which of them are used: none can be begun between the two and be removed.
    every = conformed_folder(source)
    there = {each.path.removeprefix(f"{every}/").partition("/")[0] for each in landing.listed(every)}
    with ledger.write() as tx:
        tx.turns.require(source.name, lease)
        unfinished = tx.imports.records(source.name, [ImportState.LANDING])
        taken_over = _landed_together(tx, unfinished, now)
        abandoned = [r for r in unfinished if r.import_id in taken_over or not _is_landed_elsewhere(tx, r)]
        for record in abandoned:
            tx.imports.fail(record.import_id, note="landing stopped: its process is gone", actor=by)
        held = (tx.leases.get(r.import_id) for r in unfinished if r not in abandoned)
        remove_left(place, attempts={lease.attempt for lease in held if lease}, now=tx.now)
    if abandoned:
        reached(Point.RECOVER_SWEPT)
    with ledger.read() as tx:
        used = folders_in_use(source, tx.imports.records(source.name, [*COUNTING, ImportState.LANDING]))
    # For every unused import, not only for those that were LANDING: a process that failed the others may have stopped
    # at this line.
    for folder in there - used:
        landing.remove_folder(conformed_folder(source, folder))
    with ledger.read() as tx:
        return [tx.imports.get(record.import_id) for record in abandoned]


def _landed_together(tx: WriteTransaction, landing: Sequence[ImportRecord], import_id: str | None) -> set[str]:
    """An import with those that its process lands with it: the files of an extract count together or not at all."""
    held = {record.import_id: tx.leases.get(record.import_id) for record in landing}
    lease = held.get(import_id) if import_id else None
    return {
        other
        for other, each in held.items()
        if other == import_id or (lease and each and each.attempt == lease.attempt)
    }


def _is_landed_elsewhere(tx: WriteTransaction, record: ImportRecord) -> bool:
    """True if a process of another machine is landing it: the turn only covers the processes of this one."""
    held = tx.leases.get(record.import_id)
    host = this_process().partition(":")[0]
    return held is not None and held.is_alive(tx.now) and held.machine.partition(":")[0] != host


# Batches: new files that one Spark job conforms and one account counts.
#
# A job, a plan and a commit cost the same for one record as for a million, so that a thousand small files are
# landed as a few batches. What becomes of each file is what would become of it alone, in the order in which they
# were offered.

MOST_FILES = 250
"""Of a batch. A process that is killed lands its batch again; beyond this number the fixed costs do not matter."""

MOST_BYTES = 64 << 20
"""Of a batch, and the size from which a file lands alone: then the records cost more than the job."""

_File = tuple[Archived, ImportRecord]


def batches(captures: Sequence[Capture]) -> Iterator[Sequence[Capture]]:
    """Captures in their order, in batches of bounded size."""
    batch: list[Capture] = []
    size = 0
    for capture in captures:
        own = capture.size_bytes
        if batch and (len(batch) == MOST_FILES or size + own > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(capture)
        size += own
    if batch:
        yield batch


def conform_together(
    held: ConformedRecords, files: Sequence[_File], folders: Mapping[str, str], *, bounds: Bounds, attempt: str
) -> None:
    """Judges the records of files, no content twice, and writes the conformed folder of each.

    Args:
        folders: By import, the name of its folder.
    """
    landing, source = held.landing, held.source
    whole = conformed_folder(source, f".building-{attempt}")
    parts = [_part(held, alike, bounds) for alike in _alike(files)]
    if parts:
        reduce(DataFrame.unionByName, parts).write.mode("overwrite").parquet(for_spark(landing.place, whole))
    schema = to_arrow_schema(conformed_schema(source), timezone="UTC")
    where = {import_id: conformed_folder(source, folder) for import_id, folder in folders.items()}
    split_by(IMPORT_ID, landing, whole, where, name=f"part-{attempt}", schema=schema)
    landing.remove_folder(whole)


def _alike(files: Sequence[_File]) -> Sequence[Sequence[_File]]:
    """Files that are read in the same way; those without records are in none."""
    found: dict[object, list[_File]] = {}
    for file in files:
        archived = file[0]
        probe, kind = archived.probe, archived.kind
        how = (kind.format, kind.compression, archived.probe.version) + (
            probe.header,
            probe.line_end,
            probe.columns,
            probe.valid_utf8,
        )
        if not probe.empty:
            found.setdefault(how, []).append(file)
    return tuple(found.values())


def _part(held: ConformedRecords, files: Sequence[_File], bounds: Bounds) -> DataFrame:
    first = files[0][0]
    version = first.probe.version
    assert version is not None
    found = records(
        held.spark,
        [for_spark(held.landing.place, archived.stored_path) for archived, _ in files],
        kind=first.kind,
        probe=first.probe,
        source=held.source.at(version),
    )
    import_id = _by_file(files, [record.import_id for _, record in files])
    arrival = _by_file(files, [record.arrival for _, record in files])
    name = _by_file(files, [record.name for _, record in files])
    owner = {IMPORT_ID: import_id, ARRIVAL: arrival, FILE_NAME: name}
    return conformed([found], source=held.source, owner=owner, bounds=bounds)


def _by_file(files: Sequence[_File], values: Sequence[str | int]) -> Column:
    """The value of each record's file."""
    if len(files) == 1:
        return F.lit(values[0])
    of_file = {Path(archived.stored_path).name: value for (archived, _), value in zip(files, values, strict=True)}
    kind = "string" if isinstance(values[0], str) else "int"
    # One literal: an expression for each file would make a plan that takes longer than the reading.
    return F.from_json(F.lit(json.dumps(of_file)), f"map<string, {kind}>")[F.col(FILE)]


_ROWS = 8192
"""Read at a time: what is held in memory does not grow with the files."""


def split_by(
    column: str, files: Files, whole: str, folders: Mapping[str, str], *, name: str, schema: pa.Schema
) -> None:
    """Writes the rows of the Parquet files of a folder as `<folder of the value>/<name>-<number>.parquet`.

    Rows of one value that are not beside each other become several files; a value without rows gets one that has none.

    Args:
        whole: The folder with the files, relative to the place; it need not exist.
        folders: The folder of each value, relative to the place.
        schema: The columns of a file without rows.
    """
    number, without = 0, dict(folders)
    for path in [each.path for each in files.listed(whole) if each.path.endswith(".parquet")]:
        with (
            files.open(path) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as file,
            ExitStack() as written,
        ):
            present: str | None = None
            writer: pq.ParquetWriter | None = None
            for value, rows in _runs(file, column):
                if writer is None or value != present:
                    written.close()
                    one = written.enter_context(files.create(f"{folders[value]}/{name}-{number:05}.parquet"))
                    writer = written.enter_context(pq.ParquetWriter(one, file.schema_arrow, compression="zstd"))
                    present, number = value, number + 1
                    without.pop(value, None)
                writer.write_batch(rows)
    for folder in without.values():
        with files.create(f"{folder}/{name}-{number:05}.parquet") as one, pq.ParquetWriter(one, schema):
            number += 1


def _runs(file: pq.ParquetFile, column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows in their order, cut where the value of the column changes."""
    for batch in file.iter_batches(_ROWS):
        ends = batch.column(column).dictionary_encode()
        lengths = pc.run_end_encode(ends.indices)
        begin = 0
        for index, end in zip(lengths.values.to_pylist(), lengths.run_ends.to_pylist(), strict=True):
            yield ends.dictionary[index].as_py(), batch.slice(begin, end - begin)
            begin = end


# Attempt: the steps that landing one file and landing a complete extract have in common.
#
# An attempt takes one or more imports in, writes their conformed records, accounts for all of them together, and
# finishes all of them in one transaction. Until then nothing of them is used.

Quarantine = Callable[[DataFrame, str], None]
"""Keeps the rejected records of an import, given its id; doing it again for the same import changes nothing."""

_SPARKS_REASON = re.compile(r"\[((?:FAILED_READ_FILE|PARQUET_|UNSUPPORTED_|MALFORMED_)[A-Z_.]*)\]")


_NOTHING_ELSE = Account(files={}, moved_elsewhere={}, linked=(), keys={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The result of landing a file."""

    record: ImportRecord
    days: tuple[date, ...]
    is_new: bool  #: True if something was landed, rather than ignored.
    missing_columns: tuple[str, ...] = ()  #: Columns of the contract that the file does not have; they are null.
    puts_back: bool = False  #: True if the landed file was gone or damaged, and is there again.


def landed_now(record: ImportRecord, found: Account, archived: Archived | None = None) -> Landed:
    """The result for an import that has just landed; without a file for a statement."""
    days = tuple(day.event_date for day in found.files[record.import_id].days)
    missing = archived.probe.missing_columns if archived else ()
    return Landed(record=record, days=days, is_new=True, missing_columns=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """The context of an attempt to land files."""

    ledger: Ledger
    #: Opens the session that reads files: only when records are read, so that what is refused without reading them is
    #: refused at once.
    open_session: Callable[[], SparkSession]
    settings: Settings  #: Where the landing folder is, and the first day.
    source: SourceTable
    by: str
    quarantine: Quarantine  #: Keeps rejected records.
    reached: Reached
    lease: LeaseTerms  #: Names this attempt.

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
            with removed_at_end(self.place, self.lease.attempt):
                yield

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
        """Conforms several files of the same moment in one Spark job."""
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
        if each.file.family == GIVEN_FILE:
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
    """The number of messages that a file has beyond its records: some are none, and some are several."""
    return sum(many for _, many in probe.passed_over) - probe.parts


def said_of(error: BaseException, source: SourceTable, imports: Sequence[ImportRecord]) -> BackfillError | None:
    """The refusal that an error of Spark means for files that were read; None for any other error."""
    if (found := _sparks_reason(error)) is not None:
        why = f"cannot be read to its end ({found.group(1)})"
        return BadFile(path=", ".join(record.name for record in imports), fault=Fault.DAMAGED, why=why)
    if isinstance(error, (PySparkException, Py4JError)):
        return SparkStopped(source=source.name, why=spark_reason(error))
    return None


def _said_of_messages(held: Probe) -> str:
    """The note that is recorded of messages that are no records, or several."""
    said = ", ".join(count_of(many, what) for what, many in held.passed_over)
    found = [f"passed over: {said}"] if said else []
    if held.several:
        found.append(f"{count_of(held.several, 'message')} with {held.several + held.parts:,} records")
    return "; ".join(found)


def is_about_a_file(error: BaseException) -> bool:
    """True if landing stopped because of the content of one file, so that the others can land without it."""
    is_of_delivery = isinstance(error, FileRefused) and error.fault is Fault.DELIVERY
    is_known = isinstance(error, (UnreadableFile, AmbiguousOrder, RecordsMissing)) or is_of_delivery
    return is_known or _sparks_reason(error) is not None


def _sparks_reason(error: BaseException) -> re.Match[str] | None:
    return _SPARKS_REASON.search(str(error)) if isinstance(error, (PySparkException, Py4JError)) else None


def _kind_of(error: BaseException) -> str:
    return error.recorded if isinstance(error, BackfillError) else type(error).__name__
