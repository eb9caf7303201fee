"""Complete extracts: files with every record of a source for some days.

Keys that earlier files have on these days and these files do not are withdrawn, those of rejected records among them:
otherwise they would come back when a record is read again. The files and the withdrawal land together: either all of it
counts or nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, time
from functools import partial
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, count_of
from backfill_assets.capture.errors import Fault, FileRefused
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import STATEMENT, Capture, FileKind
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.core.places import exactly, for_spark
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import UnknownKeys, is_current
from backfill_assets.lake.row_values import Texts, instants_in, texts
from backfill_assets.landing.attempt import Landed, Landing, landed_now, require_all, require_records
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.conformed import (
    CONTENT_HASH,
    IMPORT_ID,
    conformed,
    earlier_versions,
    is_version,
    owner_of,
    version_columns,
)
from backfill_assets.landing.days import last_day, unexplained_days
from backfill_assets.landing.decoding.decode import reading, to_read
from backfill_assets.landing.errors import WithdrawsTooMuch
from backfill_assets.landing.file_versions import Archived, probe_versions, records_by_version
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.imports import OnDuplicate, imports_for_days, landed_since, reads_otherwise
from backfill_assets.landing.key_versions import (
    DECIDES,
    IS_CURRENT,
    PHASE,
    UNKNOWN,
    WITH,
    WITHOUT,
    Account,
    KeyState,
    RecordOutcome,
    account_of,
    fate,
    key_state,
    of_keys_of,
    open_rejected,
    resolve_versions,
    with_and_without,
)
from backfill_assets.landing.land import require_whole_files
from backfill_assets.landing.probe import Probe
from backfill_assets.landing.record_rules import REASON, Bounds, has_key, local_day
from backfill_assets.landing.statements import (
    Statement,
    columns_condition,
    record_statement,
    require_columns,
    statement_rows,
    write_statement,
)
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord
from backfill_assets.ledger.states import COUNTING


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Counts of the keys of files; a key that they end, or that another version decides, is in none or unchanged."""

    new: int = 0  #: Keys that are not there now.
    changed: int = 0  #: Those with other values on the same day.
    moved: int = 0  #: Those that are on another day now.
    unchanged: int = 0  #: Those that stay as they are.
    older: int = 0  #: Those of which a record with a later position is there already, which decides them.
    unknown: int = 0  #: Those that are not known then, because their record is rejected.


def _versions(work: Landing, imports: Sequence[ImportRecord]) -> DataFrame:
    """The version columns of imports, read without the turn of the source."""
    return work.records.versions(imports).select(*version_columns(work.source))


def _effect(found: DataFrame, source: SourceTable, ids: Sequence[str]) -> Effect:
    """The effect of the versions of some imports: the results of `resolve_versions` with and without them."""
    is_mine = F.col(IMPORT_ID).isin(list(ids)) & (F.col(PHASE) == WITH)
    decided = F.max(is_mine & (fate() != F.lit(str(RecordOutcome.SUPERSEDED))))
    # What is withdrawn is not unknown, so of such a key one of their records is rejected.
    is_told = F.max(is_mine | (F.col(UNKNOWN).isNotNull() & (F.col(PHASE) == WITH)))
    mine = found.groupBy(*source.key).agg(is_told.alias("mine"), decided.alias("decided")).where("mine")
    current = found.where(F.col(DECIDES) & (key_state() == F.lit(str(KeyState.CURRENT))))
    day, content = F.col(source.partition.column).alias("day"), F.col(CONTENT_HASH).alias("content")
    is_unknown = F.col(UNKNOWN).isNotNull().alias("is_unknown")
    state = F.struct(day, content, is_unknown)
    in_phase = {phase: F.max(F.when(F.col(PHASE) == phase, state)) for phase in (WITHOUT, WITH)}
    by_key = current.groupBy(*source.key).agg(in_phase[WITHOUT].alias("was"), in_phase[WITH].alias("is"))
    by_key = by_key.join(mine, on=list(source.key))
    kind = (
        F.when(F.col("is.is_unknown"), "unknown")
        .when(F.col("was").isNull(), "new")
        .when(F.col("was.day") != F.col("is.day"), "moved")
        .when(F.col("was.content") != F.col("is.content"), "changed")
        .when(~F.col("decided"), "older")
        .otherwise("unchanged")
    )
    counts = by_key.where(F.col("is").isNotNull()).groupBy(kind.alias("kind")).count().collect()
    return Effect(**{row["kind"]: row["count"] for row in counts})


