"""Breakdown of staged and accepted rows: measures by month and business dimensions, before and after. One pass.

Both sides are read once, only the columns that count; nothing is joined. Accepted rows that are known to equal the
staged ones are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StructType,
)

from backfill_assets.domain import Breakdown, DerivedTable
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.lake.checksums import SUMS, row_hash, sums_of
from backfill_assets.lake.row_values import texts
from backfill_assets.ledger.findings import BreakdownCell

MOST_CELLS = 2_000
"""More combinations of month and dimensions than these are kept by month alone."""

_SIDES = ("before", "after")
_HASH, _CONTENT = "_row_hash", SUMS[:2]
"""Whether rows differ where measures do not is only shown, so that one hash of a row is enough."""


def break_down(
    staged: DataFrame,
    accepted: DataFrame | None,
    table: DerivedTable,
    *,
    schema: StructType,
    new: Collection[date],
    equal: Collection[date] = (),
) -> tuple[BreakdownCell, ...]:
    """The measures of a candidate and of the accepted rows, in the order of months and dimensions.

    Args:
        staged: The candidate's rows.
        accepted: The rows that readers see in the other partitions than `equal`; None when there are none.
        table: The declaration, for its breakdown; nothing is read for a table without one.
        schema: The business columns, the partition column included.
        new: The partitions without an accepted version.
        equal: Partitions whose accepted rows equal the staged ones, which are counted on both sides.

    Returns:
        One cell per month, new or restated partitions, and values of the dimensions. When there are more than
        MOST_CELLS, a second pass counts without the dimensions.

    Raises:
        ContractBroken: A measure is neither a condition nor a number.
    """
    breakdown = table.breakdown
    if breakdown is None:
        return ()
    column = F.col(table.partition.column)
    on_both = column.isin(sorted(equal)) if equal else F.lit(False)
    sides = [_side(staged, table, breakdown, schema, new, before=on_both, after=F.lit(True))]
    if accepted is not None:
        sides.append(_side(accepted, table, breakdown, schema, new, before=F.lit(True), after=F.lit(False)))
    both = reduce(DataFrame.unionByName, sides)
    found = _summed(both, breakdown, breakdown.by)
    return found if len(found) <= MOST_CELLS else _summed(both, breakdown, ())


def _side(
    frame: DataFrame,
    table: DerivedTable,
    breakdown: Breakdown,
    schema: StructType,
    new: Collection[date],
    *,
    before: Column,
    after: Column,
) -> DataFrame:
    column = F.col(table.partition.column)
    amounts = [_amount(frame, table, name, measured) for name, measured in breakdown.measures.items()]
    return frame.select(
        F.trunc(column, "month").alias("month"),
        (column.isin(sorted(new)) if new else F.lit(False)).alias("is_new"),
        before.alias("is_before"),
        after.alias("is_after"),
        *(F.col(name).cast("string").alias(f"by_{name}") for name in breakdown.by),
        *(amount.alias(f"of_{name}") for name, amount in zip(breakdown.measures, amounts, strict=True)),
        row_hash(schema.fields).alias(_HASH),
    )


def _amount(frame: DataFrame, table: DerivedTable, name: str, measured: str) -> Column:
    """What a row adds to a measure: 1 or 0 for a condition, otherwise its number. Sums of whole numbers are exact."""
    value = F.expr(measured)
    kind: DataType = frame.select(value).schema.fields[0].dataType
    match kind:
        case BooleanType():
            return value.cast("int")
        case IntegralType():
            # Spark adds up 32 bits in 64, and 64 bits in as many, which may be too few.
            return value.cast("decimal(20,0)") if isinstance(kind, LongType) else value
        case DecimalType() | DoubleType() | FloatType():
            return value
        case _:
            problem = f"is {kind.simpleString()}, and neither a condition nor a number"
            raise CodeBroken(code=f"the measure {name} of {table.name}", problem=problem)


def _summed(both: DataFrame, breakdown: Breakdown, by: Sequence[str]) -> tuple[BreakdownCell, ...]:
    keys = ["month", "is_new", *(f"by_{name}" for name in by)]
    amounts = [f"of_{name}" for name in breakdown.measures]
    # First by what sides a row is on, so that a row is added up once; then few sums are divided among the sides.
    by_sides = both.groupBy(*keys, *(f"is_{side}" for side in _SIDES)).agg(
        F.count(F.lit(1)).alias(ROWS), *(F.sum(name).alias(name) for name in amounts), *sums_of([_HASH])
    )
    sums: list[Column] = []
    for side in _SIDES:
        of_side = F.col(f"is_{side}")
        sums += [F.sum(F.when(of_side, F.col(n))).alias(f"{side}_{n}") for n in (ROWS, *amounts, *_CONTENT)]
    rows = by_sides.groupBy(*keys).agg(*sums).orderBy(*keys).limit(MOST_CELLS + 1).collect()
    return tuple(_cell(row, breakdown, by) for row in rows)


def _cell(row: Row, breakdown: Breakdown, by: Sequence[str]) -> BreakdownCell:
    found = row.asDict()
    before, after = (_measures(found, breakdown, side) for side in _SIDES)
    return BreakdownCell(
        month=row["month"],
        is_new=row["is_new"],
        by={name.removeprefix("by_"): text for name, text in texts(row, [f"by_{name}" for name in by]).items()},
        before=before,
        after=after,
        differs=any((found[f"before_{each}"] or 0) != (found[f"after_{each}"] or 0) for each in (ROWS, *_CONTENT)),
    )


def _measures(found: Mapping[str, object], breakdown: Breakdown, side: str) -> Mapping[str, str]:
    return {
        ROWS: _number(found[f"{side}_{ROWS}"]),
        **{name: _number(found[f"{side}_of_{name}"]) for name in breakdown.measures},
    }


def _number(value: object) -> str:
    """A sum as text: of no rows and of nulls alone it is zero."""
    return format(Decimal(str(0 if value is None else value)), "f")
