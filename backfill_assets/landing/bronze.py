"""Bronze: the rows of a day of a source table.

Day d is built from every import that touches d: those with events of d, and those that moved, deleted or withdrew a key
of d. What each of their versions is, `standing` decides; a key that is not known is left out only where its source says
so. A source without operations keeps the current rows; one with
operations keeps its changelog, in which the current rows are marked by `_operation` and `_ended_by`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import (
    ENDED_BY,
    OPERATION,
    POSITION,
    UNKNOWN_SINCE,
    VALID_FROM,
    VALID_UNTIL,
    UnknownKeys,
)
from backfill_assets.landing.conformed import ARRIVAL, IMPORT_ID, ConformedRecords
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.key_versions import (
    DECIDES,
    EARLIEST,
    HAPPENED,
    IS_DUPLICATE,
    IS_OVERRIDDEN,
    NEXT,
    UNKNOWN,
    VOID_BY,
    standing,
)
from backfill_assets.landing.raw_records import RawRecords
from backfill_assets.landing.record_rules import happened_at
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.planning.partitions import Grain, compress

_MOST_RANGES = 50
_ROW_BITS = 40
"""A file has fewer records than 2^40, and a ledger fewer imports than 2^23."""


def bronze_rows(
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    *,
    imports: Sequence[ImportRecord],
    days: Sequence[date],
    raw_owner: str = "",
) -> DataFrame:
    """The rows of some days of a source table.

    Args:
        imports: What `imports_for_days` gives for these days.
        raw_owner: Read and judge the landed files again, instead of the conformed records that were kept of them. What
            is decoded of them meanwhile is kept for this owner.

    Returns:
        The contract's columns, the partition column, those of the changelog if the source has one, `_import_id` and
        `_row`: one row per key, or per key and position.
    """
    landing = landing_files(settings)
    records = (
        RawRecords(spark=spark, landing=landing, source=source, settings=settings, owner=raw_owner)
        if raw_owner
        else ConformedRecords(spark=spark, landing=landing, source=source)
    )
    found = _versions(records, imports, days)
    kept = [*source.schema.fieldNames(), source.partition.column]
    is_dropped = F.col(UNKNOWN).isNotNull() if source.unknown == UnknownKeys.DROP else F.lit(False)
    if source.operation is None:
        return found.where(F.col(DECIDES) & ~is_dropped).select(*kept, IMPORT_ID, ROW)
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    held = found.where(~is_truncate & F.col(VOID_BY).isNull() & ~F.col(IS_DUPLICATE) & ~F.col(IS_OVERRIDDEN))
    # Since when is not known of a rejected record whose time cannot be read: then for no time that could be told.
    unknown_since = F.coalesce(F.col(f"{UNKNOWN}.at"), F.col(HAPPENED))
    until = F.when(is_dropped, unknown_since).otherwise(F.col(f"{EARLIEST}.at"))
    changes = [
        F.col(OPERATION),
        F.col(HAPPENED).alias(VALID_FROM),
        F.when(until.isNotNull(), F.greatest(F.col(HAPPENED), until)).alias(VALID_UNTIL),
        F.when(is_dropped, F.lit(UNKNOWN_SINCE)).otherwise(F.col(f"{NEXT}.operation")).alias(ENDED_BY),
    ]
    if not source.order:
        changes.insert(1, (F.shiftleft(F.col(ARRIVAL).cast("bigint"), _ROW_BITS) + F.col(ROW)).alias(POSITION))
    return held.select(*kept, *changes, IMPORT_ID, ROW)


def unknown_keys(
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    *,
    imports: Sequence[ImportRecord],
    days: Sequence[date],
) -> DataFrame:
    """The keys of some days that are not known: the key, its day, and the import, number and reason of the first
    rejected record since which it is not. `imports` as for `bronze_rows`."""
    records = ConformedRecords(spark=spark, landing=landing_files(settings), source=source)
    found = _versions(records, imports, days).where(F.col(UNKNOWN).isNotNull())
    since = (F.col(f"{UNKNOWN}.{name}").alias(name) for name in (IMPORT_ID, ROW, "reason"))
    return found.select(*source.key, source.partition.column, *since)


def _versions(records: ConformedRecords, imports: Sequence[ImportRecord], days: Sequence[date]) -> DataFrame:
    """The versions of some days, with what each of them is."""
    source = records.source
    versions = records.versions(imports).withColumn(HAPPENED, happened_at(source))
    return standing(versions, source, imports).where(_on(F.col(source.partition.column), days))


def _on(day: Column, days: Sequence[date]) -> Column:
    ranges = compress(Grain.DAILY, days)
    if len(ranges) > _MOST_RANGES:
        return day.isin(list(days))
    within = F.lit(False)
    for each in ranges:
        within = within | day.between(F.lit(each.start), F.lit(each.last))
    return within