_MOST_SAMPLES = 5
_STATING = "statement"
"""Stands for the import of a statement that is only foreseen."""
_DAY = "_local_day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """The statement that files are complete, for some days or values."""

    days: DayRange  #: They hold everything of these days, as clocks show them where the source is.
    where: Mapping[str, str]  #: And of rows with these values only; empty for all rows of the days.
    reason: str  #: Why they replace what landed before.
    #: Another person, who confirms that more is withdrawn than the source allows; None without one.
    confirmed_by: str | None = None
    is_captured: bool = False  #: Its files were captured, so that they cannot be looked at before they land.
    #: When its files were asked for, before they were read: it is refused where others than those of `before` have
    #: landed since; None where that does not matter.
    read_at: datetime | None = None
    before: frozenset[str] = frozenset()  #: The stored paths of files that were captured before them, and their own.

    def scope(self, source: SourceTable) -> str:
        """The days, with their zone where the source has one, and the values of the rows."""
        days = f"{self.days} in {source.zone_of_days}" if source.zone_of_days else str(self.days)
        return " and ".join([days, *(f"{name}={value[:100]}" for name, value in self.where.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The keys that an extract withdraws."""

    keys: int = 0  #: How many keys that are current.
    current: int = 0  #: How many keys there are in its days and scope before it lands.
    #: How many keys besides that are not current, of which records of its days and scope were rejected.
    rejected: int = 0
    records: int = 0  #: How many valid records its files have.
    outside: int = 0  #: How many of them are of other days, or not in the scope.
    #: How many keys of each of these days, only of days that lose one.
    by_day: Mapping[date, int] = field(default_factory=dict)
    sample: tuple[Texts, ...] = ()  #: Some of the keys, as texts.
    effect: Effect | None = None  #: What the keys that its files have are; null where it lands.
    files: ImportCounts | None = None  #: What becomes of the records of its files; null where it lands.
    rebuilt: Partitions | None = None  #: The UTC dates that would be built again; null where it lands.

    @property
    def percent(self) -> float:
        return 100 * self.keys / self.current if self.current else 0.0

    @property
    def is_elsewhere(self) -> bool:
        """True if there are records, but none in the days and the scope of the extract."""
        return 0 < self.records == self.outside


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedExtract:
    """The result of landing an extract."""

    files: tuple[Landed, ...]
    #: The import that withdraws what they lack, with all days that have to be built again; it is not new for the same
    #: extract with nothing landed or read anew since, which changes nothing.
    statement: Landed
    withdrawn: Withdrawn


def preview(work: Landing, captures: Sequence[FileCapture], extract: Extract, *, now: datetime) -> Withdrawn:
    """Previews what an extract would withdraw and bring; keeps nothing.

    Args:
        now: Records of later than this are in the future.
    """
    require_columns(work.source, extract.where)
    for capture in captures:
        capture.require()
    _require_whole_files(work, captures, extract)
    with reading(work.place, begun_at=now) as owner:
        return _previewed(work, captures, extract, now=now, owner=owner)


