"""Tables with one mistake each, which the checks of the test kit have to find, and one without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.domain import DerivedTable, Domain, Transform, TransformContext, Window, daily, derived_table
from backfill_assets_tests.domains.example import RECENT_SALES, sales

FOLDER, PYTHON = gettempdir(), sys.executable


def _sums(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was sold on a day and the two before it."""
    days = ctx.frame([(day,) for day in ctx.output], "day date")
    summed = days.join(sales, sf.col("sold_on").between(sf.date_sub("day", 2), sf.col("day")))
    rows = summed.groupBy("day").agg(sf.sum("amount").cast("long").alias("amount"), sf.count("*").alias("sales"))
    return rows.select("day", sf.lit("only").alias("shop"), "amount")


def _random(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return _sums(sales, ctx).withColumn("amount", sf.col("amount") + (sf.rand() * 1_000_000).cast("long"))


def _first_read(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """Of two sales of a day, the one that is read first."""
    first = sales.groupBy("sold_on").agg(sf.first("sale_id").alias("sale_id"))
    rows = sales.join(first, ["sold_on", "sale_id"]).withColumnRenamed("sold_on", "day")
    return rows.select("day", sf.lit("only").alias("shop"), "amount")


def _of_the_call(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """Counts the days of the call into every row."""
    return _sums(sales, ctx).withColumn("amount", sf.col("amount") + sf.lit(len(ctx.output_partitions)).cast("long"))


def _of_the_run(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """Counts the name of the run into every row, by 40 bits of its hash: two runs never count the same."""
    named = sf.shiftrightunsigned(sf.xxhash64(sf.lit(ctx.run_id)), 24)
    return _sums(sales, ctx).withColumn("amount", sf.col("amount") + named)


def _writes(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    Path(FOLDER, "a_mistake.txt").write_text("was here", encoding="utf-8")
    return _sums(sales, ctx)


def _starts(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    # Found by a computed name: by its own it is refused before anything is computed.
    getattr(subprocess, "_".join(["run"]))([PYTHON, "-c", "pass"], check=True)
    return _sums(sales, ctx)


def _table(function: Transform, *, days_back: int = 2, name: str = "") -> DerivedTable:
    declared = {"first as sale_id": "all sales of a day are equal, which is not true"}
    return derived_table(
        name=f"silver.{name or function.__name__.strip('_')}",
        inputs={"sales": sales},
        window=Window(days_back=days_back),
        key=("day", "shop"),
        partition=daily("day"),
        schema=RECENT_SALES,
        version="1.0.0",
        undetermined=declared if function is _first_read else {},
    )(function)


DOMAIN = Domain(
    name="mistakes",
    package="backfill_assets_tests.domains.mistakes",
    sources=(sales,),
    derived=(
        _table(_sums),
        _table(_sums, days_back=1, name="short_window"),
        *map(_table, (_random, _first_read, _of_the_call, _of_the_run, _writes, _starts)),
    ),
)
