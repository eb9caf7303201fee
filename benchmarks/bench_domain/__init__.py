"""A domain of any size: one record a day says how many items the day has, and each item is a row.

Amounts depend on a window of three days, so that a bare script reads what a governed run reads. Release 2.0.0 makes the
rows of 1.0.0, release 2.1.0 changes one in a hundred, and release 3.0.0 all of them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    Breakdown,
    Domain,
    SourceTable,
    TransformContext,
    Window,
    accepted,
    daily,
    derived_table,
    expression,
)

STATES = ("CLOSED", "LATE", "OPEN")

counts = SourceTable(
    name="bronze.counts",
    description="How many items there are on each day.",
    key=("count_id",),
    event_time="counted_at",
    partition=daily("counted_on"),
    schema=StructType(
        [
            StructField("count_id", StringType(), nullable=False),
            StructField("counted_at", TimestampType(), nullable=False),
            StructField("items", LongType(), nullable=False),
        ]
    ),
)

ITEMS = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("item", StringType(), nullable=False),
        StructField("shop", StringType(), nullable=False),
        StructField("state", StringType(), nullable=False),
        StructField("amount", LongType(), nullable=False),
        StructField("recent", LongType(), nullable=False),
        StructField("due_on", DateType()),
    ]
)


def _items(counts: DataFrame, ctx: TransformContext, more: Column) -> DataFrame:
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    own = sf.sum(sf.when(sf.col("counted_on") == sf.col("day"), sf.col("items")))
    per_day = (
        days.join(counts, sf.col("counted_on").between(sf.date_sub("day", 2), sf.col("day")))
        .groupBy("day")
        .agg(sf.coalesce(own, sf.lit(0)).alias("items"), sf.sum("items").alias("recent"))
        .where("items > 0")
    )
    number = sf.explode(sf.sequence(sf.lit(0).cast("long"), sf.col("items") - 1))
    hashed = sf.abs(sf.hash("day", "number").cast("long"))
    return per_day.withColumn("number", number).select(
        "day",
        sf.format_string("item-%09d", "number").alias("item"),
        sf.concat(sf.lit("shop-"), (hashed % 7).cast("string")).alias("shop"),
        sf.element_at(sf.array(*map(sf.lit, STATES)), (hashed % 3 + 1).cast("int")).alias("state"),
        (hashed % 10_000 + more).alias("amount"),
        "recent",
        sf.when(hashed % 5 > 0, sf.date_add("day", (hashed % 30).cast("int"))).alias("due_on"),
    )


def _first(counts: DataFrame, ctx: TransformContext) -> DataFrame:
    return _items(counts, ctx, sf.lit(0))


def _one_percent(counts: DataFrame, ctx: TransformContext) -> DataFrame:
    return _items(counts, ctx, (sf.col("number") % 100 == 0).cast("long"))


def _all(counts: DataFrame, ctx: TransformContext) -> DataFrame:
    return _items(counts, ctx, sf.lit(1))


@derived_table(
    name="silver.items",
    inputs={"counts": counts},
    window=Window(days_back=2),
    key=("day", "item"),
    partition=daily("day"),
    schema=ITEMS,
    gates=(
        accepted("state", STATES),
        expression("positive", "amount >= 0"),
        expression("due_later", "due_on is null or due_on >= day"),
    ),
    breakdown=Breakdown(by=("shop", "state"), measures={"amount": "amount", "late": "state = 'LATE'"}),
    version="2.0.0",
    earlier={"1.0.0": _first, "2.1.0": _one_percent, "3.0.0": _all},
)
def items(counts: DataFrame, ctx: TransformContext) -> DataFrame:
    """The items of every day.

    Grain: one row per day and item.
    """
    return _items(counts, ctx, sf.lit(0))


DOMAIN = Domain(name="bench", package="bench_domain", sources=(counts,), derived=(items,))
