"""A domain small enough to follow by hand: sales land, are summed over a window of days, and counted per month.

Amounts above 1,000 fail a blocking gate, amounts above 500 a gate that only warns.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    Domain,
    SourceTable,
    TransformContext,
    Window,
    daily,
    derived_table,
    expression,
    monthly,
)

sales = SourceTable(
    name="bronze.sales",
    description="What was sold.",
    key=("sale_id",),
    event_time="sold_at",
    partition=daily("sold_on"),
    schema=StructType(
        [
            StructField("sale_id", StringType(), nullable=False),
            StructField("sold_at", TimestampType(), nullable=False),
            StructField("amount", LongType(), nullable=False),
        ]
    ),
)

RECENT_SALES = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("shop", StringType(), nullable=False),
        StructField("amount", LongType(), nullable=False),
    ]
)


def _recent_sales(sales: DataFrame, ctx: TransformContext, *, factor: int) -> DataFrame:
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    in_window = sf.col("sold_on").between(sf.date_sub("day", 2), sf.date_add("day", 1))
    return (
        days.join(sales, in_window)
        .groupBy("day")
        .agg((sf.sum("amount") * factor).cast("long").alias("amount"))
        .select("day", sf.lit("only").alias("shop"), "amount")
    )


def _doubled(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return _recent_sales(sales, ctx, factor=2)


@derived_table(
    name="silver.recent_sales",
    inputs={"sales": sales},
    window=Window(days_back=2, days_ahead=1),
    key=("day", "shop"),
    partition=daily("day"),
    schema=RECENT_SALES,
    gates=(
        expression("plausible", "amount <= 1000"),
        expression("usual", "amount <= 500", blocking=False),
    ),
    version="1.0.0",
    earlier={"0.9.0": _doubled},
)
def recent_sales(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was sold on a day, the two before it and the one after.

    Grain: one row per day and shop.
    """
    return _recent_sales(sales, ctx, factor=1)


SALES_MONTHLY = StructType(
    [
        StructField("month", DateType(), nullable=False),
        StructField("amount", LongType(), nullable=False),
    ]
)


@derived_table(
    name="gold.sales_monthly",
    inputs={"recent": recent_sales},
    key=("month",),
    partition=monthly("month"),
    schema=SALES_MONTHLY,
    version="1.0.0",
)
def sales_monthly(recent: DataFrame, ctx: TransformContext) -> DataFrame:
    """The sum over a month.

    Grain: one row per month.
    """
    month = sf.trunc("day", "month")
    return recent.groupBy(month.alias("month")).agg(sf.sum("amount").alias("amount")).select("month", "amount")


DOMAIN = Domain(
    name="example",
    package="backfill_assets_tests.domains.example",
    sources=(sales,),
    derived=(recent_sales, sales_monthly),
)
