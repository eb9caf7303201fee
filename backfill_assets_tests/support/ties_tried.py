"""Rows that depend on which of equal rows Spark takes first, each with a twin that does not: in the ways to write it.

`python -m backfill_assets_tests.support.ties_tried REMOTE` prints what was decided wrongly over Spark Connect, as JSON.
"""

# ruff: noqa: E501 - a line of a table is a case.
from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from backfill_assets.domain.context import frame_of
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.transforms.spark_plan import require_determined_plan, with_key

Form = Callable[[DataFrame, DataFrame], DataFrame]
"""Makes rows of sales, one for each `sale_id`, and of shops, one for each `shop`."""

SALES = "sale_id int, shop string, amount int, price double, note string, many array<int>"
SHOPS = "shop string, town string, open boolean"
KEYS = {"input sales": ("sale_id",), "input shops": ("shop",)}


def by_shop() -> WindowSpec:
    return Window.partitionBy("shop")


def by_amount() -> WindowSpec:
    return by_shop().orderBy("amount")


def by_all() -> WindowSpec:
    return by_shop().orderBy("amount", "sale_id")


def sales_of(session: SparkSession, rows: Iterable[tuple[Any, ...]] = ((1, "a", 2, 0.5, "x", [1]),)) -> DataFrame:
    return with_key(session.createDataFrame(list(rows), SALES), "sales")


def shops_of(session: SparkSession, rows: Iterable[tuple[Any, ...]] = (("a", "Rome", True),)) -> DataFrame:
    return with_key(session.createDataFrame(list(rows), SHOPS), "shops")


def _agg(made: Callable[[], Column]) -> Form:
    return lambda sales, _: sales.groupBy("shop").agg(made().alias("v"))


def _over(made: Callable[[], Column]) -> Form:
    return lambda sales, _: sales.select("sale_id", made().alias("v"))


def _sql(text: str) -> Form:
    return lambda sales, shops: sales.sparkSession.sql(text, sales=sales, shops=shops)


