"""A domain with two references, one of which decides a window: what a day is charged, and the tax of a month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    Domain,
    Reference,
    SourceTable,
    TransformContext,
    Window,
    daily,
    derived_table,
    monthly,
    reads,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """What amounts are multiplied by, and how many days before a day count for it."""

    version: str
    factor: int
    days_back: int = 0


def _parse(document: Mapping[str, Any]) -> Factor:
    return Factor(**document)


sales = SourceTable(
    name="bronze.sales",
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


def _amounts(column: str) -> StructType:
    return StructType(
        [StructField(column, DateType(), nullable=False), StructField("amount", LongType(), nullable=False)]
    )


@derived_table(
    name="silver.charges",
    inputs={"sales": reads(sales, window=lambda references: Window(days_back=references["tariff"].days_back))},
    key=("day",),
    partition=daily("day"),
    schema=_amounts("day"),
    references=("tariff",),
    version="1.0.0",
)
def charges(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was sold in the days that the tariff counts, by its factor. Grain: one row per day."""
    tariff: Factor = ctx.references["tariff"]
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    counted = sf.col("sold_on").between(sf.date_sub("day", tariff.days_back), sf.col("day"))
    return (
        days.join(sales, counted)
        .groupBy("day")
        .agg((sf.sum("amount") * tariff.factor).cast("long").alias("amount"))
        .select("day", "amount")
    )


@derived_table(
    name="gold.bills",
    inputs={"charges": charges},
    key=("month",),
    partition=monthly("month"),
    schema=_amounts("month"),
    references=("tax",),
    version="1.0.0",
)
def bills(charges: DataFrame, ctx: TransformContext) -> DataFrame:
    """The charges of a month by the factor of the tax. Grain: one row per month."""
    tax: Factor = ctx.references["tax"]
    return (
        charges.groupBy(sf.trunc("day", "month").alias("month"))
        .agg((sf.sum("amount") * tax.factor).cast("long").alias("amount"))
        .select("month", "amount")
    )


DOMAIN = Domain(
    name="tariff",
    package="backfill_assets_tests.domains.tariff",
    sources=(sales,),
    derived=(charges, bills),
    references=(Reference(name="tariff", parse=_parse), Reference(name="tax", parse=_parse)),
)
