"""Versions of a key: which one counts, and the compacted files in which accounts find those of earlier imports."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType
from pyspark.sql.window import WindowSpec

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.identity import DataFile, document_digest, sha256_bytes
from backfill_assets.core.places import for_spark
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import OPERATION, STATEMENTS
from backfill_assets.files.port import Files
from backfill_assets.files.recorded import altered
from backfill_assets.lake.staging import described_files
from backfill_assets.landing.conformed import (
    ARRIVAL,
    CONTENT_HASH,
    IMPORT_ID,
    RESTORES,
    ConformedRecords,
    conformed_schema,
    has_present_hashes,
)
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.record_rules import REASON, happened_at
from backfill_assets.ledger.imports import ImportRecord

# Standing: what each version of a key is among all versions of it.
#
# The versions of a key are ordered by the columns that its source declares, or by arrival. Of versions that are
# equal in these columns a change comes after a snapshot, and a later arrival after an earlier one. A withdrawal
# voids every version of its key that arrived before it, whatever their order, until a restoration names it. Of
# the versions that are not void
#
# - a *duplicate* has the content of the one before it; - the last one that is no duplicate *decides* what the key
# is: current, or deleted. A key without such a version is withdrawn, and its last withdrawal decides that; - each
# one *ends* with the next one of another position, or with a truncate that comes before that; and, as far as
# times go, at the earliest time of all that come after it, so that of two versions that a time is of the last one
# holds at it. One that is dated back before another leaves nothing of that.
#
# A rejected record whose key can be read is no version. What its key is since then is *not known* while nothing
# newer has been accepted of it: nothing of a later position or, where its own position cannot be read, nothing
# that arrived later. A withdrawal ends that too, also of a key that was never accepted: the record stays void
# when it is read again.
#
# Column expressions over windows by key: nothing here reads or writes.

HAPPENED = "_happened"
VOID_BY = "_void_by"
IS_LAST_VOID = "_is_last_void"
IS_DUPLICATE = "_is_duplicate"
IS_OVERRIDDEN = "_is_overridden"
IS_TIED = "_is_tied"
DECIDES = "_decides"
NEXT = "_next"
EARLIEST = "_earliest"
UNKNOWN = "_unknown"

STATE_BEFORE, STATE_AFTER = "_state_before", "_state_after"

_COUNTS, _BEFORE, _RANK = "_counts", "_before", "_rank"
_RESTORED, _WITHDRAWAL = "_restored", "_withdrawal"
_NEWEST, _SINCE = "_newest", "_since"
_IS_OPEN, _WITHDRAWS = "_is_open", "_withdraws"
IS_CURRENT = "_is_current"


class RecordOutcome(StrEnum):
    """The outcome of a valid record among all versions of its key."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"


class KeyState(StrEnum):
    """The state of a key after everything that has landed."""

    CURRENT = "current"
    DELETED = "deleted"
    WITHDRAWN = "withdrawn"


def version_columns(source: SourceTable) -> list[Column]:
    """The columns of a conformed record that `resolve_versions` needs, rejected ones of a known key among them."""
    names = dict.fromkeys([*source.key, *source.order, source.partition.column])
    own = (IMPORT_ID, ARRIVAL, ROW, CONTENT_HASH, OPERATION, RESTORES, REASON)
    return [*(F.col(name) for name in (*names, *own)), happened_at(source).alias(HAPPENED)]


def resolve_versions(
    versions: DataFrame, source: SourceTable, imports: Iterable[ImportRecord], *, apart: Sequence[str] = ()
) -> DataFrame:
    """Every version with what it is among those of its key.

    Args:
        versions: At least `version_columns` of all valid records of some keys, of the rejected ones of these keys, and
            of the truncates.
        imports: Where they are from: without a statement among them there is nothing to look for that withdraws.
        apart: Columns of `versions`; versions that differ in them are not of one key.

    Returns:
        The columns of `versions` for each that is no rejected record (a truncate is there once for every key), and:
        `_void_by`, the import that withdraws it; `_is_last_void`, whether no other withdrawn one of its key comes after
        it; `_is_duplicate`; `_is_overridden`, whether a later one has its
        position; `_is_tied`, whether nothing declared decides between it and the one before it; `_decides`, whether it
        decides what its key is; `_next`, what ends it: operation, import, day and time of that, null while it holds;
        `_earliest`, of what comes after it that which happened first: time, import and day;
        `_unknown`, of one that decides that its key is current, the first rejected record to arrive that is newer:
        import, number, time and reason.
    """
    found = _judged(versions, source, imports, apart).where(F.col(REASON).isNull()).drop(_IS_OPEN)
    is_current = F.col(DECIDES) & (key_state() == KeyState.CURRENT)
    return found.withColumn(UNKNOWN, F.when(is_current, F.col(_SINCE))).drop(_SINCE)