REFUSED: Mapping[str, tuple[str, Form]] = {
    "first": ("first as v", _agg(lambda: F.first("note"))),
    "first of sorted rows": (
        "first as v", lambda sales, _: sales.orderBy("sale_id").groupBy("shop").agg(F.first("note").alias("v"))
    ),
    "first, not null": ("first as v", _agg(lambda: F.first("note", ignorenulls=True))),
    "first, of a filter": ("first as v", _agg(lambda: F.expr("first(note) FILTER (WHERE amount > 1)"))),
    "first of all": ("first as v", lambda sales, _: sales.agg(F.first("note").alias("v"))),
    "last": ("last as v", _agg(lambda: F.last("note"))),
    "last in a text": ("last as v", _agg(lambda: F.expr("upper(last(note))"))),
    "any_value": ("any_value as v", _agg(lambda: F.any_value("note"))),
    "first_value": ("first_value as v", _agg(lambda: F.first_value("note"))),
    "last_value": ("last_value as v", _agg(lambda: F.last_value("note"))),
    "collect_list": ("collect_list as v", _agg(lambda: F.collect_list("note"))),
    "collect_list, its first": ("collect_list as v", _agg(lambda: F.collect_list("note")[0])),
    "collect_list, joined": ("collect_list as v", _agg(lambda: F.array_join(F.collect_list("note"), ","))),
    "collect_list, joined later": (
        "collect_list as notes",
        lambda sales, _: sales.groupBy("shop")
        .agg(F.collect_list("note").alias("notes"))
        .select("shop", F.concat_ws(",", "notes").alias("v")),
    ),
    "collect_list, sorted by some of it": (
        "collect_list as v",
        _agg(lambda: F.array_sort(F.collect_list(F.struct("amount", "note")), lambda x, y: x["amount"] - y["amount"])),
    ),
    "collect_list in SQL": ("collect_list as v", _sql("select shop, array_agg(note) as v from {sales} group by shop")),
    "collect_list, its places": (
        "collect_list as notes",
        lambda sales, _: sales.groupBy("shop").agg(F.collect_list("note").alias("notes")).select(
            "shop", F.posexplode("notes")
        ),
    ),
    "collect_list, filtered by places and counted": (
        "collect_list as v",
        _agg(lambda: F.size(F.filter(F.collect_list("note"), lambda x, n: (n < 1) & (x == "x")))),
    ),
    "collect_set": ("collect_set as v", _agg(lambda: F.collect_set("note"))),
    "array_agg": ("collect_list as v", _agg(lambda: F.array_agg("note"))),
    "listagg": ("listagg as v", _agg(lambda: F.listagg("note", F.lit(", (")))),
    "listagg, ordered by another": (
        "listagg as v", _sql("select shop, listagg(note, ', ') within group (order by amount) v from {sales} group by shop")
    ),
    "string_agg": ("string_agg as v", _agg(lambda: F.string_agg("note"))),
    "max_by": ("max_by as v", _agg(lambda: F.max_by("note", "amount"))),
    "min_by in a text": ("min_by as v", _agg(lambda: F.expr("min_by(note, amount)"))),
    "mode": ("mode as v", _agg(lambda: F.mode("note"))),
    "percentile_approx": ("percentile_approx as v", _agg(lambda: F.percentile_approx("amount", 0.5))),
    "histogram_numeric": ("histogram_numeric as v", _agg(lambda: F.histogram_numeric("amount", F.lit(2)))),
    "hll_sketch_agg": ("hll_sketch_agg as v", _agg(lambda: F.hll_sketch_agg("note"))),
    "row_number": ("row_number as v", _over(lambda: F.row_number().over(by_amount()))),
    "row_number in SQL": (
        "row_number as v", _sql("select sale_id, row_number() over (partition by shop order by amount) v from {sales}")
    ),
    "row_number, qualified": (
        "row_number as row_number()",
        _sql("select * from {sales} qualify row_number() over (partition by shop order by amount) = 1"),
    ),
    "row_number, of a query with a name": (
        "row_number as n",
        _sql(
            "with numbered as (select *, row_number() over (partition by shop order by amount) n from {sales}), "
            "firsts as (select * from numbered where n = 1) select shop, note from firsts"
        ),
    ),
    "row_number, by a part of a key": (
        "row_number as v", _over(lambda: F.row_number().over(by_shop().orderBy(F.expr("sale_id % 2"))))
    ),
    "row_number by the key of one side of a join, of which there are several rows": (
        "row_number as v",
        lambda sales, shops: sales.join(shops, "shop").select(
            "sale_id", F.row_number().over(Window.partitionBy("open").orderBy("shop")).alias("v")
        ),
    ),
    "row_number by the key of one side of a join by a range": (
        "row_number as v",
        lambda sales, shops: sales.alias("s")
        .join(shops.alias("t"), F.expr("s.note > t.town"))
        .select("t.town", F.row_number().over(Window.orderBy("sale_id")).alias("v")),
    ),
    "row_number by a key that is null where a join has no row": (
        "row_number as v",
        lambda sales, shops: shops.join(sales, "shop", "left").select(
            "shop", F.row_number().over(Window.orderBy("sale_id")).alias("v")
        ),
    ),
    "row_number by the key of a table that is joined with itself": (
        "row_number as v",
        lambda sales, _: sales.alias("a")
        .join(sales.alias("b"), F.expr("a.shop = b.shop"))
        .select("b.note", F.row_number().over(Window.orderBy("a.sale_id")).alias("v")),
    ),
    "row_number by a key of a union": (
        "row_number as v",
        lambda sales, _: sales.select("sale_id", "note")
        .union(sales.select("sale_id", "shop"))
        .withColumn("v", F.row_number().over(Window.orderBy("sale_id"))),
    ),
    "row_number by both keys of a union, which rows of both sides may share": (
        "row_number as v",
        lambda sales, _: sales.select("sale_id", F.col("sale_id").alias("other"), "note")
        .union(sales.select("amount", "sale_id", "note"))
        .withColumn("v", F.row_number().over(Window.orderBy("sale_id", "other"))),
    ),
    "row_number by a key, after a join with every day": (
        "row_number as v",
        lambda sales, _: sales.select("sale_id", "shop")
        .crossJoin(frame_of(sales.sparkSession, [(1,), (2,)], "day int"))
        .withColumn("v", F.row_number().over(by_shop().orderBy("sale_id"))),
    ),
    "row_number by a key, after a join with several rules of a shop": (
        "row_number as v",
        lambda sales, _: sales.join(
            frame_of(sales.sparkSession, [("a", 1, 9), ("a", 2, 9), ("b", 1, 9)], "shop string, of int, fee int"), "shop"
        ).select("of", F.row_number().over(by_shop().orderBy("sale_id")).alias("v")),
    ),
    "row_number of days, by the day that is joined as at most it": (
        "row_number as v",
        lambda sales, _: frame_of(sales.sparkSession, [(1,), (2,), (3,)], "day int")
        .join(sales, F.expr("amount <= day"))
        .withColumn("v", F.row_number().over(Window.partitionBy("sale_id").orderBy("amount"))),
    ),
    "first of what is at most something": (
        "first as v", lambda sales, _: sales.where("amount <= 5").groupBy("shop").agg(F.first("amount").alias("v"))
    ),
    "row_number of a full join by a column and one more than the other": (
        "row_number as v",
        lambda sales, _: sales.alias("a")
        .join(sales.alias("b"), F.expr("a.sale_id = b.sale_id + 1"), "full")
        .select("a.note", F.row_number().over(Window.orderBy(F.coalesce("a.sale_id", "b.sale_id"))).alias("v")),
    ),
    "a list of which one is taken in a sorted one": (
        "collect_list as notes",
        lambda sales, _: sales.groupBy("shop")
        .agg(F.collect_list("note").alias("notes"))
        .select(F.sort_array(F.when(F.col("notes")[0] == "x", F.array(F.lit(1)))).alias("v")),
    ),
    "row_number by a key of exploded rows": (
        "row_number as v",
        lambda sales, _: sales.select("sale_id", F.explode("many").alias("one")).withColumn(
            "v", F.row_number().over(Window.orderBy("sale_id"))
        ),
    ),
    "ntile": ("ntile as v", _over(lambda: F.ntile(2).over(by_amount()))),
    "lag": ("lag as v", _over(lambda: F.lag("note").over(by_amount()))),
    "lead": ("lead as v", _over(lambda: F.lead("amount").over(by_amount()))),
    "first over a window": ("first as v", _over(lambda: F.first("note").over(by_amount()))),
    "last over a window": ("last as v", _over(lambda: F.last("note", ignorenulls=True).over(by_amount()))),
    "nth_value": ("nth_value as v", _over(lambda: F.nth_value("note", 2).over(by_amount()))),
    "first over all rows": ("first as v", _over(lambda: F.first("note").over(by_shop()))),
    "collect_list over a window": ("collect_list as v", _over(lambda: F.collect_list("note").over(by_amount()))),
    "a sum of rows before": ("sum as v", _over(lambda: F.sum("amount").over(by_shop().orderBy("note").rowsBetween(-1, 0)))),
    "dropDuplicates": ("dropDuplicates of shop", lambda sales, _: sales.dropDuplicates(["shop"])),
    "drop_duplicates": ("dropDuplicates of shop", lambda sales, _: sales.drop_duplicates(["shop"]).select("shop", "note")),
    "limit": ("limit 2", lambda sales, _: sales.limit(2)),
    "limit after an order": ("limit 2", lambda sales, _: sales.orderBy("amount").limit(2)),
    "limit in SQL": ("limit 2", _sql("select * from {sales} order by amount limit 2")),
    "limit after sorted parts": ("limit 2", lambda sales, _: sales.sortWithinPartitions("sale_id").limit(2)),
    "offset": ("offset 1", lambda sales, _: sales.orderBy("amount").offset(1)),
    "a limit inside": (
        "limit 1", _sql("select sale_id, (select town from {shops} order by open limit 1) as v from {sales}")
    ),
    "zipWithIndex": ("zipWithIndex as index", lambda sales, _: sales.zipWithIndex()),
}  # fmt: skip

