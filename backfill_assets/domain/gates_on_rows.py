"""Gates on rows: keys that have to be there, totals that agree with an input, values that go on from one partition to
the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Ordered
from pyspark.sql import functions as F

from backfill_assets.calendar.windows import AnyWindow, Window
from backfill_assets.core.columns import in_sql
from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.context import GateContext
from backfill_assets.domain.failing_rows import (
    AROUND,
    CANDIDATE,
    CONTEXT,
    EXPECTED,
    FOUND,
    NOTHING,
    Failing,
    FailingFunction,
    Needs,
    Over,
    failing,
    others_of,
)
from backfill_assets.domain.gates import each_once, name_for
from backfill_assets.domain.gates_by_reference import added_up_as, amount_of, bounds, plain, with_others, without_amount

# Gates on keys: whether all that have to be there are there. Each is a `Failing` of this project.
#
# A change of what one finds is a new release of it, which manifests pin in place of the code of an author.

A_ROW, NO_ROW = "a row", "no row"
OTHERS = "others"
"""The name by which a gate is given the rows of another table."""


@declared
def complete(
    *,
    of: str | FailingFunction,
    key: str | tuple[str, ...],
    where: str = "",
    on: str = "",
    references: Iterable[str] = (),
    undetermined: Mapping[str, str] = NOTHING,
    blocking: bool = True,
    name: str = "",
) -> Failing:
    """No key of an input is missing: each of its rows has a row with the same key in its partition of the table.

    Where an input does not have the rows that have to be there, a function computes them: it takes what the function of
    `failing` takes, and returns rows with the partition column and the key.

    Args:
        of: The input, by its argument; or a function that returns the rows that have to be there.
        key: The columns that name a row, which both have.
        where: The rows of the input that count, as a condition of Spark SQL; all by default.
        on: The day on which a row of the input has to be there, as an expression of Spark SQL over it; by default the
            day, or the month, of its partition.
        references: Names of the references that a function finds in `ctx.references`.
        undetermined: Of a function, what in its rows depends on an order that nothing decides, as a refusal names it,
            and why that does not matter.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `complete_` and the input, or the name of the function.

    Raises:
        InvalidDeclaration: It names no column, or a function and what is asked of an input.
    """
    columns = columns_named("complete", key)
    if isinstance(of, str):
        input_named("complete", of)
    else:
        if where or on:
            raise InvalidDeclaration("complete(...) has a function, which says itself what counts, and on which day.")
        return _complete_by(
            columns,
            failing(name, rows=of, references=references, undetermined=undetermined, blocking=blocking),
            name=name,
        )
    if references:
        raise InvalidDeclaration("complete(...) names references, which only a function can read.")
    if undetermined:
        raise InvalidDeclaration("complete(...) declares something undetermined, which only rows of a function can be.")

    def rows(ctx: GateContext, candidate: DataFrame, **read: DataFrame) -> DataFrame:
        wanted = read[of].where(where) if where else read[of]
        day = F.expr(on) if on else F.col(in_sql(ctx.partition_columns[of]))
        others = [name for name in columns if name != ctx.partition]
        asked = wanted.select(
            ctx.partition_of(day.cast("date")).alias(ctx.partition), *(F.col(in_sql(name)) for name in others)
        )
        # Without a day, a row has to be there on none.
        asked = asked.where(F.col(in_sql(ctx.partition)).isNotNull()).distinct()
        lacking = without(asked, candidate, asked.columns)
        return lacking.select("*", F.lit(A_ROW).alias(EXPECTED), F.lit(NO_ROW).alias(FOUND))

    counted = f" where {where}" if where else ""
    when = f", on {on}" if on else ""
    return Failing(
        name=name or name_for("complete", of),
        demands=f"every {' and '.join(columns)} of {of}{counted} has a row{when}",
        rows=rows,
        takes=(CONTEXT, CANDIDATE, of),
        over=(
            *(Over(frame=CANDIDATE, sql=in_sql(column)) for column in columns),
            *(Over(frame=of, sql=in_sql(column), like=column) for column in columns),
            *([Over(frame=of, sql=where, needs=Needs.CONDITION)] if where else []),
            *([Over(frame=of, sql=on, needs=Needs.DAY)] if on else []),
        ),
        release="complete 2",
        blocking=blocking,
    )


def _complete_by(columns: tuple[str, ...], gate: Failing, *, name: str) -> Failing:
    """A gate on the rows that a function returns, as one on those of them that are missing."""

    def lacking(ctx: GateContext, candidate: DataFrame, returned: DataFrame) -> DataFrame:
        asked = returned.select(ctx.partition, *(column for column in columns if column != ctx.partition)).distinct()
        rows = without(asked, candidate, asked.columns)
        return rows.select("*", F.lit(A_ROW).alias(EXPECTED), F.lit(NO_ROW).alias(FOUND))

    named = gate.name if name else name_for("complete", gate.name)
    return replace(
        gate,
        name=named,
        demands=f"every {' and '.join(columns)} of {gate.name} has a row",
        over=tuple(Over(frame=CANDIDATE, sql=in_sql(column)) for column in columns),
        then=lacking,
    )


@declared
def references(
    column: str,
    *,
    to: Any,
    key: str = "",
    nulls: bool = True,
    optional: bool = False,
    blocking: bool = True,
    name: str = "",
) -> Failing:
    """Every value of a column is one of another table: no row names what that table does not have.

    Args:
        column: The column of the table.
        to: The other table, for the same days, or `reads(table, days_back=30)` for those around them.
        key: The column of the other table; by default of the same name.
        nulls: Whether rows without a value pass.
        optional: Whether partitions of the other table may be missing. Else the gate does not pass without one.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `references_` and the column.

    Raises:
        InvalidDeclaration: It does not name a table.
    """
    named, other = name or name_for("references", column), key or column
    (read,) = others_of(named, {OTHERS: to}, (OTHERS,) if optional else ())
    table = read.table.name

    def rows(ctx: GateContext, candidate: DataFrame, **read: DataFrame) -> DataFrame:
        value = F.col(in_sql(column))
        known = read[OTHERS].select(F.col(in_sql(other)).alias("_known")).distinct()
        lacking = candidate.where(value.isNotNull()) if nulls else candidate
        lacking = lacking.join(known, value == F.col("_known"), "left_anti")
        return lacking.select(
            *(F.col(in_sql(name)) for name in dict.fromkeys((ctx.partition, *ctx.key))),
            F.lit(f"a row of {table}").alias(EXPECTED),
            value.alias(FOUND),
        )

    return Failing(
        name=named,
        demands=f"every {column}{'' if nulls else ', in every row,'} is a {other} of {table}",
        rows=rows,
        reads=(read,),
        takes=(CONTEXT, CANDIDATE, OTHERS),
        over=(Over(frame=CANDIDATE, sql=in_sql(column)), Over(frame=OTHERS, sql=in_sql(other), like=column)),
        release="references 2",
        blocking=blocking,
    )


def columns_named(gate: str, key: str | tuple[str, ...]) -> tuple[str, ...]:
    """Columns as they are declared, one or several.

    Raises:
        InvalidDeclaration: There are none, or one is there twice.
    """
    columns = (key,) if isinstance(key, str) else key
    if not columns or not all(columns):
        raise InvalidDeclaration(f"{gate}(...) names no column.")
    return each_once(gate, columns)


def input_named(gate: str, of: str) -> str:
    """An input as it is declared.

    Raises:
        InvalidDeclaration: It is what every gate is given besides the inputs.
    """
    if of in (CANDIDATE, AROUND, CONTEXT):
        raise InvalidDeclaration(f"{gate}(...) is of {of!r}, which is not an input of the table.")
    return of


def without(rows: DataFrame, others: DataFrame, columns: Iterable[str]) -> DataFrame:
    """The rows without a row of others that has the same values in these columns; null is the same as null."""
    names = tuple(columns)
    there = others.select(*(F.col(in_sql(name)).alias(f"_{n}") for n, name in enumerate(names))).distinct()
    same = reduce(and_, (F.col(in_sql(name)).eqNullSafe(F.col(f"_{n}")) for n, name in enumerate(names)))
    return rows.join(there, same, "left_anti")


# Gates by an input: whether totals agree with it, and whether a join with it multiplies rows.
#
# Each is a `Failing` of this project. A change of what one finds is a new release of it, which manifests pin.

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


# Gates over partitions: whether a value of a key goes on from one partition to the next. It is a `Failing` of
# this project; a change of what it finds is a new release of it, which manifests pin.

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
