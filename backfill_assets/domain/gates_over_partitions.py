"""Gates over partitions: whether a value of a key goes on from one partition to the next. It is a `Failing` of this
project; a change of what it finds is a new release of it, which manifests pin."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import Window as Ordered
from pyspark.sql import functions as F

from backfill_assets.core.columns import in_sql
from backfill_assets.core.declaring import declared
from backfill_assets.domain.context import GateContext
from backfill_assets.domain.failing_rows import AROUND, CANDIDATE, CONTEXT, EXPECTED, FOUND, Failing, Needs, Over
from backfill_assets.domain.gates import each_once, name_for
from backfill_assets.planning.windows import AnyWindow, Window

A_DAY = Window(days_back=1, days_ahead=1)


@declared
def monotonic(
    column: str,
    *,
    over: str = "",
    by: str | tuple[str, ...] = (),
    around: AnyWindow = A_DAY,
    blocking: bool = True,
    name: str = "",
) -> Failing:
    """The value of a key never falls from one partition to the next, as that of a running total.

    The rows of the run are compared with each other and, at its ends, with the accepted rows around it. Nulls are
    passed over.

    Args:
        column: The column.
        over: A column that orders the rows of a key within a partition; by default, or for the partition itself, the
            key of the table does.
        by: What tells a key; by default the key of the table without the partition and `over`.
        around: How far around the run the row of a key before it and after it is looked for: `Window(...)`, or
            `Months(...)` for a monthly table. Partitions that are not accepted are passed over.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `monotonic_` and the column.
    """

    columns = (by,) if isinstance(by, str) else each_once("monotonic", by)

    def rows(ctx: GateContext, candidate: DataFrame, around: DataFrame) -> DataFrame:
        within = [over] if over and over != ctx.partition else []
        named = list(dict.fromkeys((ctx.partition, *within, *ctx.key, *columns)))
        of_key = columns or tuple(name for name in named if name not in (ctx.partition, *within))
        shown, value = [F.col(in_sql(name)) for name in named], F.col(in_sql(column))
        there = [
            side.where(value.isNotNull()).select(*shown, value.alias("_value"), F.lit(is_new).alias("_new"))
            for side, is_new in ((candidate, True), (around, False))
        ]
        # By the whole key, and of rows that share one by the value: equal rows alone have the same place.
        in_order = [each for name, each in zip(named, shown, strict=True) if name not in of_key]
        series = Ordered.partitionBy(*(F.col(in_sql(name)) for name in of_key)).orderBy(*in_order, "_value")
        beside = (
            there[0]
            .unionByName(there[1])
            .withColumns(
                {
                    "_before": F.lag("_value").over(series),
                    "_after": F.lead("_value").over(series),
                    "_after_is_new": F.lead("_new").over(series),
                }
            )
        )
        falls = F.col("_value") < F.col("_before")
        # Where both are of the run, the later one is named.
        exceeds = (F.col("_value") > F.col("_after")) & ~F.col("_after_is_new")
        bound = F.when(falls, F.concat(F.lit("at least "), F.col("_before").cast("string"))).otherwise(
            F.concat(F.lit("at most "), F.col("_after").cast("string"))
        )
        wrong = beside.where(F.col("_new") & (F.coalesce(falls, F.lit(False)) | F.coalesce(exceeds, F.lit(False))))
        of_row = [each for name, each in zip(named, shown, strict=True) if name in (ctx.partition, *ctx.key)]
        return wrong.select(*of_row, bound.alias(EXPECTED), F.col("_value").alias(FOUND))

    in_words = f", in the order of {over}" if over else ""
    return Failing(
        name=name or name_for("monotonic", column),
        demands=f"{column} of {' and '.join(columns) or 'a key'} never falls from one partition to the next{in_words}",
        rows=rows,
        around=around,
        takes=(CONTEXT, CANDIDATE, AROUND),
        over=(
            Over(frame=CANDIDATE, sql=in_sql(column), needs=Needs.ORDER),
            *(Over(frame=CANDIDATE, sql=in_sql(each)) for each in (over, *columns) if each),
        ),
        release="monotonic 2",
        blocking=blocking,
    )
