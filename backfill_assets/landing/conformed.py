"""Conformed records: the judged records of landed files, written once and read again, also compacted.

One Parquet folder per import, `<landing>/<source>/conformed/<import_id>/`, written in one pass over the raw file; a
file that is read anew gets one beside it, `<import_id>.<attempt>`. It holds every record: valid ones with typed
columns, rejected ones with their reason and text. A folder counts only through an import that is LANDED or LOADED in
the ledger, so one that a killed process left half-written is never read, and the next landing removes it. The ledger
has the path, size and sha256 of its files: exactly these are read, and only while they are what was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.columns import needs_rule
from backfill_assets.core.errors import ContractBroken, MissingInput
from backfill_assets.core.identity import DataFile, FileSet, document_digest, sha256_bytes
from backfill_assets.core.places import for_spark
from backfill_assets.domain import Csv, Operation, SourceTable
from backfill_assets.domain.contracts import lifted
from backfill_assets.domain.operations import OPERATION
from backfill_assets.domain.sources import FILE_NAME, ROW_NUMBER
from backfill_assets.files.port import Files
from backfill_assets.files.recorded import altered
from backfill_assets.lake.checksums import row_hash
from backfill_assets.lake.row_values import first_characters
from backfill_assets.lake.staging import described_files
from backfill_assets.landing.formats import IGNORED, RAW, ROW, Records
from backfill_assets.landing.record_rules import REASON, TAKEN, Bounds, counts_taken, happened_at, has_key, judged
from backfill_assets.ledger.imports import ImportRecord

IMPORT_ID = "_import_id"
ARRIVAL = "_arrival"
CONTENT_HASH = "_content_hash"
RAW_TRUNCATED = "_raw_truncated"
HAPPENED = "_happened"
RESTORES = "_restores"
"""Of a statement that undoes a withdrawal: the import of that."""

MOST_RAW_CHARACTERS = 64 * 1024

_SCHEMA_BY_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
"""Under this key every Parquet file of Spark has the schema that it was written with."""


def conformed_schema(source: SourceTable) -> T.StructType:
    """The columns of a conformed folder. The contract's are all nullable: a rejected record may have any of them.

    So are elements and members. Spark infers no more of values that were judged, and casts to no less.
    """
    return T.StructType(
        [
            *(T.StructField(field.name, field.dataType) for field in source.schema.fields),
            T.StructField(source.partition.column, T.DateType()),
            T.StructField(IMPORT_ID, T.StringType()),
            T.StructField(ARRIVAL, T.IntegerType()),
            T.StructField(ROW, T.LongType()),
            T.StructField(CONTENT_HASH, T.LongType()),
            T.StructField(REASON, T.StringType()),
            T.StructField(RAW, T.StringType()),
            T.StructField(RAW_TRUNCATED, T.BooleanType()),
            T.StructField(IGNORED, T.ArrayType(T.StringType())),
            T.StructField(OPERATION, T.StringType()),
            T.StructField(RESTORES, T.StringType()),
            *([T.StructField(TAKEN, T.ArrayType(T.StringType()))] if counts_taken(source) else []),
        ]
    ).toNullable()


def conformed_folder(source: SourceTable, name: str = "") -> str:
    """A folder with one import's judged records, or that of all imports, relative to the landing place."""
    return f"{source.short_name}/conformed/{name}".rstrip("/")


def folders_in_use(source: SourceTable, imports: Sequence[ImportRecord]) -> frozenset[str]:
    """The folders that have the records of these imports, or into which these are being written."""
    every = f"{conformed_folder(source)}/"
    written = (path for record in imports if record.conformed for path in record.conformed.paths)
    used = {path.removeprefix(every).partition("/")[0] for path in written}
    return frozenset(used | {record.import_id for record in imports if record.conformed is None})


def owner_of(import_id: str, arrival: int, file_name: str) -> Mapping[str, Column]:
    """The columns of records that say which import they are of, and which file."""
    return {IMPORT_ID: F.lit(import_id), ARRIVAL: F.lit(arrival), FILE_NAME: F.lit(file_name)}


