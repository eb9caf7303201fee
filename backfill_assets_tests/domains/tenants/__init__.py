"""A domain of tenants: what each of them used on a day, by two releases of which the earlier one counts double."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import Domain, SourceTable, TransformContext, append, daily, derived_table

readings = SourceTable(
    name="bronze.readings",
    key=("reading_id",),
    event_time="at",
    partition=daily("read_on"),
    schema=StructType(
        [
            StructField("reading_id", StringType(), nullable=False),
            StructField("at", TimestampType(), nullable=False),
            StructField("tenant", StringType()),
            StructField("used", LongType(), nullable=False),
        ]
    ),
)

USAGE = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("reading_id", StringType(), nullable=False),
        StructField("tenant", StringType()),
        StructField("used", LongType(), nullable=False),
    ]
)


def _usage(readings: DataFrame, *, factor: int) -> DataFrame:
    used = (sf.col("used") * factor).cast("long").alias("used")
    return readings.select(sf.col("read_on").alias("day"), "reading_id", "tenant", used)


def _doubled(readings: DataFrame, ctx: TransformContext) -> DataFrame:
    return _usage(readings, factor=2)


@derived_table(
    name="silver.usage",
    inputs={"readings": readings},
    key=("day", "reading_id"),
    partition=daily("day"),
    schema=USAGE,
    version="1.0.0",
    earlier={"0.9.0": _doubled},
)
def usage(readings: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was used. Grain: one row per reading."""
    return _usage(readings, factor=1)


@derived_table(
    name="silver.closed_usage",
    inputs={"readings": readings},
    key=("day", "reading_id"),
    partition=daily("day"),
    schema=USAGE,
    version="1.0.0",
    publish=append(),
)
def closed_usage(readings: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was billed, which never changes. Grain: one row per reading."""
    return _usage(readings, factor=1)


DOMAIN = Domain(
    name="tenants",
    package="backfill_assets_tests.domains.tenants",
    sources=(readings,),
    derived=(usage, closed_usage),
)
