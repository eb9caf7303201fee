"""Transforms of the shop whose contract has versions: the first release reads `amount`, the present one `net`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from backfill_assets.domain import TransformContext
from backfill_assets.domain.contracts import Record


def of_amount(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """The sum of a day. Grain: one row per day."""
    return _sum_of(sales, sf.col("amount"))


def of_net(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """The sum of a day. Grain: one row per day."""
    return _sum_of(sales, sf.col("net"))


def _sum_of(sales: DataFrame, amount: Column) -> DataFrame:
    return (
        sales.groupBy(sf.col("sold_on").alias("day"))
        .agg(sf.sum(amount).alias("amount"))
        .select("day", sf.col("amount").cast("long").alias("amount"))
    )


def doubled(record: Record) -> Record:
    """Earlier records gave half of what was sold."""
    return {"net": record["amount"] * 2}


def tripled(record: Record) -> Record:
    """Earlier records gave a third of what was sold."""
    return {"net": record["amount"] * 3}


def of_another_type(record: Record) -> Record:
    """A mistake: a text is no amount."""
    return {"net": record["place"]}


def of_a_column_that_is_not_there(record: Record) -> Record:
    """A mistake: the later version has no such column."""
    return {"gross": record["amount"]}


def of_the_key(record: Record) -> Record:
    """A mistake: a key is not computed."""
    return {"sale_id": sf.lower(record["sale_id"])}


def failing(record: Record) -> Record:
    """A mistake: it asks for a column that no version has."""
    return {"net": record["nett"]}