def _previewed(
    work: Landing, captures: Sequence[FileCapture], extract: Extract, *, now: datetime, owner: str
) -> Withdrawn:
    offered = [_offered(work, each, owner) for each in captures]
    in_scope = columns_condition(work, extract.where)
    frame: DataFrame | None = None
    others = work.others(())
    arrivals = count(max((record.arrival for record in others), default=0) + 1)
    bounds = Bounds(first_day=work.settings.first_day, judged_at=now)
    ids = [f"file {number}" for number in range(len(captures))]
    for import_id, capture, (path, kind, probe) in zip(ids, captures, offered, strict=True):
        raw = records_by_version(work.spark, path, kind=kind, probe=probe, source=work.source, name=capture.name)
        of_file = owner_of(import_id, next(arrivals), capture.name)
        each = conformed(raw, source=work.source, owner=of_file, bounds=bounds)
        frame = each if frame is None else frame.unionByName(each)
    assert frame is not None
    known = _known(work, extract, in_scope, now=now, versions=partial(_versions, work))
    lacking, found = _lacking(work, frame, known, extract, in_scope)
    present = _foreseen(work, frame, lacking, others, arrival=next(arrivals))
    account = account_of(frame, present, [*ids, _STATING], work.source)
    for import_id, capture, (_, _, probe) in zip(ids, captures, offered, strict=True):
        require_records(capture.name, capture.record_count, account.files[import_id].counts.landed, probe)
    counts = [asdict(account.files[each].counts) for each in ids]
    touched = {day.event_date for each in account.files.values() for day in each.days}
    rebuilt = touched.union(_empty_days(work, extract, touched, now=now))
    lacking = lacking.where(IS_CURRENT)
    by_day = {row[_DAY]: row["count"] for row in lacking.groupBy(_DAY).count().collect()}
    sample = lacking.orderBy(_DAY, *work.source.key).limit(_MOST_SAMPLES).collect()
    return replace(
        found,
        keys=sum(by_day.values()),
        by_day=dict(sorted(by_day.items())),
        sample=tuple(texts(row, work.source.key, instants_in(work.source.schema)) for row in sample),
        effect=_effect(present, work.source, ids),
        files=ImportCounts(**{name: sum(each[name] for each in counts) for name in counts[0]}),
        rebuilt=Partitions.of(Grain.DAILY, rebuilt),
    )


def _offered(work: Landing, capture: FileCapture, owner: str) -> tuple[str, FileKind, Probe]:
    """An offered file as Spark reads it, what it is, and the result of probing it."""
    with to_read(work.place, owner, capture.path, capture.kind, work.source, name=capture.name) as read:
        found = probe_versions(read.copy, read.kind, work.source, name=capture.name)
    decoded = read.stored_path and for_spark(work.place.files.place, read.stored_path)
    return decoded or exactly(str(capture.path.absolute())), read.kind, found


def _foreseen(
    work: Landing, offered: DataFrame, lacking: DataFrame, others: Sequence[ImportRecord], *, arrival: int
) -> DataFrame:
    """The versions of the keys with the records and the withdrawals of an extract, and without them."""
    source = work.source
    stated = statement_rows(source, lacking, Operation.WITHDRAW, import_id=_STATING, arrival=arrival)
    mine = offered.unionByName(stated, allowMissingColumns=True).where(is_version(source))
    theirs = _versions(work, others)
    versions = with_and_without(mine.select(*version_columns(source)), theirs, source)
    # Without others nothing is withdrawn.
    return resolve_versions(
        versions, source, [*others, *(replace(each, format=STATEMENT) for each in others[:1])], apart=(PHASE,)
    )


