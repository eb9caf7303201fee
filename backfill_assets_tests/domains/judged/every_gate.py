"""Every kind of gate on rows that fail, as queries, as functions and with Python in Spark's workers, and `usual`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.domain import (
    Gate,
    GateContext,
    Reference,
    Window,
    complete,
    control_totals,
    days,
    failing,
    golden,
    joins_once,
    known_rows,
    monotonic,
    reads,
    reconciles,
    references,
    rows,
    totals,
    usual,
)
from backfill_assets_tests.domains.judged import customers

ACTIVE = "state = 'ACTIVE'"

AS_ORDERED = """
    SELECT t.day, t.order_id, o.amount AS expected, t.amount AS found
    FROM candidate AS t JOIN orders AS o ON o.order_id = t.order_id
    WHERE t.amount <> o.amount
"""


@failing(demands="no row is removed, and none is added")
def none_moved(candidate: DataFrame, accepted: DataFrame) -> DataFrame:
    """Both sides are joined, so that columns of the same names meet."""
    both = candidate.join(accepted, ["day", "order_id"], "full_outer")
    moved = both.where(candidate["amount"].isNull() | accepted["amount"].isNull())
    return moved.select("day", "order_id", accepted["amount"].alias("expected"), candidate["amount"].alias("found"))


@failing(around=Window(days_back=1))
def never_falls(candidate: DataFrame, around: DataFrame) -> DataFrame:
    """The number never falls from one day to the next."""
    highest = around.agg(sf.max("number").alias("expected"))
    return candidate.crossJoin(highest).where("number < expected").withColumn("found", sf.col("number"))


@failing(references=("known_rows",))
def in_context(candidate: DataFrame, ctx: GateContext) -> DataFrame:
    """Every day has rows, and none is younger than the known rows."""
    asked = ctx.frame([(day,) for day in ctx.output_partitions], f"{ctx.partition} date")
    known = ctx.references["known_rows"].version
    return asked.join(candidate, ctx.partition, "left_anti").withColumn("expected", sf.lit(known))


def is_a_name(text: str | None) -> bool:
    return text is None or text.startswith("c-")


@failing(demands="a customer has a name of the form c-1")
def names_in_python(candidate: DataFrame) -> DataFrame:
    named = sf.udf(is_a_name, "boolean", useArrow=False)
    return candidate.where(~named("customer_id")).withColumn("found", sf.col("customer_id"))


def active_orders(orders: DataFrame) -> DataFrame:
    return orders.where(ACTIVE).withColumnRenamed("ordered_on", "day")


EVERY_GATE: tuple[Gate, ...] = (
    failing("as_ordered", sql=AS_ORDERED),
    failing(
        "known_customer",
        sql="SELECT * FROM candidate LEFT ANTI JOIN known USING (customer_id)",
        reads={"known": reads(customers, days_back=3)},
        optional=("known",),
    ),
    none_moved,
    never_falls,
    in_context,
    names_in_python,
    complete(of="orders", key="order_id", where=ACTIVE),
    complete(of=active_orders, key="order_id"),
    references("customer_id", to=reads(customers, days_back=3), nulls=False, optional=True),
    references("customer_id", to=customers, name="known_on_the_day"),
    reconciles("amount", of="orders", by=("country",), where=ACTIVE),
    joins_once("orders", on={"day": "ordered_on", "customer_id": "customer_id"}, where=ACTIVE),
    golden("known_rows"),
    monotonic("number", by="country"),
    totals("control_totals", by=("country",), sums=("amount",)),
    usual(rows(), against=days(7), same=None, fewest=4),
)

REFERENCES = (
    Reference(name="known_rows", parse=known_rows),
    Reference(name="control_totals", parse=control_totals),
)

DOCUMENTS: Mapping[str, str] = {
    "known_rows": """
version: "2026-01"
rows:
  - {day: 2026-01-03, order_id: o-3-2, customer_id: c-2, amount: "20.00", number: 3}
""",
    "control_totals": """
version: "2026-01"
totals:
  - {day: 2026-01-03, country: IT, rows: 2, amount: 30}
  - {day: 2026-01-03, country: FR, rows: 1, amount: 30}
  - {day: 2026-01-04, country: IT, rows: 2, amount: 30}
  - {day: 2026-01-04, country: FR, rows: 1, amount: 30}
""",
}
"""What each reference says, by its name."""