def open_rejected(versions: DataFrame, source: SourceTable, imports: Iterable[ImportRecord]) -> DataFrame:
    """The rejected records that no withdrawal voids and that are newer than everything that counts of their key.

    Args:
        versions: As for `resolve_versions`.
        imports: As for `resolve_versions`.

    Returns:
        The columns of `versions`, and `_is_current`: whether the key is current by what was accepted of it.
    """
    found = _judged(versions, source, imports, ())
    is_current = F.max(F.col(DECIDES) & (key_state() == KeyState.CURRENT)).over(Window.partitionBy(*source.key))
    return found.withColumn(IS_CURRENT, is_current).where(_IS_OPEN).select(*versions.columns, IS_CURRENT)


def _judged(
    versions: DataFrame, source: SourceTable, imports: Iterable[ImportRecord], apart: Sequence[str]
) -> DataFrame:
    """Every version and every rejected record, with what `resolve_versions` and `open_rejected` tell of them."""
    every = Window.partitionBy(*apart, *source.key)
    operation = F.col(OPERATION)
    is_statement = _is_statement()
    is_truncate = F.coalesce(operation == Operation.TRUNCATE, F.lit(False))
    found = _with_truncates(versions, source, apart).withColumn(_RANK, _rank(source))
    is_stated = any(record.format == STATEMENT for record in imports)
    found = _with_withdrawals(found, every, is_stated=is_stated)
    is_rejected = F.col(REASON).isNotNull()
    found = found.withColumn(_COUNTS, ~is_statement & ~is_rejected & F.col(VOID_BY).isNull())
    place = F.struct(*(F.col(name) for name in _place(source)))
    found = _with_rejected(found, source, every, place)
    position = F.struct(*(F.col(name) for name in source.order or (ARRIVAL, ROW)))
    before = F.struct(_COUNTS, CONTENT_HASH, _RANK, position.alias("position"))
    found = found.withColumn(_BEFORE, F.lag(before).over(_in_order(source, every)))
    follows = F.col(_COUNTS) & F.coalesce(F.col(f"{_BEFORE}.{_COUNTS}"), F.lit(False))
    same_content = F.col(f"{_BEFORE}.{CONTENT_HASH}") == F.col(CONTENT_HASH)
    same_position = (F.col(f"{_BEFORE}.position") == position) & (F.col(f"{_BEFORE}.{_RANK}") == F.col(_RANK))
    found = found.withColumn(IS_DUPLICATE, follows & ~is_truncate & same_content)
    # Not `~IS_DUPLICATE`: a truncate that is delivered again is no duplicate of any key, and no contradiction either.
    found = found.withColumn(IS_TIED, F.lit(bool(source.order)) & follows & same_position & ~same_content)

    stands = F.col(_COUNTS) & ~F.col(IS_DUPLICATE)
    after = _in_reverse(source, every).rowsBetween(Window.unboundedPreceding, -1)
    later = F.last(F.when(stands, position), ignorenulls=True).over(after) if source.order else F.lit(None)
    found = found.withColumn(IS_OVERRIDDEN, F.coalesce(later == position, F.lit(False)))
    ends = F.struct(
        operation.alias("operation"),
        F.col(IMPORT_ID).alias("import_id"),
        F.col(source.partition.column).alias("day"),
        F.col(HAPPENED).alias("at"),
    )
    held = stands & ~F.col(IS_OVERRIDDEN)
    in_time = F.struct(ends["at"].alias("at"), ends["import_id"].alias("import_id"), ends["day"].alias("day"))
    last = F.max(F.when(stands & ~is_truncate, place)).over(every)
    is_void = F.col(VOID_BY).isNotNull() & ~is_rejected
    last_void = F.max(F.when(is_void, place)).over(every) if is_stated else F.lit(None)
    withdrawn = (operation == Operation.WITHDRAW) & (F.col(ARRIVAL) == F.col(f"{_WITHDRAWAL}.{ARRIVAL}"))
    return found.select(
        *versions.columns,
        _SINCE,
        _IS_OPEN,
        F.coalesce(withdrawn, F.lit(False)).alias(_WITHDRAWS),
        VOID_BY,
        F.coalesce(is_void & (place == last_void), F.lit(False)).alias(IS_LAST_VOID),
        IS_DUPLICATE,
        IS_OVERRIDDEN,
        IS_TIED,
        F.coalesce(F.when(last.isNull(), withdrawn).otherwise(stands & (place == last)), F.lit(False)).alias(DECIDES),
        F.last(F.when(held, ends), ignorenulls=True).over(after).alias(NEXT),
        F.min(F.when(held & F.col(HAPPENED).isNotNull(), in_time)).over(after).alias(EARLIEST),
    )