def land_extract(work: Landing, captures: Sequence[Capture], extract: Extract) -> LandedExtract:
    """Lands files that are everything there is for some days, and withdraws what they lack."""
    require_columns(work.source, extract.where)
    if extract.where:
        columns_condition(work, extract.where)  # values that are none are refused before anything is kept
    with work.turn():
        _require_not_overtaken(work, extract)
        _require_whole_files(work, captures, extract)
        archived = [each for capture in captures for each in work.captured(capture)]
        statement = _statement(work.source, extract, archived)
        kept = statement.kept(work)
        # A capture has landed when its files are imports: one that were left out would land behind later captures.
        if not extract.is_captured and (known := _landed_last(work, archived, kept.sha256)) is not None:
            same = Landed(record=known, days=(), is_new=False)
            return LandedExtract(files=(), statement=same, withdrawn=Withdrawn())
        for each in archived:
            work.require_as_offered(each.file, OnDuplicate.CORRECT)
        imports = work.begun([*(each.file for each in archived), kept], OnDuplicate.CORRECT)
        work.reached(Point.LAND_BEGUN)
        with work.attempting(imports):
            in_scope = columns_condition(work, extract.where)
            *files, stating = imports
            for each, record in zip(archived, files, strict=True):
                work.conform(each, record)
            withdrawn = _withdraw(work, files, stating, extract, in_scope)
            found = _with_empty_days(work, work.account(imports), stating, extract)
            require_all(archived, files, found)
            work.keep_rejected(files, found)
            imports = _finished(work, imports, found, archived, statement, withdrawn, extract)
        work.reached(Point.LAND_FINISHED)
    landed = [landed_now(record, found, each) for record, each in zip(imports, [*archived, None], strict=True)]
    days = sorted({day for each in landed for day in each.days})
    return LandedExtract(files=tuple(landed[:-1]), statement=replace(landed[-1], days=tuple(days)), withdrawn=withdrawn)


def _require_not_overtaken(work: Landing, extract: Extract) -> None:
    """Refuses an extract that was read before others have landed on its days, of which it does not know."""
    if extract.read_at is None:
        return
    with work.ledger.read() as tx:
        later = landed_since(tx, work.source, extract.days, extract.read_at, but=extract.before)
    if later is not None:
        scope, path = extract.scope(work.source), later.original_path
        raise Refused.coded(
            "extract_overtaken",
            "{import_id} ({path}) has landed on days of {table} since {scope} was read again: records missing there "
            "may have come with it, so the extract is not landed.",
            then="read it anew with the command that asked for it, which has [reconcile=True] or [snapshot=True]; "
            "nothing has changed",
            table=work.source.name,
            scope=scope,
            import_id=later.import_id,
            path=path,
        )


def _require_whole_files(work: Landing, captures: Sequence[Capture], extract: Extract) -> None:
    if work.source.row_number and extract.where:
        why = f"files of {work.source.name} have no key, and cannot be all there is only of some rows"
        raise FileRefused(fault=Fault.ROWS_WITHOUT_KEY, why=why, source=work.source.name)

    def has_others(record: ImportRecord) -> bool:
        return bool(work.records.valid([record]).where(~_is_of(work.source, extract)).limit(1).count())

    with work.ledger.read() as tx:
        require_whole_files(tx, work.source, captures, extract.days, has_others)


def _finished(
    work: Landing,
    imports: Sequence[ImportRecord],
    found: Account,
    archived: Sequence[Archived],
    statement: Statement,
    withdrawn: Withdrawn,
    extract: Extract,
) -> list[ImportRecord]:
    with work.ledger.write() as tx:
        confirmed = f"confirmed by {extract.confirmed_by}" if extract.confirmed_by else ""
        work.finish(tx, imports, found, archived=archived, note="; ".join(filter(None, (statement.reason, confirmed))))
        record_statement(
            tx,
            imports[-1],
            statement,
            withdrawn.keys,
            by=work.by,
            of=withdrawn.current,
            rejected=withdrawn.rejected,
            scope=extract.scope(work.source),
            files=[record.import_id for record in imports[:-1]],
            confirmed_by=extract.confirmed_by,
        )
        return [tx.imports.get(record.import_id) for record in imports]


def _with_empty_days(work: Landing, found: Account, stating: ImportRecord, extract: Extract) -> Account:
    """With the UTC dates of which the files have no record, and no other file has: the statement says that they are
    empty.

    Not a date that its days have a part of, nor that on which it lands and later ones, which are not over; and nothing
    where it is about some rows only, or captured: then its days are not those that a person has named.
    """
    touched = {day.event_date for file in found.files.values() for day in file.days}
    empty = _empty_days(work, extract, touched, now=stating.first_seen_at)
    of = stating.import_id
    days = (*found.files[of].days, *(ImportDay(import_id=of, event_date=day, events=0) for day in empty))
    return replace(found, files={**found.files, of: replace(found.files[of], days=days)})