def conformed(
    found: Sequence[Records], *, source: SourceTable, owner: Mapping[str, Column], bounds: Bounds
) -> DataFrame:
    """Judged records of files, in the columns of a conformed folder, without writing them."""
    frames = [_conformed(part, source, owner, bounds) for part in found]
    columns = conformed_schema(source).fields
    frame = reduce(DataFrame.unionByName, frames).withColumn(CONTENT_HASH, content_hash(source))
    return frame.select(*(F.col(column.name).cast(column.dataType).alias(column.name) for column in columns))


def _conformed(part: Records, source: SourceTable, owner: Mapping[str, Column], bounds: Bounds) -> DataFrame:
    """The judged records of one version, lifted to the present one."""
    own = source.at(part.version)
    if isinstance(own.reads, Csv) and not part.is_csv:
        # Its marks would read numbers of JSON, or of what is captured, as others: `1.500` as 1500.
        own = replace(own, reads=None)
    elif part.is_csv and own.reads is None:
        own = replace(own, reads=Csv())  # as it is read, so that a reason can say what else may be declared
    if part.times & own.formats.keys():
        own = replace(own, formats={name: form for name, form in own.formats.items() if name not in part.times})
    rejected = F.col(REASON).isNotNull()
    filled = {FILE_NAME: owner[FILE_NAME], ROW_NUMBER: F.col(ROW)} if own.row_number else {}
    # A client of Spark Connect refuses to add no columns.
    frame = judged(part.frame.withColumns(filled) if filled else part.frame, own, bounds=bounds).withColumns(
        {
            **{name: owner[name] for name in (IMPORT_ID, ARRIVAL)},
            RAW: F.when(rejected, first_characters(part.text, MOST_RAW_CHARACTERS + 1)),
            RESTORES: F.lit(None).cast(T.StringType()),
        }
    )
    frame = frame.withColumns(
        {
            RAW_TRUNCATED: F.length(RAW) > MOST_RAW_CHARACTERS,
            RAW: F.substring(F.col(RAW), 1, MOST_RAW_CHARACTERS),
        }
    )
    written = (column.name for column in conformed_schema(own).fields if column.name != CONTENT_HASH)
    return lifted(frame.select(*written), source, part.version, only=~rejected)


def is_version(source: SourceTable) -> Column:
    """True if a record is valid, or is rejected and has a known key, whose state is unknown from then on."""
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    return F.col(REASON).isNull() | (has_key(source) & ~is_truncate)


def content_hash(source: SourceTable) -> Column:
    """The content of a version of a key, as one number: every column of the present contract.

    Values are hashed without names and types. So hashes of columns that have changed places since, or decimals that
    have other digits, are not compared with these: `has_present_hashes`.

    64 bits are enough: only consecutive versions of one key are ever compared, so of a thousand million corrections one
    in twenty thousand million such histories would be taken for a repetition.
    """
    return row_hash(source.schema.fields)


def has_present_hashes(file: str, landing: Files, source: SourceTable) -> bool:
    """True if a conformed file was written with the present columns, so that its hashes cover them."""
    written = _written(file, landing)
    return written is not None and _columns(written) == _columns(conformed_schema(source))


def _written(file: str, landing: Files) -> T.StructType | None:
    """The columns with which a conformed file was written."""
    with landing.open(file) as opened, pq.ParquetFile(opened) as found:
        written = (found.schema_arrow.metadata or {}).get(_SCHEMA_BY_SPARK)
    return written and T.StructType.fromJson(json.loads(written))


def with_other_columns(
    landing: Files, source: SourceTable, imports: Sequence[ImportRecord]
) -> tuple[ImportRecord, ...]:
    """Imports whose conformed records cannot be read in the columns that are declared now: a type of one is not that in
    which it was written, or its name is another one. Of a statement its key matters alone.

    Cost: one file, the first, of all imports that were read by the same declaration, and of all statements.
    """
    alike: dict[object, list[ImportRecord]] = {}
    for record in imports:
        if record.conformed and record.conformed.files and record.contract <= source.contract_version:
            alike.setdefault((record.contract, record.format == STATEMENT, record.reading), []).append(record)
    return tuple(r for some in alike.values() if _has_other_columns(landing, source, some[0]) for r in some)


