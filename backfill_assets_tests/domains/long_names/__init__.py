"""A domain with names as long as people give them: what screens have to have room for."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from backfill_assets.domain import Domain, TransformContext, Window, daily, derived_table, expression, monthly
from backfill_assets_tests.domains.example import sales

BY_SEGMENT = StructType(
    [
        StructField("day_of_the_revenue", DateType(), nullable=False),
        StructField("customer_segment_and_country", StringType(), nullable=False),
        StructField("revenue_before_discounts", LongType(), nullable=False),
    ]
)
BY_MONTH = StructType(
    [StructField("month", DateType(), nullable=False), StructField("revenue", LongType(), nullable=False)]
)


def _revenue(sales: DataFrame, factor: int) -> DataFrame:
    days = sales.select(
        sf.explode(sf.sequence("sold_on", sf.date_add("sold_on", 2))).alias("day_of_the_revenue"), "amount"
    )
    summed = days.groupBy("day_of_the_revenue").agg((sf.sum("amount") * factor).cast("long").alias("revenue"))
    segment = sf.lit("returning customers of the northern countries")
    return summed.select(
        "day_of_the_revenue",
        segment.alias("customer_segment_and_country"),
        sf.col("revenue").alias("revenue_before_discounts"),
    )


def _twice(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return _revenue(sales, 2)


@derived_table(
    name="silver.revenue_per_customer_segment_and_country",
    inputs={"sales": sales},
    window=Window(days_back=2),
    key=("day_of_the_revenue", "customer_segment_and_country"),
    partition=daily("day_of_the_revenue"),
    schema=BY_SEGMENT,
    gates=(expression("revenue_before_discounts_is_never_negative", "revenue_before_discounts >= 0", blocking=False),),
    version="1.0.0",
    earlier={"0.9.0-before-the-discounts-were-known": _twice},
)
def revenue_per_customer_segment_and_country(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """Grain: one row per day and segment. What was sold on it and the two days before."""
    return _revenue(sales, 1)


@derived_table(
    name="gold.monthly_revenue_for_the_board_of_directors",
    inputs={"revenue": revenue_per_customer_segment_and_country},
    key=("month",),
    partition=monthly("month"),
    schema=BY_MONTH,
    version="1.0.0",
)
def monthly_revenue_for_the_board_of_directors(revenue: DataFrame, ctx: TransformContext) -> DataFrame:
    """Grain: one row per month."""
    month = sf.trunc("day_of_the_revenue", "month").alias("month")
    return revenue.groupBy(month).agg(sf.sum("revenue_before_discounts").alias("revenue")).select("month", "revenue")


DOMAIN = Domain(
    name="long_names",
    package="backfill_assets_tests.domains.long_names",
    sources=(sales,),
    derived=(revenue_per_customer_segment_and_country, monthly_revenue_for_the_board_of_directors),
)
