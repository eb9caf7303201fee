"""Classification of each valid record of a landed file, compared with everything that arrived before.

The versions of a key are ordered by arrival, then by row. A version with the same content as the one before it is a
*duplicate*. Of the others, the last one is *accepted*, the earlier ones are *superseded*. So at any time the accepted
records of all imports together are exactly the keys of bronze.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from backfill_assets.domain import SourceTable
from backfill_assets.landing.conformed import ARRIVAL, CONTENT_HASH, IMPORT_ID, read_conformed, valid_rows
from backfill_assets.landing.contract import REASON
from backfill_assets.landing.formats import IGNORED, ROW
from backfill_assets.landing.versions import SCHEMA_VERSION
from backfill_assets.ledger.import_records import ImportCounts, ImportDay, ImportRecord

MOST_NAMES = 100
"""At most so many schema versions, and sets of ignored columns, are recorded for one import."""


class Fate(StrEnum):
    """What a valid record is, among all versions of its key."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a landed file holds and does.

    Attributes:
        counts: Its records by classification.
        days: The event dates it touches.
        schema_versions: The distinct values of `schema_version`.
        ignored_columns: Columns of its valid records that the contract does not know.
        superseded_elsewhere: By import, how many of its accepted records this file replaces.
    """

    counts: ImportCounts
    days: tuple[ImportDay, ...]
    schema_versions: tuple[int, ...]
    ignored_columns: tuple[str, ...]
    superseded_elsewhere: Mapping[str, int]


def account(
    spark: SparkSession, landing: Path, source: SourceTable, record: ImportRecord, others: Sequence[ImportRecord]
) -> Account:
    """Counts an import's conformed records against those of the other live imports of its source.

    Args:
        spark: The session.
        landing: The landing folder.
        source: The source table.
        record: The import, whose conformed folder is written.
        others: The other imports that count.
    """
    found = read_conformed(spark, landing, source, [record])
    fates = _fates(spark, landing, source, record, others)
    lines = _contents(found, source).unionByName(fates).collect()
    return _account(record, [_Line(row["what"], row["of"], row["day"], row["n"]) for row in lines])


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the account: `n` records, of an import or a name, on a day, are `what`."""

    what: str
    of: str | None
    day: date | None
    n: int


def _line(what: Column, of: Column, day: Column, n: Column) -> tuple[Column, ...]:
    return what.alias("what"), of.cast("string").alias("of"), day.cast("date").alias("day"), n.cast("long").alias("n")


def _contents(found: DataFrame, source: SourceTable) -> DataFrame:
    """Records per event date (none for rejected ones), and the ignored columns and schema versions found."""
    nothing, valid = F.lit(None), F.col(REASON).isNull()
    dates = (
        found.groupBy(F.when(valid, F.col(source.partition.column)).alias("event_day"))
        .count()
        .select(*_line(F.lit("records"), nothing, F.col("event_day"), F.col("count")))
    )
    names = (
        found.where(valid & F.col(IGNORED).isNotNull())
        .select(IGNORED)
        .distinct()
        .limit(MOST_NAMES)
        .select(F.explode(IGNORED).alias("name"))
        .distinct()
        .limit(MOST_NAMES)
        .select(*_line(F.lit("ignored"), F.col("name"), nothing, F.lit(1)))
    )
    lines = dates.unionByName(names)
    if SCHEMA_VERSION in source.schema.fieldNames():
        versions = (
            found.where(valid & F.col(SCHEMA_VERSION).isNotNull())
            .select(SCHEMA_VERSION)
            .distinct()
            .limit(MOST_NAMES)
            .select(*_line(F.lit("version"), F.col(SCHEMA_VERSION), nothing, F.lit(1)))
        )
        lines = lines.unionByName(versions)
    return lines


