"""Formats: parses a landed file into records.

Every format gives the same frame: one row per record with the contract's columns as in the file, the number of its line
or row from 1, its text, the reason why it could not be parsed, and the columns that are not in the contract. Records
are judged in `record_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, LongType, StringType, StructField, StructType

from backfill_assets.capture.json_members import FILE_PROBLEM, KINESIS_PROBLEM, PROBLEM
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.core.columns import in_sql
from backfill_assets.domain import Avro, Csv, SourceTable, Xlsx
from backfill_assets.landing import debezium, reading
from backfill_assets.landing.decoding.csv_rows import REASON_ENDS
from backfill_assets.landing.json_text import has_half_pair, members, plain
from backfill_assets.landing.names import (
    Line,
    Spot,
    joined,
    kind_inside,
    looked_up,
    members_named,
    nested,
    spots,
    type_of,
    unknown_members,
)
from backfill_assets.landing.parquet import PhysicalColumn, as_values, beyond_years, within_years
from backfill_assets.landing.probe import Probe, types_of
from backfill_assets.landing.reading import JSON_OF_PARQUET
from backfill_assets.landing.record_rules import BROKEN
from backfill_assets.landing.times import TIMES

ROW = reading.ROW
RAW = "_raw"
IGNORED = "_ignored"
NAMES = "_names"
FILE = reading.FILE
"""Of records of several files: the name of the stored copy that each is from."""

_BLOCK, _ID = "_block", "_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one file that are in one version of the contract."""

    frame: DataFrame  #: Those of the contract's columns that the file has, and `_row`, `_broken`, `_ignored`, `_raw`.
    #: From `_raw` to the record's text. Only the text of rejected records is needed, so it is computed last.
    text: Column
    version: int
    #: Columns that a Parquet file has as dates or times, so that no declared form of texts is theirs.
    times: frozenset[str] = frozenset()
    is_csv: bool = False  #: True if they are rows of a CSV, so that its dialect says what their numbers and words are.


_PARTITION_BITS = 33
_CSV_TEXT = {"quote": '"', "escape": '"'}


def records(
    spark: SparkSession, stored: Sequence[str], *, kind: FileKind, probe: Probe, source: SourceTable
) -> Records:
    """The records of landed files, unchanged.

    Returns:
        Their records; values are strings, except those of a Parquet file. `_row` counts from 1: the line of a JSONL
        file, the record of a CSV after its header, the row of a Parquet file. Blank lines are not records.
    """
    if probe.empty:
        return _nothing(spark.createDataFrame([], _strings(source.schema.fieldNames())), source)
    match kind.format:
        case Format.JSONL:
            return _json_lines(spark, stored, kind, probe, source)
        case Format.CSV:
            return _csv(spark, stored, probe, source)
        case Format.PARQUET:
            return _parquet(spark, stored, probe, source)
        case _:
            raise AssertionError(f"a file of {kind.format} is decoded before it is read")


def _json_lines(
    spark: SparkSession, stored: Sequence[str], kind: FileKind, probe: Probe, source: SourceTable
) -> Records:
    lines = _of_files(spark.read.text(list(stored)), stored)
    lines = _numbered(lines, kind, probe) if len(stored) == 1 else _numbered_by_file(lines)
    lines = lines.where(F.trim(F.col("value"), F.lit(" \t\r\n")) != "")
    parsed, line = parse_records(
        lines.withColumn("_text", F.when(F.is_valid_utf8("value"), F.col("value"))),
        "_text",
        source,
        members_named(source),
    )
    text, record = F.col("_text"), F.col(debezium.LINE)
    problem = F.lit(None).cast(StringType()) if source.envelope is None else debezium.complaint(source)
    twice = (F.size(NAMES) > F.size(F.array_distinct(NAMES))) | line.names_twice
    unknown = unknown_members(line, F.col(NAMES), source)
    what = "line" if source.reads is None else "record"
    frame = parsed.select(
        *(_value(column, line, source).alias(column) for column in source.file_columns),
        F.col(ROW),
        F.col("value").alias(RAW),
        F.when(text.isNull(), f"the {what} is not valid UTF-8")
        .when(record.isNull(), f"the {what} is not a JSON object")
        .when(has_half_pair(text), f"the {what} holds half of a surrogate pair")
        .when(twice, f"the {what} names a column twice")
        .otherwise(F.coalesce(*(record[name] for name in _problems(source)), problem))
        .alias(BROKEN),
        F.when(F.size(unknown) > 0, unknown).alias(IGNORED),
        *_which(stored),
    )
    return Records(frame=frame, text=F.make_valid_utf8(RAW), version=source.contract_version)


