"""Rain by station and day: an event time that is a date, of files and of a change feed, and a table of three days."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    Domain,
    Operations,
    SourceTable,
    TransformContext,
    Window,
    daily,
    days,
    derived_table,
)

rain = SourceTable(
    name="bronze.rain",
    key=("station", "day"),
    event_time="day",
    partition=daily("rain_day"),
    lateness=days(2),
    most_withdrawn_percent=100,
    schema=StructType(
        [
            StructField("station", StringType(), nullable=False, metadata={"comment": "Names the station."}),
            StructField("day", DateType(), nullable=False, metadata={"comment": "The day as the station wrote it."}),
            StructField("mm", IntegerType(), nullable=False, metadata={"comment": "Rain of the day."}),
        ]
    ),
)

gauges = SourceTable(
    name="bronze.gauges",
    key=("gauge",),
    event_time="built_on",
    partition=daily("built_day"),
    timezone="Pacific/Kiritimati",
    order=("number",),
    operation=Operations(column="op", create="c", update="u", delete="d", at="changed_at"),
    schema=StructType(
        [
            StructField("gauge", StringType(), nullable=False, metadata={"comment": "Names the gauge."}),
            StructField("built_on", DateType(), nullable=False, metadata={"comment": "When it was built."}),
            StructField("changed_at", TimestampType(), nullable=False, metadata={"comment": "When this was said."}),
            StructField("number", LongType(), nullable=False, metadata={"comment": "The place of the change."}),
            StructField("op", StringType(), nullable=False, metadata={"comment": "c, u or d."}),
        ]
    ),
)


@derived_table(
    name="silver.rain_of_days",
    inputs={"rain": rain},
    window=Window(days_back=1),
    key=("day",),
    partition=daily("day"),
    version="1.0.0",
    schema=StructType(
        [
            StructField("day", DateType(), nullable=False, metadata={"comment": "The later of two days."}),
            StructField("mm", LongType(), nullable=False, metadata={"comment": "Rain of both at all stations."}),
        ]
    ),
)
def rain_of_days(rain: DataFrame, ctx: TransformContext) -> DataFrame:
    """Grain: one row per day. Window: the day and the one before."""
    of_days = ctx.frame([(day,) for day in ctx.output], "of date")
    found = of_days.join(rain, sf.col("day").between(sf.date_sub("of", 1), sf.col("of")), "left")
    total = sf.coalesce(sf.sum("mm"), sf.lit(0))
    return found.groupBy(sf.col("of").alias("day")).agg(total.cast("long").alias("mm"))


DOMAIN = Domain(
    name="rain",
    package="backfill_assets_tests.domains.rain",
    sources=(rain, gauges),
    derived=(rain_of_days,),
)
