"""Breakdown of staged and accepted rows: measures by month and business dimensions, before and after. One pass.

Both sides are read once, only the columns that count; nothing is joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DecimalType, DoubleType, FloatType, IntegralType, StructType

from backfill_assets.domain import Breakdown, DerivedTable
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.errors import ContractBroken
from backfill_assets.lake.checksums import checksum_of, row_hash, sums_of
from backfill_assets.ledger.sampled import BreakdownCell

MOST_CELLS = 2_000
"""More combinations of month and dimensions than these are kept by month alone."""

_SIDES = ("before", "after")


def break_down(
    staged: DataFrame, accepted: DataFrame | None, table: DerivedTable, *, schema: StructType, new: Collection[date]
) -> tuple[BreakdownCell, ...]:
    """The measures of a candidate and of the accepted rows, in the order of months and dimensions.

    Args:
        staged: The candidate's rows.
        accepted: The rows that readers see in the same partitions; None when there are none.
        table: The declaration, for its breakdown; nothing is read for a table without one.
        schema: The business columns, the partition column included.
        new: The partitions without an accepted version.

    Returns:
        One cell per month, new or restated partitions, and values of the dimensions. When there are more than
        MOST_CELLS, a second pass counts without the dimensions.

    Raises:
        ContractBroken: A measure is neither a condition nor a number.
    """
    breakdown = table.breakdown
    if breakdown is None:
        return ()
    sides = [_side(staged, table, breakdown, schema, new, "after")]
    sides += [] if accepted is None else [_side(accepted, table, breakdown, schema, new, "before")]
    both = reduce(DataFrame.unionByName, sides)
    found = _summed(both, breakdown, breakdown.by)
    return found if len(found) <= MOST_CELLS else _summed(both, breakdown, ())


def _side(
    frame: DataFrame, table: DerivedTable, breakdown: Breakdown, schema: StructType, new: Collection[date], side: str
) -> DataFrame:
    column = F.col(table.partition.column)
    amounts = [_amount(frame, table, name, measured) for name, measured in breakdown.measures.items()]
    return frame.select(
        F.trunc(column, "month").alias("month"),
        (column.isin(sorted(new)) if new else F.lit(False)).alias("is_new"),
        F.lit(side).alias("side"),
        *(F.col(name).cast("string").alias(f"by_{name}") for name in breakdown.by),
        *(amount.alias(f"of_{name}") for name, amount in zip(breakdown.measures, amounts, strict=True)),
        row_hash(schema).alias("row_hash"),
    )


def _amount(frame: DataFrame, table: DerivedTable, name: str, measured: str) -> Column:
    """What a row adds to a measure: 1 or 0 for a condition, otherwise its number. Sums of whole numbers are exact."""
    value = F.expr(measured)
    kind: DataType = frame.select(value).schema.fields[0].dataType
    match kind:
        case BooleanType():
            return value.cast("int").cast("decimal(20,0)")
        case IntegralType():
            return value.cast("decimal(20,0)")
        case DecimalType() | DoubleType() | FloatType():
            return value
        case _:
            raise ContractBroken(
                f"the measure {name} of {table.name} is {kind.simpleString()}, and neither a condition nor a number.",
                next_step="correct the breakdown of the table",
                table=table.name,
            )


def _summed(both: DataFrame, breakdown: Breakdown, by: Sequence[str]) -> tuple[BreakdownCell, ...]:
    keys = ["month", "is_new", *(f"by_{name}" for name in by)]
    sums: list[Column] = []
    for side in _SIDES:
        of_side = F.col("side") == F.lit(side)
        sums.append(F.count_if(of_side).alias(f"{side}_rows"))
        sums += [F.sum(F.when(of_side, F.col(f"of_{n}"))).alias(f"{side}_of_{n}") for n in breakdown.measures]
        sums += sums_of(F.when(of_side, F.col("row_hash")), prefix=f"{side}_")
    rows = both.groupBy(*keys).agg(*sums).orderBy(*keys).limit(MOST_CELLS + 1).collect()
    return tuple(_cell(row, breakdown, by) for row in rows)


def _cell(row: Row, breakdown: Breakdown, by: Sequence[str]) -> BreakdownCell:
    found = row.asDict()
    before, after = (_measures(found, breakdown, side) for side in _SIDES)
    return BreakdownCell(
        month=row["month"],
        is_new=row["is_new"],
        by={name: row[f"by_{name}"] for name in by},
        before=before,
        after=after,
        differs=checksum_of(found, "before_") != checksum_of(found, "after_"),
    )


def _measures(found: Mapping[str, object], breakdown: Breakdown, side: str) -> Mapping[str, str]:
    return {
        ROWS: str(found[f"{side}_rows"]),
        **{name: _number(found[f"{side}_of_{name}"]) for name in breakdown.measures},
    }


def _number(value: object) -> str:
    """A sum as text: of no rows and of nulls alone it is zero."""
    return format(Decimal(str(0 if value is None else value)), "f")