def parse_records(lines: DataFrame, text: str, source: SourceTable, parts: Iterable[str]) -> tuple[DataFrame, Line]:
    """Lines with the members of their objects, `_names`, those of their columns, and where these are looked up.

    Args:
        parts: The members and paths that are looked up.
    """
    if source.envelope is not None:
        events = debezium.with_change(lines, F.col(text), source.envelope)
        found = events.where(debezium.is_record(F.col(text))).withColumn(NAMES, debezium.names(source.envelope))
        return looked_up(found, parts, base=F.col(debezium.VALUES), own=lambda value: value)
    found = lines.withColumn(debezium.LINE, members(F.col(text))).withColumn(NAMES, F.map_keys(debezium.LINE))
    return looked_up(found, parts, base=F.col(debezium.LINE), own=plain)


def _value(column: str, line: Line, source: SourceTable) -> Column:
    """The text of a column of the contract."""
    parts = [str(part) for part in source.places[column]]
    if source.envelope is None:
        return joined([line.value(part) for part in parts])
    return joined([debezium.value(part, column, line.value(part), source) for part in parts])


def _problems(source: SourceTable) -> Sequence[str]:
    """The members of a line that say why its record could not be read."""
    return (PROBLEM, KINESIS_PROBLEM, *((FILE_PROBLEM,) if isinstance(source.reads, Avro) else ()))


def _of_files(frame: DataFrame, stored: Sequence[str]) -> DataFrame:
    """The rows just read, with the file and the place in it where several files were read."""
    if len(stored) == 1:
        return frame
    return frame.select(
        "*", F.col("_metadata.file_name").alias(FILE), F.col("_metadata.file_block_start").alias(_BLOCK)
    )


def _which(stored: Sequence[str]) -> list[Column]:
    return [F.col(FILE)] if len(stored) > 1 else []


def _numbered_by_file(found: DataFrame) -> DataFrame:
    """Records of several files with their number in each, from 1.

    Splits of a file are read in any order, and within a split `monotonically_increasing_id` follows the file.
    """
    in_file = Window.partitionBy(FILE).orderBy(_BLOCK, _ID)
    numbered = found.withColumn(_ID, F.monotonically_increasing_id())
    return numbered.withColumn(ROW, F.row_number().over(in_file).cast(LongType())).drop(_ID, _BLOCK)


def _numbered(lines: DataFrame, kind: FileKind, probe: Probe) -> DataFrame:
    """Lines with their number in the file, from 1.

    `monotonically_increasing_id` counts lines within each split; the lines of the splits before are counted first,
    unless one task reads the file, as it does whatever is compressed.
    """
    if probe.is_small:
        lines = lines.coalesce(1)
    numbered = lines.withColumn("_id", F.monotonically_increasing_id())
    split = F.shiftright("_id", _PARTITION_BITS)
    in_split = F.col("_id") - F.shiftleft(split, _PARTITION_BITS)
    before = F.lit(0).cast(LongType())
    if not (kind.compression or probe.is_small):
        counts = {row["split"]: row["count"] for row in numbered.groupBy(split.alias("split")).count().collect()}
        if len(counts) > 1:
            ordered = sorted(counts)
            sums = [sum(counts[earlier] for earlier in ordered if earlier < one) for one in ordered]
            known = [F.lit(value) for pair in zip(ordered, sums, strict=True) for value in pair]
            before = F.create_map(*known)[split].cast(LongType())
    return numbered.withColumn(ROW, before + in_split + 1).drop("_id")


def _csv(spark: SparkSession, stored: Sequence[str], probe: Probe, source: SourceTable) -> Records:
    # Columns are read by position: a header may repeat a name, as long as the contract does not know it.
    positions = [f"_{position}" for position in range(len(probe.header))]
    schema = StructType([*_strings(positions).fields, StructField(BROKEN, StringType())])
    rows = (
        spark.read.schema(schema)
        .options(
            header="true",
            multiLine="true",  # a quoted value may hold a line break, so the file is read as one split
            # Found out, Spark would read every line break of a value as \n.
            lineSep=probe.line_end,
            # Unset it is NUL, which Spark then leaves out of quoted values.
            charToEscapeQuoteEscaping='"',
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=BROKEN,
            enforceSchema="true",
            **_CSV_TEXT,
        )
        .csv(list(stored))
    )
    if len(stored) == 1:
        frame = rows.withColumn(ROW, F.monotonically_increasing_id() + 1)
    else:
        frame = _numbered_by_file(_of_files(rows, stored))
    width = f"the row does not have the {len(probe.header)} values of the header"
    broken = F.when(F.col(BROKEN).isNotNull(), width)
    line, values = F.col(f"{RAW}.line"), F.to_csv(F.col(f"{RAW}.values"), _CSV_TEXT)
    if isinstance(source.reads, Csv | Xlsx):  # decoded
        broken, line = F.when(F.col(BROKEN).isNotNull(), _reason(F.col(BROKEN))), _text(line)
        values = _as_written(F.col(f"{RAW}.values"), source.reads)
    elif not probe.valid_utf8:  # what was no character has become U+FFFD
        odd = F.concat_ws("", *positions, BROKEN).contains("\ufffd")
        broken = F.when(odd, "the row is not valid UTF-8").when(F.col(BROKEN).isNotNull(), width)
    found = spots(source, probe.header)
    chosen = frame.select(
        *(joined([F.col(positions[spot.position]) for spot in some]).alias(column) for column, some in found.items()),
        F.col(ROW),
        F.struct(F.col(BROKEN).alias("line"), F.struct(*positions).alias("values")).alias(RAW),
        broken.alias(BROKEN),
        _no_names().alias(IGNORED),
        *_which(stored),
    )
    return Records(
        frame=chosen,
        text=F.coalesce(line, values),
        version=source.contract_version,
        is_csv=True,
    )