def _with_rejected(found: DataFrame, source: SourceTable, every: WindowSpec, place: Column) -> DataFrame:
    """Adds the rejected records that are newer than everything that counts of their key, and the first of these to
    arrive."""
    found = found.withColumn(_NEWEST, F.max(F.when(F.col(_COUNTS), place)).over(every))
    is_placed = reduce(
        lambda left, right: left & right, (F.col(name).isNotNull() for name in source.order), F.lit(True)
    )
    came_later = F.struct(ARRIVAL, ROW) > F.struct(f"{_NEWEST}.{ARRIVAL}", f"{_NEWEST}.{ROW}")
    is_newer = F.when(is_placed, place > F.col(_NEWEST)).otherwise(came_later)
    is_newer = F.col(_NEWEST).isNull() | F.coalesce(is_newer, F.lit(False))
    found = found.withColumn(_IS_OPEN, F.col(REASON).isNotNull() & F.col(VOID_BY).isNull() & is_newer)
    since = F.struct(ARRIVAL, ROW, IMPORT_ID, F.col(HAPPENED).alias("at"), F.col(REASON).alias("reason"))
    return found.withColumn(_SINCE, F.min(F.when(F.col(_IS_OPEN), since)).over(every))


def _with_withdrawals(versions: DataFrame, every: WindowSpec, *, is_stated: bool) -> DataFrame:
    """The withdrawal of the key that stands, as arrival and import, and which versions it voids."""
    if not is_stated:
        nothing = F.lit(None).cast("string")
        standing_one = F.struct(F.lit(None).cast("int").alias(ARRIVAL), nothing.alias(IMPORT_ID))
        return versions.withColumns({_WITHDRAWAL: standing_one, VOID_BY: nothing})
    operation = F.col(OPERATION)
    restored = F.collect_set(F.when(operation == Operation.RESTORE, F.col(RESTORES))).over(every)
    withdraws = (operation == Operation.WITHDRAW) & ~F.array_contains(_RESTORED, F.col(IMPORT_ID))
    is_record = ~F.coalesce(operation.isin(*map(str, (*STATEMENTS, Operation.TRUNCATE))), F.lit(False))
    is_earlier = F.col(ARRIVAL) < F.col(f"{_WITHDRAWAL}.{ARRIVAL}")
    return (
        versions.withColumn(_RESTORED, restored)
        .withColumn(_WITHDRAWAL, F.max(F.when(withdraws, F.struct(ARRIVAL, IMPORT_ID))).over(every))
        .withColumn(VOID_BY, F.when(is_record & is_earlier, F.col(f"{_WITHDRAWAL}.{IMPORT_ID}")))
    )


def with_states(found: DataFrame, source: SourceTable, *, apart: Sequence[str]) -> DataFrame:
    """Adds to each version of `resolve_versions` the state of its key before that version arrived, and when it had."""
    arrived = Window.partitionBy(*apart, *source.key).orderBy(ARRIVAL, ROW)
    so_far = arrived.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    operation = F.col(OPERATION)
    is_truncate = F.coalesce(operation == Operation.TRUNCATE, F.lit(False))
    counts = ~_is_statement() & F.col(VOID_BY).isNull()
    ends = F.coalesce(operation.isin(str(Operation.DELETE), str(Operation.TRUNCATE)), F.lit(False))
    found = found.withColumn(_RANK, _rank(source))
    last = F.max(F.when(counts, F.struct(*(F.col(name) for name in _place(source)), ends.alias("ends")))).over(so_far)
    is_known = F.max(counts & ~is_truncate).over(so_far)
    was_withdrawn = F.max(F.col(VOID_BY).isNotNull() | F.col(_WITHDRAWS)).over(so_far)
    state = (
        F.when(is_known & last["ends"], F.lit(KeyState.DELETED))
        .when(is_known, F.lit(KeyState.CURRENT))
        .when(was_withdrawn, F.lit(KeyState.WITHDRAWN))
    )
    found = found.withColumn(STATE_AFTER, state.cast("string")).drop(_RANK)
    return found.withColumn(STATE_BEFORE, F.lag(STATE_AFTER).over(arrived))


