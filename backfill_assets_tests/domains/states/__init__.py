"""A domain whose table keeps state: the open cases at the end of every month, with what is still to be paid."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import Domain, SourceTable, TransformContext, daily, derived_table, monthly, reads_self

moves = SourceTable(
    name="bronze.moves",
    key=("move_id",),
    event_time="at",
    partition=daily("moved_on"),
    schema=StructType(
        [
            StructField("move_id", StringType(), nullable=False),
            StructField("at", TimestampType(), nullable=False),
            StructField("case_id", StringType(), nullable=False),
            StructField("amount", LongType(), nullable=False),
            StructField("closes", LongType(), nullable=False),
        ]
    ),
)


def _state_at(state: DataFrame, moves: DataFrame, ctx: TransformContext, *, fee: int) -> DataFrame:
    """The state of every case that is open at the end of the month. A closed case is forgotten, and opens again."""
    month = ctx.output_partitions[-1]
    never = sf.lit(None).cast("timestamp").alias("at")
    before = state.select("case_id", sf.lit(0).cast("long").alias("closes"), "due", "events", never)
    events = moves.select(
        "case_id", "closes", (sf.col("amount") + fee).alias("due"), sf.lit(1).cast("long").alias("events"), "at"
    )
    last = events.where(sf.col("closes") == 1).groupBy("case_id").agg(sf.max("at").alias("closed_at"))
    counted = before.unionByName(events).join(last, "case_id", "left")
    still = sf.col("closed_at").isNull() | (sf.col("at") > sf.col("closed_at"))
    return (
        counted.where(still)
        .groupBy("case_id")
        .agg(sf.sum("due").alias("due"), sf.sum("events").alias("events"))
        .select(sf.lit(month).alias("month"), "case_id", "due", "events")
    )


def _with_fee(state: DataFrame, moves: DataFrame, ctx: TransformContext) -> DataFrame:
    return _state_at(state, moves, ctx, fee=1)


def _by_call(state: DataFrame, moves: DataFrame, ctx: TransformContext) -> DataFrame:
    """Wrong: interest for every call, so that it matters from which snapshot a month is computed."""
    return _state_at(state, moves, ctx, fee=0).withColumn("due", (sf.col("due") + 1).cast("long"))


@derived_table(
    name="silver.open_cases",
    inputs={"state": reads_self(), "moves": moves},
    key=("month", "case_id"),
    partition=monthly("month"),
    schema=StructType(
        [
            StructField("month", DateType(), nullable=False),
            StructField("case_id", StringType(), nullable=False),
            StructField("due", LongType()),
            StructField("events", LongType()),
        ]
    ),
    version="1.0.0",
    earlier={"0.9.0": _with_fee, "0.8.0": _by_call},
)
def open_cases(state: DataFrame, moves: DataFrame, ctx: TransformContext) -> DataFrame:
    """What is due in every open case at the end of the month. Grain: one row per month and case."""
    return _state_at(state, moves, ctx, fee=0)


@derived_table(
    name="gold.due",
    inputs={"cases": open_cases},
    key=("month",),
    partition=monthly("month"),
    schema=StructType(
        [StructField("month", DateType(), nullable=False), StructField("due", LongType(), nullable=False)]
    ),
    version="1.0.0",
)
def due(cases: DataFrame, ctx: TransformContext) -> DataFrame:
    """What is due at the end of a month. Grain: one row per month."""
    return cases.groupBy("month").agg(sf.sum("due").alias("due")).select("month", "due")


DOMAIN = Domain(
    name="states", package="backfill_assets_tests.domains.states", sources=(moves,), derived=(open_cases, due)
)
