"""Orders that arrive as a change feed, and two tables: one reads current rows, the other both them and the changes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    Domain,
    Operations,
    SourceTable,
    TransformContext,
    Window,
    daily,
    derived_table,
    reads,
)

orders = SourceTable(
    name="bronze.orders",
    key=("order_id",),
    event_time="ordered_at",
    partition=daily("order_date"),
    order=("lsn",),
    operation=Operations(column="op", create="c", update="u", delete="d", snapshot="r", truncate="t", at="changed_at"),
    schema=StructType(
        [
            StructField("order_id", StringType(), nullable=False, metadata={"comment": "Names the order."}),
            StructField(
                "ordered_at", TimestampType(), nullable=False, metadata={"comment": "When it was ordered, in UTC."}
            ),
            StructField(
                "changed_at",
                TimestampType(),
                nullable=False,
                metadata={"comment": "When this change was made, in UTC."},
            ),
            StructField(
                "lsn",
                LongType(),
                nullable=False,
                metadata={"comment": "The position of the change in the log of the shop."},
            ),
            StructField(
                "op", StringType(), nullable=False, metadata={"comment": "c, u, d, r or t: what the change does."}
            ),
            StructField("place", StringType(), nullable=False, metadata={"comment": "Where it goes."}),
        ]
    ),
)


@derived_table(
    name="silver.order_places",
    inputs={"orders": orders},
    window=Window(days_back=1),
    key=("day", "place"),
    partition=daily("day"),
    schema=StructType(
        [
            StructField("day", DateType(), nullable=False, metadata={"comment": "The day that is counted."}),
            StructField("place", StringType(), nullable=False, metadata={"comment": "Where the orders go."}),
            StructField("orders", LongType(), nullable=False, metadata={"comment": "Orders of two days."}),
        ]
    ),
    version="1.0.0",
)
def order_places(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    """How many orders of a day and the one before there are.

    Grain: one row per day and place.
    """
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    in_window = sf.col("order_date").between(sf.date_sub("day", 1), sf.col("day"))
    return days.join(orders, in_window).groupBy("day", "place").agg(sf.count("*").alias("orders"))


@derived_table(
    name="silver.order_changes",
    inputs={"orders": reads(orders), "changes": reads(orders, days_back=2, changes=True)},
    key=("day",),
    partition=daily("day"),
    schema=StructType(
        [
            StructField("day", DateType(), nullable=False, metadata={"comment": "The day that is counted."}),
            StructField("orders", LongType(), nullable=False, metadata={"comment": "Orders of the day."}),
            StructField(
                "versions",
                LongType(),
                nullable=False,
                metadata={"comment": "What was recorded of the day and the two before."},
            ),
            StructField("deletes", LongType(), nullable=False, metadata={"comment": "Deletes among these."}),
        ]
    ),
    version="1.0.0",
)
def order_changes(orders: DataFrame, changes: DataFrame, ctx: TransformContext) -> DataFrame:
    """The orders of a day, and what was recorded of it and the two before.

    Grain: one row per day.
    """
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    current = orders.groupBy("order_date").agg(sf.count("*").alias("orders"))
    in_window = sf.col("order_date").between(sf.date_sub("day", 2), sf.col("day"))
    deletes = sf.count(sf.when(sf.col("_operation") == "delete", True)).alias("deletes")
    recorded = days.join(changes, in_window).groupBy("day").agg(sf.count("*").alias("versions"), deletes)
    found = days.join(current, days["day"] == current["order_date"], "left").join(recorded, "day", "left")
    counted = [sf.coalesce(sf.col(name), sf.lit(0)).alias(name) for name in ("orders", "versions", "deletes")]
    return found.select("day", *counted)


DOMAIN = Domain(
    name="orders",
    package="backfill_assets_tests.domains.orders",
    sources=(orders,),
    derived=(order_places, order_changes),
)