def _is_statement() -> Column:
    return F.coalesce(F.col(OPERATION).isin(*map(str, STATEMENTS)), F.lit(False))


def fate() -> Column:
    """The outcome of a record. One that decides nothing and repeats nothing is superseded, truncates included."""
    return (
        F.when(F.col(IS_DUPLICATE), F.lit(RecordOutcome.DUPLICATE))
        .when(F.col(DECIDES), F.lit(RecordOutcome.ACCEPTED))
        .otherwise(F.lit(RecordOutcome.SUPERSEDED))
    )


def key_state() -> Column:
    """The state of a key, by the version that decides it: only a truncate can come after that."""
    operation = F.coalesce(F.col(OPERATION), F.lit(""))
    return (
        F.when(operation == Operation.WITHDRAW, F.lit(KeyState.WITHDRAWN))
        .when((operation == Operation.DELETE) | F.col(NEXT).isNotNull(), F.lit(KeyState.DELETED))
        .otherwise(F.lit(KeyState.CURRENT))
    )


def _place(source: SourceTable) -> tuple[str, ...]:
    """The position of a version, with what decides between equal ones."""
    return (*source.order, _RANK, ARRIVAL, ROW) if source.order else (ARRIVAL, ROW)


def _in_order(source: SourceTable, every: WindowSpec) -> WindowSpec:
    """Versions that do not count come first, so that none of them lies between two that do."""
    return every.orderBy(_COUNTS, *_place(source))


def _in_reverse(source: SourceTable, every: WindowSpec) -> WindowSpec:
    """Seen from each version, all that come after it; a frame of what follows would be read again for each row."""
    return every.orderBy(F.col(_COUNTS).desc(), *(F.col(name).desc() for name in _place(source)))


def _rank(source: SourceTable) -> Column:
    """The rank among versions of one position: a snapshot comes before a change."""
    if source.operation is None or source.operation.snapshot is None:
        return F.lit(1)
    return F.when(F.col(OPERATION) == Operation.SNAPSHOT, F.lit(0)).otherwise(F.lit(1)).cast(IntegerType())


def _with_truncates(versions: DataFrame, source: SourceTable, apart: Sequence[str]) -> DataFrame:
    """Truncates have no key: each is put among the versions of every key. There are few of them."""
    if source.operation is None or source.operation.truncate is None:
        return versions
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    keyed, truncates = versions.where(~is_truncate), versions.where(is_truncate)
    keys = keyed.select(*apart, *source.key).distinct()
    few = F.broadcast(truncates.drop(*source.key))
    of_each_key = (keys.join(few, on=list(apart)) if apart else keys.crossJoin(few)).select(*versions.columns)
    return keyed.unionByName(of_each_key)


# Compacted versions: what accounts need of earlier imports, in a few sorted files instead of a folder for each
# import.
#
# A segment holds the version columns of the records of some imports, rejected ones of a known key among them, as
# the present contract has them, sorted by key. It says which imports it stands for and by which conformed files
# of each; for an import that was landed again since it does not count. Nothing rests on segments: what none
# stands for is read from the conformed folders, and a segment that is removed is built again. They are read and
# built by the process that has the turn of the source.
#
# The newest imports are read from their folders. When they are many they become a segment, together with the
# segments that are not larger than what has come so far: so there are few, and a record is written again a few
# times only.

MOST_FOLDERS = 32
"""So many of the newest imports are read from their own folders."""

ROWS_OF_A_FILE = 1_000_000

_STANDS_FOR = "_stands_for.json"