ALLOWED: Mapping[str, Form] = {
    "first of the group": _agg(lambda: F.first("shop")),
    "first of one row": lambda sales, _: sales.groupBy("sale_id").agg(F.first("note").alias("v")),
    "first of what follows from the group": lambda sales, shops: sales.join(shops, "shop", "left")
    .groupBy("shop")
    .agg(F.first("town").alias("v")),
    "first that nobody reads": lambda sales, _: sales.groupBy("shop").agg(F.first("note"), F.count("*").alias("v")).select("shop", "v"),
    "max_by by a key": _agg(lambda: F.max_by("note", F.struct("amount", "sale_id"))),
    "max_by by an array with a key": _agg(lambda: F.max_by("note", F.array("amount", "sale_id"))),
    "max_by of what it orders by": _agg(lambda: F.max_by("amount", "amount")),
    "min_by with the value": _agg(lambda: F.expr("min_by(note, struct(amount, note))")),
    "sorted list": _agg(lambda: F.sort_array(F.collect_list("note"))),
    "sorted list, joined": _agg(lambda: F.array_join(F.array_sort(F.collect_set("note")), ",")),
    "list sorted later": lambda sales, _: sales.groupBy("shop")
    .agg(F.collect_list(F.struct("amount", "note")).alias("notes"))
    .withColumn("n", F.size("notes"))
    .select("shop", "n", F.sort_array("notes").alias("v")),
    "list of mapped elements, sorted": _agg(lambda: F.sort_array(F.transform(F.collect_list("amount"), lambda x: x + 1))),
    "list of fields, sorted": _agg(
        lambda: F.sort_array(F.transform(F.collect_list(F.struct("note", "amount")), lambda x: x["note"]))
    ),
    "list of mapped elements, sorted later": lambda sales, _: sales.groupBy("shop")
    .agg(F.transform(F.collect_list("amount"), lambda x: x + 1).alias("made"))
    .select("shop", F.array_contains("made", 2).alias("v")),
    "list exploded": lambda sales, _: sales.groupBy("shop")
    .agg(F.collect_list("note").alias("notes"))
    .select("shop", F.explode("notes").alias("v")),
    "sorted list in SQL": _sql("select shop, sort_array(array_agg(note)) as v from {sales} group by shop"),
    "listagg in its own order": _sql(
        "select shop, listagg(note, ', ') within group (order by note) v from {sales} group by shop"
    ),
    "mode, determined": _agg(lambda: F.mode("note", True)),
    "counts": lambda sales, _: sales.groupBy("shop").agg(
        F.count_distinct("note"), F.approx_count_distinct("note"), F.median("amount"), F.sum("amount"), F.max("note")
    ),
    "percentile": _agg(lambda: F.expr("percentile(amount, 0.5)")),
    "row_number by a key": _over(lambda: F.row_number().over(by_all())),
    "row_number by the key alone": _over(lambda: F.row_number().over(Window.orderBy(F.desc("sale_id")))),
    "row_number by a key in a struct": _over(lambda: F.row_number().over(by_shop().orderBy(F.struct("amount", "sale_id")))),
    "row_number by another name of the key": lambda sales, _: sales.withColumnRenamed("sale_id", "sale")
    .withColumn("number", F.col("sale"))
    .select("sale", F.row_number().over(Window.orderBy("number")).alias("v")),
    "row_number in SQL by a key": _sql(
        "select sale_id, row_number() over (partition by shop order by amount, sale_id) v from {sales}"
    ),
    "row_number of groups": lambda sales, _: sales.groupBy("shop", "note")
    .agg(F.sum("amount").alias("a"))
    .withColumn("v", F.row_number().over(by_shop().orderBy(F.desc("a"), "note"))),
    "row_number of groups by an expression": lambda sales, _: sales.groupBy(F.upper("shop").alias("shop"))
    .agg(F.sum("amount").alias("a"))
    .withColumn("v", F.row_number().over(Window.orderBy("a", "shop"))),
    "row_number after a join": lambda sales, shops: sales.join(shops, "shop", "left").select(
        "sale_id", "town", F.row_number().over(Window.partitionBy("town").orderBy("sale_id")).alias("v")
    ),
    "row_number after a join, of both keys": lambda sales, shops: sales.alias("s")
    .join(shops.alias("t"), F.expr("s.amount > 1"))
    .select("s.sale_id", "t.town", F.row_number().over(Window.orderBy("s.sale_id", "t.shop")).alias("v")),
    "row_number after a join by an expression of known rows": lambda sales, _: sales.join(
        sales.sparkSession.createDataFrame([(1, 2), (3, 4)], "first int, last int"), F.expr("amount between first and last")
    ).select("sale_id", F.row_number().over(Window.orderBy("sale_id")).alias("v")),
    "row_number after a join with groups": lambda sales, _: sales.join(
        sales.groupBy("shop").agg(F.sum("amount").alias("all")), "shop"
    ).select("sale_id", "all", F.row_number().over(Window.orderBy("all", "sale_id")).alias("v")),
    "row_number of exploded rows by what they hold": lambda sales, _: sales.select(
        "sale_id", F.explode("many").alias("one")
    ).withColumn("v", F.row_number().over(Window.orderBy("sale_id", "one"))),
    "row_number after a full join": lambda sales, shops: sales.groupBy("shop")
    .count()
    .join(shops, "shop", "full")
    .withColumn("v", F.row_number().over(Window.orderBy("shop"))),
    "row_number of two tables": lambda sales, _: sales.select("sale_id", "note", F.lit("a").alias("of"))
    .union(sales.select("sale_id", F.lit("again"), F.lit("b")))
    .withColumn("v", F.row_number().over(Window.orderBy("sale_id", "of"))),
    "row_number of two tables with the columns that both have": lambda sales, shops: sales.select("sale_id", "note")
    .unionByName(shops.select("shop", "town"), allowMissingColumns=True)
    .withColumn("v", F.row_number().over(Window.orderBy("sale_id", "shop"))),
    "row_number of two parts of a table": lambda sales, _: sales.where("amount = 0")
    .union(sales.where("amount = 1"))
    .withColumn("v", F.row_number().over(Window.orderBy("amount", "sale_id"))),
    "row_number by a key and a day, after a join with every day": lambda sales, _: sales.select("sale_id", "shop")
    .crossJoin(frame_of(sales.sparkSession, [(1,), (2,)], "day int"))
    .withColumn("v", F.row_number().over(by_shop().orderBy("sale_id", "day"))),
    "row_number by a key, after a join with one row": lambda sales, _: sales.crossJoin(
        frame_of(sales.sparkSession, [(1, 2)], "least int, most int")
    ).select("sale_id", "most", F.row_number().over(Window.orderBy("sale_id")).alias("v")),
    "row_number by a key, after a join with rules by their key": lambda sales, _: sales.join(
        frame_of(sales.sparkSession, [("a", 1, 7), ("a", 2, 9), ("b", 1, 8)], "shop string, amount int, fee int"),
        ["shop", "amount"],
        "left",
    ).select("sale_id", "fee", F.row_number().over(Window.orderBy("sale_id")).alias("v")),
    "row_number by a key, after a join with the open days by their number": lambda sales, _: sales.join(
        frame_of(sales.sparkSession, [(1, 1, True), (2, 1, False), (3, 2, True)], "day int, amount int, open boolean")
        .where("open")
        .select("amount", "day"),
        "amount",
        "left",
    ).select("sale_id", "day", F.row_number().over(Window.orderBy("sale_id")).alias("v")),
    "max_by of a day in a long calendar": lambda sales, _: sales.join(
        frame_of(sales.sparkSession, [(n, n % 7) for n in range(6_000)], "sale_id int, day int"), "sale_id"
    ).groupBy("shop").agg(F.max_by("day", "sale_id")),
    "row_number of the newest rule": lambda sales, _: sales.join(
        frame_of(sales.sparkSession, [("a", 0, 9), ("a", 2, 8), ("b", 0, 9)], "shop string, since int, fee int"), "shop"
    )
    .where("since <= amount")
    .withColumn("v", F.row_number().over(Window.partitionBy("sale_id").orderBy(F.desc("since")))),
    "row_number by a key, after a join with the one before": lambda sales, _: sales.alias("a")
    .join(sales.alias("b"), F.expr("a.sale_id = b.sale_id + 1"), "left")
    .select("a.sale_id", "b.note", F.row_number().over(Window.orderBy("a.sale_id")).alias("v")),
    "row_number of the entries of a map": lambda sales, _: sales.select(
        "sale_id", F.explode(F.create_map(F.lit("x"), "amount", F.lit("y"), "sale_id")).alias("k", "held")
    ).withColumn("v", F.row_number().over(Window.orderBy("sale_id", "k"))),
    "row_number of stacked columns": lambda sales, _: sales.selectExpr(
        "sale_id", "stack(2, 'amount', amount, 'twice', amount * 2) as (what, much)"
    ).withColumn("v", F.row_number().over(Window.orderBy("sale_id", "what"))),
    "lists together, sorted": _agg(
        lambda: F.sort_array(F.concat(F.coalesce(F.collect_list("note"), F.array()), F.array_union(F.collect_set("note"), F.array(F.lit("z")))))
    ),
    "row_number of columns by rows": lambda sales, _: sales.unpivot(["sale_id"], ["amount", "price"], "what", "much").withColumn(
        "v", F.row_number().over(Window.orderBy("sale_id", "what"))
    ),
    "row_number of elements": lambda sales, _: sales.select("sale_id", F.posexplode("many")).withColumn(
        "v", F.row_number().over(Window.orderBy("sale_id", "pos"))
    ),
    "row_number of equal rows": lambda sales, _: sales.select("shop", "amount").withColumn(
        "v", F.row_number().over(by_amount())
    ),
    "row_number of the newest, chosen again": lambda sales, _: sales.withColumn("n", F.row_number().over(by_all()))
    .where("n = 1")
    .drop("n")
    .withColumn("v", F.row_number().over(Window.orderBy("shop"))),
    "row_number of the largest": lambda sales, _: sales.withColumn("most", F.max("amount").over(by_shop()))
    .where("amount = most")
    .withColumn("v", F.row_number().over(Window.orderBy("shop", "sale_id"))),
    "ranks": _over(lambda: F.rank().over(by_amount()) + F.dense_rank().over(by_amount())),
    "lag by a key": _over(lambda: F.lag("note").over(by_all())),
    "first over a window by a key": _over(lambda: F.first("note").over(by_all())),
    "first of what it orders by": _over(lambda: F.first("amount").over(by_amount())),
    "a sum so far": _over(lambda: F.sum("amount").over(by_amount())),
    "a sum of all": _over(lambda: F.sum("amount").over(by_shop())),
    "a sum of rows before, by a key": _over(lambda: F.sum("amount").over(by_all().rowsBetween(-1, 0))),
    "distinct": lambda sales, _: sales.select("shop", "note").distinct(),
    "dropDuplicates of all": lambda sales, _: sales.dropDuplicates(),
    "dropDuplicates of a key": lambda sales, _: sales.dropDuplicates(["sale_id"]),
    "dropDuplicates of what is read": lambda sales, _: sales.dropDuplicates(["shop"]).select("shop"),
    "limit after an order by a key": lambda sales, _: sales.orderBy("amount", "sale_id").limit(2).select("note"),
    "limit of groups": _sql("select shop, count(*) n from {sales} group by shop order by n desc, shop limit 2"),
    "limit of one row": lambda sales, _: sales.agg(F.sum("amount")).limit(1),
    "an order alone": lambda sales, _: sales.orderBy("amount"),
    "a query inside": _sql(
        "select sale_id, (select max(town) from {shops} t where t.shop = s.shop) v from {sales} s "
        "where exists (select 1 from {shops} t where t.shop = s.shop)"
    ),
    "a name": lambda sales, _: sales.groupBy("shop").agg(F.count("*").alias("collect_list(note)")),
    "a text": lambda sales, _: sales.select(F.lit("first(note, false)").alias("v"), F.lit("a, (b").alias("w"), "note"),
    "texts with brackets": lambda sales, _: sales.select(
        "sale_id", F.concat("note", F.lit(" (")).alias("w"), F.row_number().over(Window.orderBy("sale_id")).alias("v")
    ),
    "a udf of one row": lambda sales, _: sales.select(F.udf(lambda each: each, "string")("note").alias("v")),
}  # fmt: skip


