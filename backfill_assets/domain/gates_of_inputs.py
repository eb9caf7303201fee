"""Gates by an input: whether totals agree with it, and whether a join with it multiplies rows.

Each is a `Failing` of this project. A change of what one finds is a new release of it, which manifests pin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.columns import in_sql
from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.amounts import added_up_as, amount_of, bounds, plain, with_others, without_amount
from backfill_assets.domain.context import GateContext
from backfill_assets.domain.failing_rows import CANDIDATE, CONTEXT, EXPECTED, FOUND, Failing, Needs, Over
from backfill_assets.domain.gates import each_once, name_for
from backfill_assets.domain.gates_of_keys import columns_named, input_named

ONE = "1"
"""The expression that counts rows when it is added up."""


@declared
def reconciles(
    total: str,
    *,
    of: str,
    with_: str = "",
    by: Iterable[str] = (),
    where: str = "",
    on: str = "",
    within: int | str | Decimal = 0,
    blocking: bool = True,
    name: str = "",
) -> Failing:
    """A total of the table is the total of an input, by partition and group, in exact decimals.

    Args:
        total: What is added up of the rows of the table: a column, or an expression of Spark SQL; `1` counts rows.
        of: The input, by its argument.
        with_: What is added up of the rows of the input; by default the same.
        by: The columns of a group, which both have; none for whole partitions.
        where: The rows of the input that count, as a condition of Spark SQL; all by default.
        on: The day that a row of the input counts for, as an expression of Spark SQL over it; by default the day, or
            the month, of its partition.
        within: How far the totals may be apart, the amount included.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `reconciles_`, the total and the input.

    Raises:
        InvalidDeclaration: It allows a difference that is not an amount.
    """
    input_named("reconciles", of)
    groups, other, allowed = each_once("reconciles", by), with_ or total, amount_of(within)
    if allowed is None or allowed < 0:
        raise InvalidDeclaration(f"reconciles({total!r:.60}) allows {within!r:.60}, which is not an amount.")

    def rows(ctx: GateContext, candidate: DataFrame, **read: DataFrame) -> DataFrame:
        wanted = read[of].where(where) if where else read[of]
        others = tuple(name for name in groups if name != ctx.partition)
        day = F.expr(on) if on else F.col(in_sql(ctx.partition_columns[of]))
        kind = added_up_as(
            *(side.select(F.expr(sql)).schema[0].dataType for side, sql in ((candidate, total), (wanted, other)))
        )
        nothing, most = F.lit(None).cast(kind), F.lit(bounds(Decimal(0), allowed, kind)[1]).cast(kind)
        expected, found = F.expr(other).try_cast(kind), F.expr(total).try_cast(kind)
        own = candidate.select(
            F.col(in_sql(ctx.partition)).alias("_k"),
            *_columns(others),
            nothing.alias("_e"),
            found.alias("_f"),
            found.alias("_apart"),
            F.lit(0).alias("_we"),
            without_amount(F.expr(total), kind).cast("int").alias("_wf"),
        )
        of_input = wanted.select(
            ctx.partition_of(day.cast("date")).alias("_k"),
            *_columns(others),
            expected.alias("_e"),
            nothing.alias("_f"),
            (-expected).alias("_apart"),
            F.lit(0).alias("_wf"),
            without_amount(F.expr(other), kind).cast("int").alias("_we"),
        )
        keys, sums = ["_k", *(f"_g{n}" for n in range(len(others)))], ("_e", "_f", "_apart")
        both = (
            own.unionByName(of_input.where("_k IS NOT NULL"))  # without a day, a row counts for none
            .groupBy(*keys)
            .agg(
                # Both are added up in one sum: the difference of two of them would lose a digit.
                *(F.coalesce(F.sum(side).cast(kind), F.lit(0).cast(kind)).alias(side) for side in sums),
                *(F.sum(side).alias(side) for side in ("_we", "_wf")),
            )
        )
        is_apart = F.abs("_apart") > most
        return both.where(is_apart | (F.col("_we") + F.col("_wf") > 0)).select(
            F.col("_k").alias(ctx.partition),
            *(F.col(f"_g{n}").alias(column) for n, column in enumerate(others)),
            with_others(plain(F.col("_e")), F.col("_we")).alias(EXPECTED),
            with_others(plain(F.col("_f")), F.col("_wf")).alias(FOUND),
        )

    counted = f" where {where}" if where else ""
    when = f", on {on}" if on else ""
    grouped = f" by {' and '.join(groups)}" if groups else ""
    off = f", within {allowed}" if allowed else ""
    return Failing(
        name=name or name_for("reconciles", "rows" if total == ONE else total, of),
        demands=f"the sum of {total} is that of {other} of {of}{counted}{when}{grouped}{off}",
        rows=rows,
        takes=(CONTEXT, CANDIDATE, of),
        over=(
            *(Over(frame=CANDIDATE, sql=in_sql(column)) for column in groups),
            *(Over(frame=of, sql=in_sql(column), like=column) for column in groups),
            Over(frame=CANDIDATE, sql=total, needs=Needs.AMOUNT),
            Over(frame=of, sql=other, needs=Needs.AMOUNT),
            *([Over(frame=of, sql=where, needs=Needs.CONDITION)] if where else []),
            *([Over(frame=of, sql=on, needs=Needs.DAY)] if on else []),
        ),
        release="reconciles 3",
        blocking=blocking,
    )


@declared
def joins_once(
    of: str,
    *,
    on: str | tuple[str, ...] | Mapping[str, str],
    where: str = "",
    blocking: bool = True,
    name: str = "",
) -> Failing:
    """No row of the table has several rows of an input that it is joined with, so that the join multiplies none.

    Args:
        of: The input, by its argument.
        on: The columns by which they are joined: one, several, or the column of the input by that of the table.
        where: The rows of the input that are joined, as a condition of Spark SQL; all by default.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `joins_once_` and the input.

    Raises:
        InvalidDeclaration: It names no column.
    """
    input_named("joins_once", of)
    pairs = dict(on) if isinstance(on, Mapping) else {column: column for column in columns_named("joins_once", on)}
    if not pairs:
        raise InvalidDeclaration("joins_once(...) names no column.")

    def rows(ctx: GateContext, candidate: DataFrame, **read: DataFrame) -> DataFrame:
        wanted = read[of].where(where) if where else read[of]
        numbered = {f"_g{n}": (own, other) for n, (own, other) in enumerate(pairs.items())}
        several = (
            wanted.groupBy(*(F.col(in_sql(other)).alias(column) for column, (_, other) in numbered.items()))
            .agg(F.count(F.lit(1)).alias("_rows"))
            .where("_rows > 1")
        )
        own = candidate.select(
            *(F.col(in_sql(column)) for column in dict.fromkeys((ctx.partition, *ctx.key))),
            *(F.col(in_sql(column)).alias(name) for name, (column, _) in numbered.items()),
        )
        # A null joins nothing, so that it multiplies nothing.
        joined = own.join(several, list(numbered))
        return joined.select(
            *(F.col(in_sql(column)) for column in dict.fromkeys((ctx.partition, *ctx.key))),
            F.lit(f"one row of {of}").alias(EXPECTED),
            F.concat(F.col("_rows").cast("string"), F.lit(" rows")).alias(FOUND),
        ).distinct()

    by = " and ".join(own if own == other else f"{own} = {other}" for own, other in pairs.items())
    counted = f" where {where}" if where else ""
    return Failing(
        name=name or name_for("joins_once", of),
        demands=f"a row has at most one row of {of}{counted} by {by}",
        rows=rows,
        takes=(CONTEXT, CANDIDATE, of),
        over=(
            *(Over(frame=CANDIDATE, sql=in_sql(column)) for column in pairs),
            *(Over(frame=of, sql=in_sql(other), like=column) for column, other in pairs.items()),
            *([Over(frame=of, sql=where, needs=Needs.CONDITION)] if where else []),
        ),
        release="joins_once 1",
        blocking=blocking,
    )


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(in_sql(name)).alias(f"_g{n}") for n, name in enumerate(names)]