RecordSegment = Callable[[str, str], None]
"""Records a segment in the ledger, given its folder and the sha256 of the file that says what it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A folder with the versions of some imports."""

    path: str  #: The folder, relative to the landing place.
    imports: Mapping[str, str]  #: The imports, with what names the conformed files of each.
    files: tuple[DataFile, ...]  #: The data files, with the sha256 of their bytes.
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The files from which the versions of imports are read."""

    segments: tuple[tuple[Segment, frozenset[str]], ...]  #: Segments, with the imports that are read from each.
    folders: tuple[str, ...]  #: The imports that are read from their conformed folders, in the order of arrival.


def choose(segments: Sequence[Segment], wanted: Mapping[str, str]) -> Choice:
    """Reads as much as possible from large segments, and each import once.

    Args:
        wanted: The imports, with what names their conformed files now.
    """
    left = dict(wanted)
    used: list[tuple[Segment, frozenset[str]]] = []
    for segment in sorted(segments, key=lambda each: (-len(each.imports), each.path)):
        chosen = frozenset(each for each, files in segment.imports.items() if left.get(each) == files)
        if chosen:
            used.append((segment, chosen))
        for import_id in chosen:
            del left[import_id]
    return Choice(segments=tuple(used), folders=tuple(left))


def to_merge(choice: Choice, rows: Mapping[str, int], can_be_compacted: frozenset[str]) -> frozenset[str]:
    """The imports of which a segment is to be made now; none while few are read from their folders.

    Args:
        rows: How many valid records each import has.
        can_be_compacted: The imports whose present versions follow from what is declared alone.
    """
    new = [import_id for import_id in choice.folders if import_id in can_be_compacted]
    if len(new) < MOST_FOLDERS:
        return frozenset()
    merged = frozenset(new)
    size = sum(rows[import_id] for import_id in new)
    for segment, chosen in sorted(choice.segments, key=lambda each: each[0].rows):
        if segment.rows <= size or len(chosen) < len(segment.imports):
            merged |= chosen
            size += segment.rows
    return merged


def earlier_versions(records: ConformedRecords, imports: Sequence[ImportRecord]) -> DataFrame:
    """The version columns of all valid records of these imports, and of rejected ones of a known key. Called with the
    turn of the source."""
    spark, landing, source = records.spark, records.landing, records.source
    choice = choose(_segments(landing, _folder(source), records.segments), _named(imports))
    where = {segment.path: for_spark(landing.place, segment.path) for segment, _ in choice.segments}
    folders = set(choice.folders)
    directly = [record for record in imports if record.import_id in folders]
    schema = _schema(source)
    parts: list[DataFrame] = []
    if directly or not imports:
        few = directly if len(directly) <= MOST_FOLDERS else ()
        hashed = {
            record.import_id
            for record in few
            if record.conformed
            and any(has_present_hashes(file, landing, source) for file in record.conformed.paths[:1])
        }
        parts.append(records.versions(directly, hashed=hashed).select(*version_columns(source)))
    whole = [segment for segment, chosen in choice.segments if len(chosen) == len(segment.imports)]
    if whole:
        parts.append(spark.read.schema(schema).parquet(*(where[segment.path] for segment in whole)))
    for segment, chosen in choice.segments:
        if segment not in whole:
            found = spark.read.schema(schema).parquet(where[segment.path])
            parts.append(found.where(F.col(IMPORT_ID).isin(sorted(chosen))))
    return reduce(DataFrame.unionByName, parts)


def compact(records: ConformedRecords, imports: Sequence[ImportRecord], *, attempt: str, record: RecordSegment) -> None:
    """Makes a segment of the newest of these imports when they are many, and removes segments that are not needed.

    Called with the turn of the source. A process that stops here leaves what the next one removes or uses.

    Args:
        record: Records a segment in the ledger, before anything is read from it.
    """
    landing, source = records.landing, records.source
    named = _named(imports)
    choice = choose(_segments(landing, _folder(source), records.segments), named)
    rows = {record.import_id: record.counts.landed - record.counts.rejected for record in imports}
    declared = frozenset(record.import_id for record in imports if _is_declared(source, record))
    if merged := to_merge(choice, rows, declared):
        of_them = [record for record in imports if record.import_id in merged]
        folder, digest = _build(records, of_them, {each: named[each] for each in sorted(merged)}, rows, attempt)
        record(folder, digest)
        records = replace(records, segments={**records.segments, folder: digest})
        choice = choose(_segments(landing, _folder(source), records.segments), named)
    _remove_but(landing, source, {segment.path for segment, _ in choice.segments})


def remove_half_built(landing: Files, source: SourceTable) -> None:
    """Removes what a killed process left. Called with the turn of the source."""
    held = landing.listed(_versions(source))
    _remove_but(landing, source, {_folder_of(each.path) for each in held if _name_of(each.path) == _STANDS_FOR})


def _remove_but(landing: Files, source: SourceTable, needed: Collection[str]) -> None:
    """Removes every segment, of this and of other contracts, but those that are needed."""
    depth = _folder(source).count("/") + 2
    for folder in {"/".join(each.path.split("/")[:depth]) for each in landing.listed(_versions(source))} - set(needed):
        landing.remove_folder(folder)


def _build(
    records: ConformedRecords,
    imports: Sequence[ImportRecord],
    named: Mapping[str, str],
    rows: Mapping[str, int],
    attempt: str,
) -> tuple[str, str]:
    """Writes a segment, which counts once the ledger has recorded it.

    Returns:
        Its folder, and the sha256 of the file that says what it stands for.
    """
    landing, source = records.landing, records.source
    folder = f"{_folder(source)}/{document_digest({'imports': dict(named)})[:16]}-{attempt}"
    many = sum(rows[import_id] for import_id in named)
    files = 1 + many // ROWS_OF_A_FILE
    found = earlier_versions(records, imports)
    spread = found.repartitionByRange(files, *source.key) if files > 1 else found.coalesce(1)
    written = for_spark(landing.place, folder)
    spread.sortWithinPartitions(*source.key).write.mode("overwrite").parquet(written)
    listed = [each for each in landing.listed(folder) if each.path.endswith(".parquet")]
    segment = Segment(path=folder, imports=named, files=tuple(described_files(landing, listed)), rows=many)
    content = json.dumps({name: value for name, value in asdict(segment).items() if name != "path"}).encode()
    landing.put_if_absent(f"{folder}/{_STANDS_FOR}", content)
    return folder, sha256_bytes(content)


def _is_declared(source: SourceTable, record: ImportRecord) -> bool:
    """True if no function of the author computes the present contract's form of its records."""
    steps = range(source.read_as(record.contract), source.contract_version)
    return all(source.lift_from(version).function is None for version in steps)


