"""The shop of `domains/example` whose sales are a change feed: numbered, created, changed and deleted."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from backfill_assets.domain import Domain, Operations, TransformContext, Window, daily, derived_table
from backfill_assets_tests.domains import example as example_domain

sales = replace(
    example_domain.sales,
    description="What became of every sale.",
    order=("number",),
    operation=Operations(column="op", create="c", update="u", delete="d"),
    gates=(),
    schema=StructType(
        [
            *example_domain.sales.schema.fields,
            StructField("op", StringType(), nullable=False),
            StructField("number", LongType(), nullable=False),
        ]
    ),
)


@derived_table(
    name="silver.recent_sales",
    inputs={"sales": sales},
    window=Window(days_back=2, days_ahead=1),
    key=("day", "shop"),
    partition=daily("day"),
    schema=example_domain.RECENT_SALES,
    version="1.0.0",
)
def recent_sales(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was sold on a day, the two before it and the one after, and was not taken back.

    Grain: one row per day and shop.
    """
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    in_window = sf.col("sold_on").between(sf.date_sub("day", 2), sf.date_add("day", 1))
    sold = days.join(sales, in_window).groupBy("day").agg(sf.sum("amount").cast("long").alias("amount"))
    return sold.select("day", sf.lit("only").alias("shop"), "amount")


DOMAIN = Domain(name="feed", package="backfill_assets_tests.domains.feed", sources=(sales,), derived=(recent_sales,))
