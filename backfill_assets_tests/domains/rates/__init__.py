"""A domain in which inputs differ in how far around a partition they are read.

What was sold in the last 31 days is valued at the rate of the day: a long window, and a slow dimension without one. A
month is the sum of its own days and those of the two months before it, and is compared with the month before.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    Domain,
    Months,
    SourceTable,
    TransformContext,
    Window,
    daily,
    derived_table,
    monthly,
    reads,
)


def _source(name: str, prefix: str, figure: str) -> SourceTable:
    return SourceTable(
        name=name,
        key=(f"{prefix}_id",),
        event_time=f"{prefix}_at",
        partition=daily(f"{prefix}_on"),
        schema=StructType(
            [
                StructField(f"{prefix}_id", StringType(), nullable=False),
                StructField(f"{prefix}_at", TimestampType(), nullable=False),
                StructField(figure, LongType(), nullable=False),
            ]
        ),
    )


sales = _source("bronze.sales", "sold", "amount")
rates = _source("bronze.rates", "rated", "rate")


def _amounts(column: str) -> StructType:
    return StructType(
        [StructField(column, DateType(), nullable=False), StructField("amount", LongType(), nullable=False)]
    )


@derived_table(
    name="silver.worth",
    inputs={"sales": reads(sales, window=Window(days_back=30)), "rates": reads(rates, days_back=0)},
    key=("day",),
    partition=daily("day"),
    schema=_amounts("day"),
    version="1.0.0",
)
def worth(sales: DataFrame, rates: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was sold in the last 31 days, at the rate of the day. Grain: one row per day."""
    days = rates.select(sf.col("rated_on").alias("day"), "rate")
    joined = days.join(sales, sf.col("sold_on").between(sf.date_sub("day", 30), sf.col("day")))
    return (
        joined.groupBy("day", "rate")
        .agg(sf.sum("amount").alias("sold"))
        .select("day", (sf.col("sold") * sf.col("rate")).alias("amount"))
    )


@derived_table(
    name="gold.quarter",
    inputs={"worth": reads(worth, window=Months(back=2))},
    key=("month",),
    partition=monthly("month"),
    schema=_amounts("month"),
    version="1.0.0",
)
def quarter(worth: DataFrame, ctx: TransformContext) -> DataFrame:
    """The sum over a month and the two before it. Grain: one row per month."""
    own = sf.trunc("day", "month")
    months = sf.explode(sf.sequence(own, sf.add_months(own, 2), sf.expr("interval 1 month")))
    return (
        worth.select(months.alias("month"), "amount")
        .groupBy("month")
        .agg(sf.sum("amount").alias("amount"))
        .select("month", "amount")
    )


@derived_table(
    name="gold.growth",
    inputs={"quarter": reads(quarter, window=Months(back=1)), "worth": worth},
    key=("month",),
    partition=monthly("month"),
    schema=_amounts("month"),
    version="1.0.0",
)
def growth(quarter: DataFrame, worth: DataFrame, ctx: TransformContext) -> DataFrame:
    """By how much a quarter is more than the one of the month before, in months with days. Grain: one row per month."""
    before = quarter.select(sf.add_months("month", 1).alias("month"), sf.col("amount").alias("before"))
    own = worth.select(sf.trunc("day", "month").alias("month")).distinct()
    return (
        quarter.join(before, "month")
        .join(own, "month")
        .select("month", (sf.col("amount") - sf.col("before")).alias("amount"))
    )


DOMAIN = Domain(
    name="rates",
    package="backfill_assets_tests.domains.rates",
    sources=(sales, rates),
    derived=(worth, quarter, growth),
)