def _reason(line: Column) -> Column:
    """The reason why a row could not be read, of the row that decoding wrote in its place."""
    return F.replace(F.regexp_replace(F.substring_index(line, REASON_ENDS, 1), '^"', ""), F.lit('""'), F.lit('"'))


def _text(line: Column) -> Column:
    """The text of a row that could not be read, as it is in the landed file."""
    text = F.expr(f"substring({RAW}.line, instr({RAW}.line, '{REASON_ENDS}') + 1)")
    return F.when(line.isNotNull(), F.replace(F.regexp_replace(text, '",?\\n?$', ""), F.lit('""'), F.lit('"')))


def _as_written(values: Column, dialect: Csv | Xlsx) -> Column:
    """The text of a row, about as it is in the landed file."""
    if isinstance(dialect, Xlsx):
        return F.to_csv(values, _CSV_TEXT)
    if not dialect.quote:
        return F.to_csv(values, {"sep": dialect.delimiter, "quote": "\0"})
    return F.to_csv(
        values, {"sep": dialect.delimiter, "quote": dialect.quote, "escape": dialect.escape or dialect.quote}
    )


def _parquet(spark: SparkSession, stored: Sequence[str], probe: Probe, source: SourceTable) -> Records:
    schema = StructType([StructField(column.name, column.read_type) for column in probe.columns])
    frame = spark.read.schema(schema).parquet(*stored)
    known = {column.name: column for column in probe.columns}
    types = types_of(probe.columns)
    places = spots(source, probe.header, types)
    used = {probe.header[spot.position] for some in places.values() for spot in some}
    earlier = {name: column.read_type for name, column in known.items() if column.in_int96 and name in used}
    chosen = frame.select(
        *(
            joined(
                [
                    _nested(
                        known[probe.header[spot.position]],
                        spot,
                        source.schema[column].dataType if len(some) == 1 else DateType(),
                        source.timezone,
                    )
                    for spot in some
                ]
            ).alias(column)
            for column, some in places.items()
        ),
        (F.col("_metadata.row_index") + 1).alias(ROW),
        F.struct(*(F.col(in_sql(name)) for name in known)).alias(RAW),
        beyond_years({name: F.col(in_sql(name)) for name in earlier}, earlier).alias(BROKEN),
        _no_names().alias(IGNORED),
        *([F.col("_metadata.file_name").alias(FILE)] if len(stored) > 1 else []),
    )
    of = {column: type_of(some, probe.header, types) for column, some in places.items()}
    return Records(
        frame=chosen,
        text=F.to_json(F.col(RAW), JSON_OF_PARQUET),
        version=source.contract_version,
        times=frozenset(column for column, kind in of.items() if isinstance(kind, TIMES)),
    )


def _nested(found: PhysicalColumn, spot: Spot, target: DataType, timezone: str) -> Column:
    """The values at a place of a Parquet file, as they are judged as those of a type; of one that is joined a date."""
    read, kind = (kind_inside(each, spot.path) for each in (found.read_type, found.data_type))
    value = nested(F.col(in_sql(found.name)), found.read_type, spot.path)
    if found.in_int96:
        value = within_years(value, read)
    return as_values(value, kind, read, target, timezone=timezone)


def _nothing(frame: DataFrame, source: SourceTable) -> Records:
    nothing = F.lit(None).cast(StringType())
    chosen = frame.select(
        *source.schema.fieldNames(),
        F.lit(0).cast(LongType()).alias(ROW),
        nothing.alias(RAW),
        nothing.alias(BROKEN),
        _no_names().alias(IGNORED),
    )
    return Records(frame=chosen, text=F.col(RAW), version=source.contract_version)


def _no_names() -> Column:
    return F.lit(None).cast("array<string>")


def _strings(names: list[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])