class _Last:
    note: Any = None

    def eval(self, row: Any) -> None:
        self.note = row["note"]

    def terminate(self) -> Iterator[tuple[Any]]:
        yield (self.note,)


def _batched(sales: DataFrame) -> Iterator[tuple[str, DataFrame]]:
    def twice(amount: pd.Series) -> pd.Series:
        return amount * 2

    def rows_of(batches: Any) -> Any:
        return batches

    functions: Any = F
    yield "mapInPandas with rows_of", sales.mapInPandas(rows_of, SALES)
    yield "mapInArrow with rows_of", sales.mapInArrow(rows_of, SALES)
    yield "applyInPandas with rows_of", sales.groupBy("shop").applyInPandas(rows_of, SALES)
    yield "pandas_udf with twice", sales.select(functions.pandas_udf(twice, "int")("amount").alias("v"))
    sales.sparkSession.udtf.register("last_of", functions.udtf(_Last, returnType="note string"))
    last_of = "select * from last_of(table(select * from {sales}) partition by shop)"
    yield "udtf with last_of", sales.sparkSession.sql(last_of, sales=sales)


def _refusal(rows: DataFrame) -> str:
    try:
        require_determined_plan(rows, "a function", keys=KEYS)
    except CodeBroken as error:
        return error.message
    return ""


def decided_wrongly(session: SparkSession) -> Iterator[str]:
    """What is refused and should not be, or the other way round, or under another name."""
    sales, shops = sales_of(session), shops_of(session)
    tried = {name: (what, form(sales, shops)) for name, (what, form) in REFUSED.items()}
    tried |= {what: (what, rows) for what, rows in _batched(sales)}
    for name, (what, rows) in tried.items():
        if f"describes rows by {what}" not in (found := _refusal(rows)):
            yield f"{name} is not refused as {what}: {found}"
    for name, form in ALLOWED.items():
        if found := _refusal(form(sales, shops)):
            yield f"{name} is refused: {found}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list(decided_wrongly(SparkSession.builder.remote(sys.argv[1]).getOrCreate()))))
