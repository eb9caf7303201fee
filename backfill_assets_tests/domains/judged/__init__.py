"""A table of orders whose present release is right, and whose earlier ones each have exactly one defect.

A gate that is put on it finds the defect of its kind in one release, and passes all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, Gate, SourceTable, TransformContext, daily, derived_table, warm_up_proof
from backfill_assets.domain.domain import check_expressions
from backfill_assets.report.report import run_report
from backfill_assets.testing import DomainKit
from backfill_assets.testing.kit import QUICK_SPARK
from backfill_assets.transforms.statements import Sources
from backfill_assets.workspace import Workspace

FIRST, DAYS = date(2026, 1, 1), "2026-01-02..2026-01-04"
AMOUNT = DecimalType(12, 2)

orders = SourceTable(
    name="bronze.orders",
    key=("order_id",),
    event_time="ordered_at",
    partition=daily("ordered_on"),
    schema=StructType(
        [
            StructField("order_id", StringType(), nullable=False),
            StructField("ordered_at", TimestampType(), nullable=False),
            StructField("customer_id", StringType()),
            StructField("country", StringType(), nullable=False),
            StructField("state", StringType(), nullable=False),
            StructField("amount", AMOUNT, nullable=False),
        ]
    ),
)

customers = SourceTable(
    name="bronze.customers",
    key=("customer_id",),
    event_time="known_at",
    partition=daily("known_on"),
    schema=StructType(
        [
            StructField("customer_id", StringType(), nullable=False),
            StructField("known_at", TimestampType(), nullable=False),
        ]
    ),
)

_ORDER_TOTALS = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("order_id", StringType(), nullable=False),
        StructField("customer_id", StringType()),
        StructField("country", StringType(), nullable=False),
        StructField("amount", AMOUNT, nullable=False),
        StructField("number", LongType(), nullable=False),
    ]
)

_SECOND_OF_THE_THIRD = "day = DATE'2026-01-03' AND order_id = 'o-3-2'"
"""The row that every defect concerns."""


def _totals(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    number = sf.dayofmonth("ordered_on").cast("long")
    named = orders.where("state = 'ACTIVE'").withColumn("day", sf.col("ordered_on")).withColumn("number", number)
    return named.select(*_ORDER_TOTALS.fieldNames())


def _without(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    """One active order is lost."""
    return _totals(orders, ctx).where(f"NOT ({_SECOND_OF_THE_THIRD})")


def _with(name: str, value: str) -> Callable[[DataFrame, TransformContext], DataFrame]:
    """One row has another value."""

    def changed(orders: DataFrame, ctx: TransformContext) -> DataFrame:
        other = sf.expr(f"IF({_SECOND_OF_THE_THIRD}, {value}, {name})").cast(_ORDER_TOTALS[name].dataType)
        return _totals(orders, ctx).withColumn(name, other).select(*_ORDER_TOTALS.fieldNames())

    return changed


def _all_wrong(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    """One active order is lost, and the row of the other defects has several of them."""
    wrong = {"customer_id": "'nobody'", "amount": "amount + 1", "number": "0"}
    changed = {
        name: sf.expr(f"IF({_SECOND_OF_THE_THIRD}, {value}, {name})").cast(_ORDER_TOTALS[name].dataType)
        for name, value in wrong.items()
    }
    there = _totals(orders, ctx).where("order_id <> 'o-3-1'")
    return there.withColumns(changed).select(*_ORDER_TOTALS.fieldNames())


@derived_table(
    name="silver.order_totals",
    inputs={"orders": orders},
    key=("day", "order_id"),
    partition=daily("day"),
    schema=_ORDER_TOTALS,
    version="1.0.0",
    gates=(warm_up_proof(partitions=0),),
    earlier={
        "lost": _without,
        "orphan": _with("customer_id", "'nobody'"),
        "nobody": _with("customer_id", "NULL"),
        "dearer": _with("amount", "amount + 1"),
        "back": _with("number", "0"),
        "all": _all_wrong,
    },
)
def order_totals(orders: DataFrame, ctx: TransformContext) -> DataFrame:
    """The active orders of a day. Grain: one row per day and order."""
    return _totals(orders, ctx)


DEFECTS = ("lost", "orphan", "nobody", "dearer", "back")
"""The releases with one defect each, by which they are named."""

SECOND = {"day": "2026-01-03", "order_id": "o-3-2"}
"""The key of the row that every defect concerns."""

DOMAIN = Domain(name="judged", package=__name__, sources=(orders, customers), derived=(order_totals,))


def judged_by(*gates: Gate, **declared: Any) -> Domain:
    """The domain with gates on its table of orders.

    Args:
        declared: What else is declared of the domain, such as its references.
    """
    table = replace(order_totals, gates=(*gates, warm_up_proof(partitions=0)))
    return replace(DOMAIN, derived=(table,), **declared)


def stocked(home: Path) -> None:
    """Puts five days of orders into an empty home, three active ones and a cancelled one a day, and their customers."""
    kit = DomainKit.open(DOMAIN, home, first_day=FIRST)
    kit.land("orders", [an_order(day, number) for day in range(1, 6) for number in range(1, 5)])
    kit.land("customers", [a_customer(name) for name in ("c-1", "c-2", "c-3")])
    kit.declare_empty("customers", "2026-01-02..2026-01-04")
    kit.close()


def opened(domain: Domain, home: Path, settings: Mapping[str, str] | None = None) -> DomainKit:
    """A variant of the domain in a copy of a home with orders."""
    given = {
        **QUICK_SPARK,
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": domain.package,
        "BACKFILL_FIRST_DAY": FIRST.isoformat(),
        **(settings or {}),
    }
    Sources.of(domain)
    check_expressions(domain)
    return DomainKit(ws=Workspace(settings=Settings.from_environment(given), domain=domain), folder=home / "incoming")


def an_order(day: int, number: int, **values: object) -> Mapping[str, object]:
    """An order of a day in January; the fourth of each is cancelled."""
    return {
        "order_id": f"o-{day}-{number}",
        "ordered_at": f"2026-01-{day:02}T10:0{number}:00Z",
        "customer_id": f"c-{min(number, 3)}",
        "country": "IT" if number < 3 else "FR",
        "state": "ACTIVE" if number < 4 else "CANCELLED",
        "amount": f"{number}0.00",
        **values,
    }


def a_customer(name: str, day: int = 1) -> Mapping[str, object]:
    """A customer who is known since a day in January."""
    return {"customer_id": name, "known_at": f"2026-01-{day:02}T09:00:00Z"}


def failing_of(kit: DomainKit, *, version: str | None = None, days: str = DAYS) -> Sequence[tuple[Any, ...]]:
    """What the gates of a run find: by gate the partition, the key, what was expected and what was found."""
    run_id = kit.planned("order_totals", days, version=version)
    kit.stage(run_id)
    kit.gate(run_id)
    return rows_that_fail(kit, run_id)


def rows_that_fail(kit: DomainKit, run_id: str) -> Sequence[tuple[Any, ...]]:
    """The rows that a report names: by gate the partition, the key, what was expected and what was found."""
    report = run_report(kit.ws, run_id)
    return [(each.gate, str(each.partition), dict(each.key), each.expected, each.found) for each in report.failing_keys]
