"""A domain whose state has a snapshot every seven days, and a table of days that reads the newest one."""

from __future__ import annotations

from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from backfill_assets.domain import Domain, TransformContext, daily, derived_table, reads, reads_self
from backfill_assets_tests.domains.states import moves

SINCE = date(2026, 1, 3)
EVERY = 7


@derived_table(
    name="silver.balances",
    inputs={"state": reads_self(since=SINCE, every=EVERY), "moves": moves},
    key=("as_of", "case_id"),
    partition=daily("as_of"),
    schema=StructType(
        [
            StructField("as_of", DateType(), nullable=False),
            StructField("case_id", StringType(), nullable=False),
            StructField("balance", LongType()),
            StructField("moves", LongType()),
        ]
    ),
    version="1.0.0",
)
def balances(state: DataFrame, moves: DataFrame, ctx: TransformContext) -> DataFrame:
    """The balance of every open case at the end of each seventh day. Grain: one row per snapshot and case.

    A closed case is forgotten with everything until then.
    """
    never = sf.lit(None).cast("timestamp").alias("at")
    before = state.select("case_id", sf.lit(0).cast("long").alias("closes"), "balance", "moves", never)
    more = moves.select(
        "case_id", "closes", sf.col("amount").alias("balance"), sf.lit(1).cast("long").alias("moves"), "at"
    )
    closed = more.where(sf.col("closes") == 1).groupBy("case_id").agg(sf.max("at").alias("closed_at"))
    counted = before.unionByName(more).join(closed, "case_id", "left")
    return (
        counted.where(sf.col("closed_at").isNull() | (sf.col("at") > sf.col("closed_at")))
        .groupBy("case_id")
        .agg(sf.sum("balance").alias("balance"), sf.sum("moves").alias("moves"))
        .select(sf.lit(ctx.output_partitions[-1]).alias("as_of"), "case_id", "balance", "moves")
    )


@derived_table(
    name="gold.totals",
    inputs={"balances": reads(balances, days_back=EVERY - 1)},
    key=("day",),
    partition=daily("day"),
    schema=StructType(
        [
            StructField("day", DateType(), nullable=False),
            StructField("as_of", DateType()),
            StructField("total", LongType()),
        ]
    ),
    version="1.0.0",
)
def totals(balances: DataFrame, ctx: TransformContext) -> DataFrame:
    """All balances of the newest snapshot of a day. Grain: one row per day with a snapshot in its window."""
    days = ctx.frame([(day,) for day in ctx.output_partitions], "day date")
    within = sf.col("as_of").between(sf.date_sub("day", EVERY - 1), sf.col("day"))
    return days.join(balances, within).groupBy("day", "as_of").agg(sf.sum("balance").alias("total"))


DOMAIN = Domain(
    name="weeks", package="backfill_assets_tests.domains.weeks", sources=(moves,), derived=(balances, totals)
)