def _has_other_columns(landing: Files, source: SourceTable, record: ImportRecord) -> bool:
    assert record.conformed is not None
    written = _written(record.conformed.paths[0], landing)
    if written is None:
        return False
    of = source.at(record.contract)
    wanted = conformed_schema(source.at(source.read_as(record.contract)))
    passed_over = {TAKEN} | (_values_of(of, written) if record.format == STATEMENT else set())
    found = T.StructType([field for field in written.fields if field.name not in passed_over])
    return bool(needs_rule(found.toNullable(), wanted))


def _values_of(source: SourceTable, schema: T.StructType) -> set[str]:
    """The columns of records that statements have no values of."""
    return {name for name in schema.fieldNames() if not name.startswith("_") and name not in source.key}


def _columns(schema: T.StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields if field.name != TAKEN]


def require_as_recorded(landing: Files, source: SourceTable, imports: Sequence[ImportRecord]) -> None:
    """Refuses imports whose conformed files are not those that the ledger recorded when they landed.

    Raises:
        MissingInput: They are gone, or have other bytes.
    """
    if altered(landing, (file for record in imports if record.conformed for file in record.conformed.files)):
        record, (why, *_) = next((r, found) for r in imports if (found := changes_of(landing, r)))
        raise MissingInput.coded(
            "conformed_changed",
            "the conformed records of {import_id}, from which rows are computed, are not those that were written "
            "when it landed: {why}.",
            then="restore the file from a copy"
            if record.format == STATEMENT
            else "[land {source} {path} on_duplicate=reprocess by=NAME]",
            import_id=record.import_id,
            path=str(landing.place / record.stored_path),
            source=source.short_name,
            why=why,
        )


