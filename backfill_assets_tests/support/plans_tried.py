"""Plans that ask a clock and their look-alikes, tried in a session of this process or over Spark Connect.

`python -m backfill_assets_tests.support.plans_tried REMOTE` prints what was decided wrongly, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from backfill_assets.domain.errors import CodeBroken
from backfill_assets.transforms.spark_plan import require_determined_plan
from backfill_assets.transforms.undetermined import SPARK

Plans = Mapping[str, Callable[[], DataFrame]]

_WITH_ARGUMENTS: Mapping[str, Callable[[], Column]] = {
    "shuffle": lambda: F.shuffle(F.array("id", F.abs("id"))),
    "randstr": lambda: F.randstr(F.lit(3), 7),
    "uniform": lambda: F.uniform(F.lit(1), F.lit(9)),
    "reflect": lambda: F.reflect(F.lit("java.util.UUID"), F.lit("randomUUID")),
    "java_method": lambda: F.java_method(F.lit("java.util.UUID"), F.lit("randomUUID")),
    "try_reflect": lambda: F.try_reflect(F.lit("java.util.UUID"), F.lit("randomUUID")),
}
_IN_SQL_ALONE = {"random", "localtime", "getdate"}


def refused(session: SparkSession, rows: DataFrame) -> Plans:
    """Rows that have to be refused."""
    names = [name for name in SPARK if name not in _IN_SQL_ALONE and name not in _WITH_ARGUMENTS]
    columns: dict[str, Callable[[], Column]] = {
        name: getattr(F, name) for name in (*names, "unix_timestamp") if hasattr(F, name)
    }
    columns |= _WITH_ARGUMENTS
    columns["random"] = lambda: F.expr("random()")
    by_a_column = {name: (lambda made=made: rows.select("id", made().alias("v"))) for name, made in columns.items()}
    return {
        **by_a_column,
        "a word": lambda: rows.select(F.lit("now").cast("timestamp").alias("v")),
        "a sample": lambda: rows.sample(0.1, 1),
        "a filter": lambda: rows.filter("id < day(current_date)"),
        "a group": lambda: rows.groupBy((F.col("id") + F.unix_timestamp()).alias("k")).count(),
        "a column of many": lambda: rows.select(*[F.lit(i).alias(f"c{i}") for i in range(60)], F.now().alias("v")),
        "an order": lambda: rows.select(F.row_number().over(Window.partitionBy("id").orderBy(F.rand())).alias("k")),
        "a join": lambda: rows.join(rows.select(F.col("id").alias("b")), F.expr("id = b and now() > date'2020-01-01'")),
        "a query inside": lambda: session.sql(
            "select * from {rows} where id < (select day(max(current_date())) from {rows})", rows=rows
        ),
        "inside of an array": lambda: rows.select(F.transform("many", lambda x: x + F.rand()).alias("v")),
    }  # fmt: skip


def allowed(rows: DataFrame) -> Plans:
    """Rows that look like those that have to be refused."""

    def rand() -> int:
        return 1

    def now() -> int:
        return 1

    return {
        "a text": lambda: rows.select(F.lit("call now()").alias("v"), F.lit("current_date(Some(UTC))").alias("w")),
        "a type": lambda: rows.select(F.expr("typeof(id)").alias("v")),
        "names of columns": lambda: rows.select(F.col("id").alias("now()"), F.col("id").alias("rand")),
        "names of functions": lambda: rows.select(F.udf(rand, "int")().alias("v"), F.udf(now, "int")().alias("w")),
        "a hash": lambda: rows.select(F.hash("id").alias("v"), F.unix_timestamp(F.lit("2020-01-01 00:00:00"))),
        "a date": lambda: rows.select(F.to_date(F.lit("2020-01-01")).alias("v")),
    }


def _is_refused(rows: DataFrame) -> bool:
    try:
        require_determined_plan(rows, "a function")
    except CodeBroken:
        return True
    return False


def decided_wrongly(session: SparkSession) -> Iterator[str]:
    """The plans that are refused and should not be, or the other way round."""
    rows = session.range(5).withColumn("many", F.array(F.lit(1), F.lit(2)))
    yield from (f"{name} is not refused" for name, made in refused(session, rows).items() if not _is_refused(made()))
    yield from (f"{name} is refused" for name, made in allowed(rows).items() if _is_refused(made()))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list(decided_wrongly(SparkSession.builder.remote(sys.argv[1]).getOrCreate()))))