def _schema(source: SourceTable) -> StructType:
    known = conformed_schema(source)
    names = dict.fromkeys([*source.key, *source.order, source.partition.column])
    own = (IMPORT_ID, ARRIVAL, ROW, CONTENT_HASH, OPERATION, RESTORES, REASON)
    return StructType([*(known[name] for name in (*names, *own)), StructField(HAPPENED, source.time_type)])


def _versions(source: SourceTable) -> str:
    """The folder of all segments, relative to the landing place."""
    return f"{source.short_name}/versions"


def _folder(source: SourceTable) -> str:
    """The folder of the segments of the present contract: other declarations give other versions of records."""
    lifts = {str(version): source.lift_from(version) for version in range(1, source.contract_version)}
    declared = {
        "schemas": [source.at(version).schema.json() for version in range(1, source.contract_version + 1)],
        "lifts": {
            version: [sorted(lift.renamed.items()), sorted((k, repr(v)) for k, v in lift.defaults.items())]
            for version, lift in lifts.items()
        },
        "key": list(source.key),
        "order": list(source.order),
        "event_time": source.event_time,
        "operation": repr(source.operation),
        "hashes": "of the present columns",
    }
    return f"{_versions(source)}/{document_digest(declared)[:16]}"


def _segments(landing: Files, below: str, recorded: Mapping[str, str]) -> list[Segment]:
    """The segments below a folder that the ledger recorded and whose files are what was written."""
    found = []
    for each in landing.listed(below):
        folder = _folder_of(each.path)
        if _name_of(each.path) != _STANDS_FOR or folder not in recorded:
            continue
        content = landing.read(each.path)
        if sha256_bytes(content) != recorded[folder]:
            continue
        document = json.loads(content)
        files = tuple(DataFile(**file) for file in document["files"])
        if not altered(landing, files):
            found.append(Segment(path=folder, **(document | {"files": files})))
    return found


def changed_segments(landing: Files, source: SourceTable, recorded: Mapping[str, str]) -> tuple[str, ...]:
    """Recorded segments that are there and are not what was written, one sentence each. They are not used."""
    there = {_folder_of(each.path) for each in landing.listed(_versions(source)) if _name_of(each.path) == _STANDS_FOR}
    sound = {segment.path for segment in _segments(landing, _versions(source), recorded)}
    return tuple(f"{path} are not what was written" for path in sorted(there & recorded.keys() - sound))


def _named(imports: Sequence[ImportRecord]) -> Mapping[str, str]:
    """The names of each import's conformed files: every attempt writes files of other names."""
    return {each.import_id: each.conformed.digest[:16] if each.conformed else "" for each in imports}


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]
