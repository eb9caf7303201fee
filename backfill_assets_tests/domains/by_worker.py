"""A table whose rows are computed by a function that Spark's Python processes import, with a value of its module."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import Domain, SourceTable, TransformContext, daily, derived_table

TIMES = 1

sales = SourceTable(
    name="bronze.sales",
    key=("sale_id",),
    event_time="sold_at",
    partition=daily("sold_on"),
    schema=StructType(
        [
            StructField("sale_id", StringType(), nullable=False),
            StructField("sold_at", TimestampType(), nullable=False),
        ]
    ),
)


def times(n: int) -> int:
    return n * TIMES


@derived_table(
    name="silver.days",
    inputs={"sales": sales},
    key=("sold_on",),
    partition=daily("sold_on"),
    version="1.0.0",
    schema=StructType(
        [StructField("sold_on", DateType(), nullable=False), StructField("n", LongType(), nullable=False)]
    ),
)
def days(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """How many sales a day had, some times. Grain: one row per day."""
    counted = sales.groupBy("sold_on").agg(sf.count("*").alias("sold"))
    times_of = sf.udf(times, LongType(), useArrow=False)
    return counted.select("sold_on", sf.coalesce(times_of("sold"), sf.lit(0)).cast("long").alias("n"))


DOMAIN = Domain(name="by_worker", package=__name__, sources=(sales,), derived=(days,))
