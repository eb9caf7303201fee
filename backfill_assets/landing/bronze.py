"""Bronze: the rows of a day of a source table.

Day d is built from every import that touches d: those with events of d, and those that moved a key away from d. Among
all their versions of a key the latest arrival wins, and it belongs to one day only.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from backfill_assets.domain import SourceTable
from backfill_assets.landing.conformed import ARRIVAL, IMPORT_ID, valid_rows
from backfill_assets.landing.formats import ROW
from backfill_assets.ledger.import_records import ImportRecord
from backfill_assets.planning.partitions import Grain, compress
from backfill_assets.settings import Settings

_MOST_RANGES = 50


def bronze_rows(
    spark: SparkSession,
    settings: Settings,
    source: SourceTable,
    *,
    imports: Sequence[ImportRecord],
    days: Sequence[date],
) -> DataFrame:
    """The rows of some days of a source table.

    Args:
        spark: The session.
        settings: Where the landing folder is.
        source: The source table.
        imports: What `imports_for_days` gives for these days.
        days: The days to build.

    Returns:
        The contract's columns, the partition column, `_import_id` and `_row`: one row per key, the latest arrival.
    """
    versions = valid_rows(spark, settings.landing, source, imports)
    latest = Window.partitionBy(*source.key).orderBy(F.col(ARRIVAL).desc(), F.col(ROW).desc())
    return (
        versions.withColumn("_rank", F.row_number().over(latest))
        .where((F.col("_rank") == 1) & _on(F.col(source.partition.column), days))
        .select(*source.schema.fieldNames(), source.partition.column, IMPORT_ID, ROW)
    )


def _on(day: Column, days: Sequence[date]) -> Column:
    ranges = compress(Grain.DAILY, days)
    if len(ranges) > _MOST_RANGES:
        return day.isin(list(days))
    within = F.lit(False)
    for each in ranges:
        within = within | day.between(F.lit(each.start), F.lit(each.last))
    return within