def _empty_days(work: Landing, extract: Extract, touched: Collection[date], *, now: datetime) -> Sequence[date]:
    if extract.where or extract.is_captured:
        return ()
    whole = work.source.days.whole_partitions(extract.days)
    today = work.source.days.over_before(now)
    over = [day for day in whole if work.settings.first_day <= day < today and day not in touched]
    with work.ledger.read() as tx:
        return unexplained_days(tx, work.source, over)


def _statement(source: SourceTable, extract: Extract, archived: Sequence[Archived]) -> Statement:
    document = {
        "statement": "extract",
        "days": [extract.days.start.isoformat(), extract.days.last.isoformat()],
        **({"timezone": source.zone_of_days} if source.zone_of_days else {}),
        "where": dict(extract.where),
        "files": [each.file.sha256 for each in archived],
    }
    return Statement(title=f"complete extract of {extract.scope(source)}", document=document, reason=extract.reason)


def _landed_last(work: Landing, archived: Sequence[Archived], sha256: str) -> ImportRecord | None:
    """This very statement, if nothing of the source has landed after it, nor was read anew, and its files would be read
    as they were."""
    with work.ledger.read() as tx:
        live = tx.imports.records(work.source.name, COUNTING)
    if not live or live[-1].sha256 != sha256:
        return None
    *before, last = live
    assert last.landed_at is not None, "an import that counts has landed"
    # What a file gave as it was read before may be what the statement has withdrawn.
    is_anew = any(each.landed_at is not None and each.landed_at > last.landed_at for each in before)
    landed, otherwise = {each.sha256: each for each in before}, reads_otherwise(work.source)
    is_otherwise = any(otherwise(landed[each.file.sha256]) for each in archived if each.file.sha256 in landed)
    return None if is_anew or is_otherwise else last


def _known(
    work: Landing,
    extract: Extract,
    in_scope: Column,
    *,
    now: datetime,
    versions: Callable[[Sequence[ImportRecord]], DataFrame],
) -> DataFrame:
    """The keys of the days and the scope: those that are current there, and those of rejected records.

    A rejected record counts where nothing newer of its key does: so its key would be there if it were read again. One
    of which no day can be read is of all days together only.
    """
    current = _current(work, extract).where(in_scope)
    current = current.select(*work.source.key, local_day(work.source).alias(_DAY), F.lit(True).alias(IS_CURRENT))
    others = work.others(())
    rejecting = [record for record in others if record.counts.rejected > record.keyless]
    if not rejecting:
        return current
    source, key = work.source, list(work.source.key)
    of_days = F.lit(True) if _is_of_all_days(work, extract, now) else _has_day(source) & _is_of(source, extract)
    rejected = work.records.read(rejecting).where(F.col(REASON).isNotNull() & is_version(source) & of_days & in_scope)
    rejected = rejected.select(*key, IMPORT_ID, ROW, local_day(source).alias(_DAY))
    theirs = of_keys_of(rejected, versions(others), source)
    opened = open_rejected(theirs, source, others).select(IMPORT_ID, ROW, IS_CURRENT)
    by_key = rejected.join(opened, on=[IMPORT_ID, ROW]).groupBy(*key)
    beside = by_key.agg(F.max(_DAY).alias(_DAY), F.max(IS_CURRENT).alias(IS_CURRENT))
    return current.unionByName(beside.join(current.select(*key), on=key, how="left_anti"))


def _is_of_all_days(work: Landing, extract: Extract, now: datetime) -> bool:
    """True if its days are all that any record landed so far can have."""
    days, first = work.source.days, work.settings.first_day
    begins = first if days.are_dates else days.of(datetime.combine(first, time(), UTC))
    with work.ledger.read() as tx:
        return extract.days.start <= begins and last_day(tx, work.source, now) <= extract.days.last


