"""Three derived tables over one source, so that a correction may concern only some of them.

`silver.turnover` reads amounts, `silver.colours` reads colours, `gold.palette` reads both of them. A turnover above
1,000 fails a blocking gate.
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
    warm_up_proof,
)

orders = SourceTable(
    name="bronze.orders",
    key=("order_id",),
    event_time="ordered_at",
    partition=daily("ordered_on"),
    schema=StructType(
        [
            StructField("order_id", StringType(), nullable=False),
            StructField("ordered_at", TimestampType(), nullable=False),
            StructField("amount", LongType(), nullable=False),
            StructField("colour", LongType(), nullable=False),
        ]
    ),
)


def _daily(column: str) -> StructType:
    return StructType([StructField("day", DateType(), nullable=False), StructField(column, LongType(), nullable=False)])


@derived_table(
    name="silver.turnover",
    inputs={"orders": orders},
    window=Window(days_ahead=1),
    key=("day",),
    partition=daily("day"),
    schema=_daily("amount"),
    gates=(expression("plausible", "amount <= 1000"), warm_up_proof(partitions=0)),
    version="2.0.0",
)
def turnover(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was ordered on a day and the one after. Grain: one row per day."""
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    joined = days.join(orders, sf.col("ordered_on").between(sf.col("day"), sf.date_add("day", 1)))
    return joined.groupBy("day").agg(sf.sum("amount").alias("amount")).select("day", "amount")


@derived_table(
    name="silver.colours",
    inputs={"orders": orders},
    key=("day",),
    partition=daily("day"),
    schema=_daily("colours"),
    gates=(warm_up_proof(partitions=0),),
    version="1.0.0",
)
def colours(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    """The colours of a day. Grain: one row per day."""
    renamed = orders.withColumnRenamed("ordered_on", "day")
    return renamed.groupBy("day").agg(sf.sum("colour").alias("colours")).select("day", "colours")


PALETTE = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("amount", LongType(), nullable=False),
        StructField("colours", LongType(), nullable=False),
    ]
)


@derived_table(
    name="gold.palette",
    inputs={"turnover": turnover, "colours": colours},
    window=Window(days_back=1),
    key=("day",),
    partition=daily("day"),
    schema=PALETTE,
    gates=(warm_up_proof(partitions=0),),
    version="1.0.0",
)
def palette(turnover: DataFrame, colours: DataFrame, ctx: TransformContext) -> DataFrame:
    """What a day and the one before were worth, and their colours. Grain: one row per day."""
    both = turnover.join(colours, "day").withColumnRenamed("day", "of")
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    joined = days.join(both, sf.col("of").between(sf.date_sub("day", 1), sf.col("day"))).groupBy("day")
    return joined.agg(sf.sum("amount").alias("amount"), sf.sum("colours").alias("colours")).select(
        "day", "amount", "colours"
    )


DOMAIN = Domain(
    name="story",
    package="backfill_assets_tests.domains.story",
    sources=(orders,),
    derived=(turnover, colours, palette),
)
