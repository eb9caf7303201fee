"""Sums of floating-point numbers are named with their columns, files and lines, and sums of exact numbers are not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from backfill_assets.domain import Domain
from backfill_assets.transforms.code import DomainCode
from backfill_assets.transforms.ties import AddedDoubles, added_doubles
from backfill_assets_tests.unit.transforms.test_determined import NAME, SALES, shop, write

__all__ = ["shop"]

PRICED = SALES.replace("LongType, StringType", "DecimalType, DoubleType, LongType, StringType").replace(
    'StructField("sold_at"',
    'StructField("price", DoubleType()), StructField("fee", DecimalType(18, 2)), StructField("pieces", LongType()), '
    'StructField("sold_at"',
)

ADDED = {
    "sum": ("sales.agg(F.sum('price'))  # here", "sum", ("price",)),
    "a product": ("sales.agg(F.sum(F.col('price') * F.col('pieces')))  # here", "sum", ("price",)),
    "avg": ("sales.agg(F.avg(sales.price))  # here", "avg", ("price",)),
    "a method": ("sales.groupBy('sale_id').sum('price', 'fee')  # here", "sum", ("price",)),
    "by name": ("sales.agg({'price': 'sum', 'fee': 'sum'})  # here", "sum", ("price",)),
    "in a text": ("sales.selectExpr('sum(price) as s', 'sum(fee)')  # here", "sum", ("price",)),
    "a query": ("ctx.spark.sql('select avg(price + 1) from {sales}', sales=sales)  # here", "avg", ("price",)),
    "of a window": ("F.sum('price').over(ctx.w)  # here", "sum", ("price",)),
    "multiplied": ("sales.agg(F.product('price'))  # here", "product", ("price",)),
    "a deviation of whole numbers": ("sales.agg(F.stddev('pieces'))  # here", "stddev", ("pieces",)),
}
EXACT = {
    "of decimals": "sales.agg(F.sum('fee'), F.avg('fee'))",
    "of whole numbers": "sales.agg(F.sum('pieces'))",
    "cast": "sales.agg(F.sum(F.col('price').cast('decimal(18,6)')))",
    "rounded down to whole numbers": "sales.agg(F.sum(F.floor('price')), F.expr('sum(floor(price))'))",
    "cast in a text": "sales.selectExpr('sum(cast(price as decimal(18,6)))')",
    "of Python": "sum([1, 2])",
    "no sum": "sales.agg(F.max('price'), F.count('price'))",
}


def found(shop: Path, body: str) -> list[tuple[str, tuple[str, ...], str, int]]:
    write(shop, body)
    (shop / "sales.py").write_text(PRICED, encoding="utf-8")
    for module in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[module]
    importlib.invalidate_caches()
    domain: Domain = importlib.import_module(NAME).DOMAIN
    inexact = DomainCode(domain=domain).require_determined(domain.table("days"), "1.0.0")
    return [(each.function, each.columns, each.file, each.line) for each in inexact]


@pytest.mark.parametrize("form", ADDED)
def test_a_sum_of_floating_point_numbers_is_named_with_its_line(shop: Path, form: str) -> None:
    body, function, columns = ADDED[form]
    inexact = found(shop, body)
    lines = (shop / "days.py").read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(lines, start=1) if "# here" in text)
    assert inexact == [(function, columns, f"{NAME}/days.py", line)]


@pytest.mark.parametrize("form", EXACT)
def test_a_sum_of_exact_numbers_is_not_named(shop: Path, form: str) -> None:
    assert found(shop, EXACT[form]) == []


def test_spark_s_plan_shows_sums_of_whole_numbers_that_were_made_of_others() -> None:
    plan = "Aggregate [n#1], [n#1, sum({}) AS v#9L]\n+- LogicalRDD [n#1, price#3], false"
    schema = StructType([StructField("n", LongType()), StructField("w", LongType())])
    assert added_doubles(plan.format("FLOOR(price#3)"), schema, ["price"]) == ()
    assert added_doubles(plan.format("SQRT(price#3)"), schema, ["price"]) == (AddedDoubles("sum", "v"),)