def _has_day(source: SourceTable) -> Column:
    """True if the day of a rejected record can be read: the time of a change is not that of the changed row."""
    return F.col(source.event_time).isNotNull()


def _current(work: Landing, extract: Extract) -> DataFrame:
    """The current rows of the days, as everything that has landed makes them."""
    days = list(work.source.days.partitions(extract.days))
    with work.ledger.read() as tx:
        imports = imports_for_days(tx, work.source, days)
    # What is not known is withdrawn as well, also where bronze does not show it.
    source = replace(work.source, unknown=UnknownKeys.KEEP)
    rows = bronze_rows(work.spark, work.settings, source, imports=imports, days=days)
    rows = rows.where(_is_of(work.source, extract))
    return rows if work.source.operation is None else rows.where(is_current())


def _is_of(source: SourceTable, extract: Extract) -> Column:
    return local_day(source).between(F.lit(extract.days.start), F.lit(extract.days.last))


def _lacking(
    work: Landing, offered: DataFrame, known: DataFrame, extract: Extract, in_scope: Column
) -> tuple[DataFrame, Withdrawn]:
    """The keys that an extract lacks, each with its day, and what else is counted of it."""
    _require_keys(work, offered)
    key = work.source.key
    # Keys of rejected records as well: what is wrong about them is no reason to withdraw the key.
    keys = offered.select(*key).dropna().distinct()
    lacking = known.join(keys, on=list(key), how="left_anti")
    within = _is_of(work.source, extract) & in_scope
    records = offered.where(F.col(REASON).isNull()).select(F.count("*"), F.count_if(~within)).collect()[0]
    return lacking, Withdrawn(
        current=known.where(IS_CURRENT).count(),
        rejected=lacking.where(~F.col(IS_CURRENT)).count(),
        records=records[0],
        outside=records[1],
    )


def _require_keys(work: Landing, records: DataFrame) -> None:
    """Refuses rejected records whose key cannot be read: one of those that seem to be missing may be theirs."""
    unknown = records.where(F.col(REASON).isNotNull() & ~has_key(work.source))
    if many := unknown.count():
        first = unknown.orderBy(ROW).select(ROW, REASON).collect()[0]
        rejected = f"{count_of(many, 'rejected record')} of the extract"
        raise FileRefused(
            fault=Fault.REJECTED_KEYS,
            why=f"{rejected} {'has' if many == 1 else 'have'} no readable key, so the missing keys are not "
            f"known; the first is record {first[ROW]}: {first[REASON]}",
            source=work.source.name,
        ).record_as(f"{rejected} without a readable key")


def _withdraw(
    work: Landing, files: Sequence[ImportRecord], stating: ImportRecord, extract: Extract, in_scope: Column
) -> Withdrawn:
    """Writes the keys that the files lack, and refuses when they are more than the source allows."""
    offered = work.records.read([work.present(record) for record in files])
    earlier = partial(earlier_versions, work.records)
    known = _known(work, extract, in_scope, now=stating.first_seen_at, versions=earlier)
    lacking, found = _lacking(work, offered, known, extract, in_scope)
    write_statement(work, stating, lacking, Operation.WITHDRAW)
    written = work.spark.read.parquet(work.records.folder(stating.import_id)).count()
    found = replace(found, keys=written - found.rejected)
    require_plausible(work, found, extract)
    return found


def require_plausible(work: Landing, withdrawn: Withdrawn, extract: Extract) -> None:
    """Refuses an extract that withdraws more than its source allows, unless another person confirms it."""
    allowed = work.source.most_withdrawn_percent
    if withdrawn.percent <= allowed or extract.confirmed_by:
        return
    raise WithdrawsTooMuch(
        source=work.source.name,
        scope=extract.scope(work.source),
        keys=withdrawn.keys,
        current=withdrawn.current,
        records=withdrawn.records,
        outside=withdrawn.outside,
        percent=withdrawn.percent,
        allowed=allowed,
        is_captured=extract.is_captured,
    )