def changes_of(landing: Files, record: ImportRecord) -> tuple[str, ...]:
    """The differences of an import's conformed files from what was recorded, one sentence each."""
    return altered(landing, record.conformed.files if record.conformed else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformedRecords:
    """The conformed records of a source, read and written in a session."""

    spark: SparkSession
    landing: Files
    source: SourceTable
    #: By folder, the segments of versions that the ledger recorded (`compacted`), with their digests.
    segments: Mapping[str, str] = field(default_factory=dict)

    def written(self, folder: str) -> FileSet:
        """The files that were just written into a folder, with their digests, as the ledger is to record them."""
        listed = self.landing.listed(conformed_folder(self.source, folder))
        return FileSet.of(described_files(self.landing, [each for each in listed if each.path.endswith(".parquet")]))

    def folder(self, name: str) -> str:
        """A folder of conformed records, as Spark names it."""
        return for_spark(self.landing.place, conformed_folder(self.source, name))

    def read(self, imports: Sequence[ImportRecord], *, hashed: Collection[str] = ()) -> DataFrame:
        """Every judged record of these imports, lifted from the version of the contract that each was landed with.

        Args:
            hashed: Imports whose records have the hashes of the present columns, so that not all columns are read.
        """
        if not imports:
            return self.spark.createDataFrame([], conformed_schema(self.source))
        parts: dict[tuple[int, bool], list[ImportRecord]] = {}
        for record in imports:
            if record.contract > self.source.contract_version:
                raise ContractBroken.coded(
                    "landed_with_later_contract",
                    "{import_id} was landed with version {landed_with} of the contract of {table}, "
                    "which is read as version {version}.",
                    then="declare the versions of the contract that files were landed with",
                    import_id=record.import_id,
                    table=self.source.name,
                    landed_with=record.contract,
                    version=self.source.contract_version,
                )
            is_hashed = record.import_id in hashed and record.contract == self.source.contract_version
            parts.setdefault((self.source.read_as(record.contract), is_hashed), []).append(record)
        frames = (self._part(version, some, is_hashed=is_hashed) for (version, is_hashed), some in parts.items())
        return reduce(DataFrame.unionByName, frames)

    def _part(self, version: int, imports: Sequence[ImportRecord], *, is_hashed: bool) -> DataFrame:
        """The records of imports that are read in one version, with the present hashes."""
        found = self._stored(imports, self.source.at(version))
        if is_hashed:
            return found
        whole = lifted(found.drop(CONTENT_HASH), self.source, version, only=F.col(REASON).isNull())
        names = conformed_schema(self.source).fieldNames()
        return whole.withColumn(CONTENT_HASH, content_hash(self.source)).select(*names)

    def _stored(self, imports: Sequence[ImportRecord], source: SourceTable) -> DataFrame:
        """The records as they are stored: of the recorded files, or of the folder while an import is being written.

        Args:
            source: The version of the contract in which they are read.

        Raises:
            MissingInput: Recorded files are gone, or have other bytes.
        """
        require_as_recorded(self.landing, self.source, imports)
        if other := with_other_columns(self.landing, self.source, imports):
            is_statement = other[0].format == STATEMENT
            raise MissingInput.coded(
                "read_as_other_columns",
                "{import_id} ({path}) {has} columns that {table} no longer declares, or declares with another type.",
                then="declare the key as it was, or the source under a new name"
                if is_statement
                else "[land {short} again_as_declared=True by=NAME]",
                import_id=other[0].import_id,
                path=other[0].original_path,
                table=self.source.name,
                has="names keys by" if is_statement else "was read into",
                short=self.source.short_name,
            )
        schema = conformed_schema(source)
        stated = [record for record in imports if record.format == STATEMENT]
        files = [record for record in imports if record.format != STATEMENT]
        frame = self._files(files, schema) if files or not stated else None
        if not stated:
            assert frame is not None
            return frame
        # Of other columns a statement says nothing, also where they have been declared otherwise since.
        own = [field for field in schema.fields if field.name not in _values_of(source, schema)]
        known = self._files(stated, T.StructType(own))
        rows = known.select(
            *(
                (F.col(field.name) if field in own else F.lit(None).cast(field.dataType)).alias(field.name)
                for field in schema.fields
            )
        )
        return rows if frame is None else frame.unionByName(rows)

    def _files(self, imports: Sequence[ImportRecord], schema: T.StructType) -> DataFrame:
        places = [
            for_spark(self.landing.place, path)
            for record in imports
            for path in (
                [conformed_folder(self.source, record.import_id)]
                if record.conformed is None
                else record.conformed.paths
            )
        ]
        return self.spark.read.schema(schema).parquet(*places) if places else self.spark.createDataFrame([], schema)

    def valid(self, imports: Sequence[ImportRecord], *, hashed: Collection[str] = ()) -> DataFrame:
        """The valid records of these imports, every version of every key; `hashed` as for `read`."""
        return self.read(imports, hashed=hashed).where(F.col(REASON).isNull())

    def versions(self, imports: Sequence[ImportRecord], *, hashed: Collection[str] = ()) -> DataFrame:
        """The valid records of these imports, and those rejected ones whose key can be read; `hashed` as for `read`."""
        return self.read(imports, hashed=hashed).where(is_version(self.source))

    def rejected(self, record: ImportRecord) -> DataFrame:
        """The rejected records of one import, as the quarantine keeps them."""
        return (
            self.read([record])
            .where(F.col(REASON).isNotNull())
            .select(
                F.lit(self.source.name).alias("source"),
                F.lit(record.import_id).alias("import_id"),
                F.lit(record.name).alias("file_name"),
                F.col(ROW).alias("row_number"),
                F.col(REASON).alias("reason"),
                F.col(RAW).alias("raw_record"),
                F.col(RAW_TRUNCATED).alias("raw_truncated"),
                F.lit(record.first_seen_at).alias("landed_at"),
            )
        )


def first_rejected(records: ConformedRecords, record: ImportRecord) -> tuple[int, str]:
    """The number and the reason of the first rejected record of an import that has one."""
    rejected = records.read([record]).where(F.col(REASON).isNotNull()).select(ROW, REASON)
    first = rejected.orderBy(ROW).first()
    assert first is not None, "it was counted"
    return first[ROW], first[REASON]


def version_columns(source: SourceTable) -> list[Column]:
    """The columns of a conformed record that decide between the versions of a key, also of rejected ones."""
    names = dict.fromkeys([*source.key, *source.order, source.partition.column])
    own = (IMPORT_ID, ARRIVAL, ROW, CONTENT_HASH, OPERATION, RESTORES, REASON)
    return [*(F.col(name) for name in (*names, *own)), happened_at(source).alias(HAPPENED)]


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
    choice = choose(_segments(landing, _segments_folder(source), records.segments), _named(imports))
    where = {segment.path: for_spark(landing.place, segment.path) for segment, _ in choice.segments}
    folders = set(choice.folders)
    directly = [record for record in imports if record.import_id in folders]
    schema = _version_schema(source)
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
    choice = choose(_segments(landing, _segments_folder(source), records.segments), named)
    rows = {record.import_id: record.counts.landed - record.counts.rejected for record in imports}
    declared = frozenset(record.import_id for record in imports if _is_declared(source, record))
    if merged := to_merge(choice, rows, declared):
        of_them = [record for record in imports if record.import_id in merged]
        folder, digest = _build_segment(records, of_them, {each: named[each] for each in sorted(merged)}, rows, attempt)
        record(folder, digest)
        records = replace(records, segments={**records.segments, folder: digest})
        choice = choose(_segments(landing, _segments_folder(source), records.segments), named)
    _remove_segments_but(landing, source, {segment.path for segment, _ in choice.segments})


def remove_half_built(landing: Files, source: SourceTable) -> None:
    """Removes what a killed process left. Called with the turn of the source."""
    _remove_segments_but(landing, source, _complete_segments(landing, source))


def _complete_segments(landing: Files, source: SourceTable) -> set[str]:
    """The folders of segments that were written to their end, of this and of other contracts."""
    held = landing.listed(_segments_below(source))
    return {_folder_of(each.path) for each in held if _name_of(each.path) == _STANDS_FOR}


def _remove_segments_but(landing: Files, source: SourceTable, needed: Collection[str]) -> None:
    """Removes every segment, of this and of other contracts, but those that are needed."""
    depth = _segments_folder(source).count("/") + 2
    there = {"/".join(each.path.split("/")[:depth]) for each in landing.listed(_segments_below(source))}
    for folder in there - set(needed):
        landing.remove_folder(folder)


def _build_segment(
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
    folder = f"{_segments_folder(source)}/{document_digest({'imports': dict(named)})[:16]}-{attempt}"
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


def _version_schema(source: SourceTable) -> T.StructType:
    known = conformed_schema(source)
    names = dict.fromkeys([*source.key, *source.order, source.partition.column])
    own = (IMPORT_ID, ARRIVAL, ROW, CONTENT_HASH, OPERATION, RESTORES, REASON)
    return T.StructType([*(known[name] for name in (*names, *own)), T.StructField(HAPPENED, source.time_type)])


def _segments_below(source: SourceTable) -> str:
    """The folder of all segments, relative to the landing place."""
    return f"{source.short_name}/versions"


def _segments_folder(source: SourceTable) -> str:
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
    return f"{_segments_below(source)}/{document_digest(declared)[:16]}"


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
    there = _complete_segments(landing, source)
    sound = {segment.path for segment in _segments(landing, _segments_below(source), recorded)}
    return tuple(f"{path} are not what was written" for path in sorted(there & recorded.keys() - sound))


def _named(imports: Sequence[ImportRecord]) -> Mapping[str, str]:
    """The names of each import's conformed files: every attempt writes files of other names."""
    return {each.import_id: each.conformed.digest[:16] if each.conformed else "" for each in imports}


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]
