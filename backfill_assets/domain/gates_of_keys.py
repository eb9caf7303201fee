"""Gates on keys: whether all that have to be there are there. Each is a `Failing` of this project.

A change of what one finds is a new release of it, which manifests pin in place of the code of an author.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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

A_ROW, NO_ROW = "a row", "no row"
OTHERS = "others"
"""By which name a gate is given the rows of another table."""


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