def _fates(
    spark: SparkSession, landing: Path, source: SourceTable, record: ImportRecord, others: Sequence[ImportRecord]
) -> DataFrame:
    """How many records of which import have which fate now, had which one before, and move which day's keys away."""
    columns = _columns(source)
    versions = valid_rows(spark, landing, source, [record]).select(*columns)
    if others:
        keys = versions.select(*source.key).distinct()
        earlier = valid_rows(spark, landing, source, others).select(*columns)
        versions = versions.unionByName(earlier.join(keys, on=list(source.key), how="left_semi").select(*columns))
    ordered = _in_order(source)
    every = Window.partitionBy(*source.key)
    mine = F.col(IMPORT_ID) == record.import_id
    place = F.struct(ARRIVAL, ROW)
    fate = _fate()
    day = F.col(source.partition.column)
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    fated = _compared(versions, source).withColumns(
        {
            "_last_elsewhere": F.max(F.when(~F.col("_same") & ~mine, place)).over(every),
            "_is_last_of_file": F.coalesce(F.lead(IMPORT_ID).over(ordered) != record.import_id, F.lit(True)),
            "_other_day": F.last(F.when(~mine, day), ignorenulls=True).over(before),
        }
    )
    replaced = ~mine & (place == F.col("_last_elsewhere")) & (F.col("_last_elsewhere") < F.col("_last"))
    moved = mine & F.col("_is_last_of_file") & (F.col("_other_day") != day)
    return (
        fated.where(mine | replaced)
        .select(
            F.when(mine, fate).otherwise(F.lit("replaced")).alias("what"),
            F.col(IMPORT_ID).alias("of"),
            F.when(moved, F.col("_other_day")).alias("day"),
        )
        .groupBy("what", "of", "day")
        .agg(F.count(F.lit(1)).alias("n"))
    )


def _columns(source: SourceTable) -> list[str]:
    return [*source.key, IMPORT_ID, ARRIVAL, ROW, CONTENT_HASH, source.partition.column]


def _in_order(source: SourceTable) -> WindowSpec:
    return Window.partitionBy(*source.key).orderBy(ARRIVAL, ROW)


def _compared(versions: DataFrame, source: SourceTable) -> DataFrame:
    """Each version, whether it is the `_same` as the one before it, and the place of the `_last` that is not."""
    previous = F.lag(CONTENT_HASH).over(_in_order(source))
    news = F.when(~F.col("_same"), F.struct(ARRIVAL, ROW))
    return versions.withColumn("_same", F.coalesce(previous == F.col(CONTENT_HASH), F.lit(False))).withColumn(
        "_last", F.max(news).over(Window.partitionBy(*source.key))
    )


def _fate() -> Column:
    return (
        F.when(F.col("_same"), F.lit(Fate.DUPLICATE))
        .when(F.struct(ARRIVAL, ROW) == F.col("_last"), F.lit(Fate.ACCEPTED))
        .otherwise(F.lit(Fate.SUPERSEDED))
    )


def recount(
    spark: SparkSession, landing: Path, source: SourceTable, imports: Sequence[ImportRecord]
) -> Mapping[str, ImportCounts]:
    """The counts of these imports, all over again: for when one in their midst has changed.

    Args:
        spark: The session.
        landing: The landing folder.
        source: The source table.
        imports: Every import that counts. What they landed and rejected stays as it is.
    """
    versions = valid_rows(spark, landing, source, imports).select(*_columns(source))
    lines = _compared(versions, source).groupBy(IMPORT_ID, _fate().alias("fate")).count().collect()
    found = {(row[IMPORT_ID], row["fate"]): row["count"] for row in lines}
    return {
        record.import_id: replace(
            record.counts, **{str(fate): found.get((record.import_id, str(fate)), 0) for fate in Fate}
        )
        for record in imports
    }


def _account(record: ImportRecord, lines: Sequence[_Line]) -> Account:
    fates = {fate: sum(line.n for line in lines if line.what == fate) for fate in Fate}
    events = Counter({line.day: line.n for line in lines if line.what == "records"})
    displaced: Counter[date] = Counter()
    for line in lines:
        if line.what in set(Fate) and line.day is not None:
            displaced[line.day] += line.n
    days = {day for day in (*events, *displaced) if day is not None}
    return Account(
        counts=ImportCounts(
            landed=events.total(),
            accepted=fates[Fate.ACCEPTED],
            duplicate=fates[Fate.DUPLICATE],
            superseded=fates[Fate.SUPERSEDED],
            rejected=events[None],
        ),
        days=tuple(
            ImportDay(import_id=record.import_id, event_date=day, events=events[day], displaced=displaced[day])
            for day in sorted(days)
        ),
        schema_versions=tuple(sorted(int(line.of or 0) for line in lines if line.what == "version")),
        ignored_columns=tuple(sorted(line.of or "" for line in lines if line.what == "ignored")),
        superseded_elsewhere={line.of or "": line.n for line in lines if line.what == "replaced"},
    )
