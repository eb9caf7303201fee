"""The shop of `domains/example` whose table keeps state: the largest sale until the end of every day.

A late sale changes the snapshots from its day on, until a larger sale: from then on they are equal. Those of the last
four days are kept, and the last one of each month; the others may expire.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.domain import Domain, RetentionRule, TransformContext, daily, derived_table, reads_self
from backfill_assets_tests.domains.example import RECENT_SALES, sales

KEPT = RetentionRule(days=3, then="month")


@derived_table(
    name="silver.recent_sales",
    inputs={"state": reads_self(keep=KEPT), "sales": sales},
    key=("day", "shop"),
    partition=daily("day"),
    schema=RECENT_SALES,
    version="1.0.0",
)
def recent_sales(state: DataFrame, sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """The largest sale until the end of the day.

    Grain: one row per day and shop.
    """
    largest = state.select("amount").unionByName(sales.select("amount")).agg(sf.max("amount").alias("amount"))
    return largest.where("amount is not null").select(
        sf.lit(ctx.output_partitions[-1]).alias("day"), sf.lit("only").alias("shop"), "amount"
    )


DOMAIN = Domain(name="peaks", package=__name__, sources=(sales,), derived=(recent_sales,))
