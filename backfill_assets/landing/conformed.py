"""Conformed records: the judged records of a landed file, written once and read again.

One Parquet folder per import, `<landing>/<source>/conformed/<import_id>/`, written in one pass over the raw file; a
file that is read anew gets one beside it, `<import_id>.<attempt>`. It holds every record: valid ones with typed
columns, rejected ones with their reason and text. A folder counts only through an import that is LANDED or LOADED in
the ledger, so one that a killed process left half-written is never read, and the next landing removes it. The ledger
has the path, size and sha256 of its files: exactly these are read, and only while they are what was written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.columns import needs_rule
from backfill_assets.core.errors import ContractBroken, MissingInput
from backfill_assets.core.identity import FileSet
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
from backfill_assets.landing.record_rules import REASON, TAKEN, Bounds, counts_taken, has_key, judged
from backfill_assets.ledger.imports import ImportRecord

IMPORT_ID = "_import_id"
ARRIVAL = "_arrival"
CONTENT_HASH = "_content_hash"
RAW_TRUNCATED = "_raw_truncated"
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
