"""Breakdown of staged and accepted rows: measures by month and business dimensions, before and after.

The cells of a partition are measured once, in the same pass as its contents, and kept: what they are added up from here
are those of the staged files and those that were kept of the accepted ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DecimalType, DoubleType, FloatType, IntegralType, LongType

from backfill_assets.core.identity import FileSet, document_digest
from backfill_assets.domain import Breakdown, DerivedTable, Table, Tolerance
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.gates.comparison import key_columns
from backfill_assets.lake.checksums import LOW_32_BITS, SUMS
from backfill_assets.lake.row_values import texts
from backfill_assets.ledger.findings import BreakdownCell, PartitionCell, PartitionCells, RowChanges

MOST_CELLS = 2_000
"""More combinations of month and dimensions than these are kept by month alone."""

MOST_DAILY_CELLS = 31 * MOST_CELLS
"""More combinations of partition and dimensions than these are kept by partition alone."""

_EXACT = Context(prec=100, traps=[])
"""Sums of numbers with as many digits as Spark has; opposite infinities make a NaN."""


def breakdown_of(table: Table) -> Breakdown | None:
    """The breakdown that a table declares."""
    return table.breakdown if isinstance(table, DerivedTable) else None


def declared_by(breakdown: Breakdown) -> str:
    """Identifies what the cells of a breakdown count."""
    return document_digest({"by": list(breakdown.by), "measures": dict(breakdown.measures)})


def dimensions(breakdown: Breakdown | None) -> Sequence[Column]:
    """The dimensions of a row."""
    return [F.col(name).cast("string").alias(f"by_{name}") for name in (breakdown.by if breakdown else ())]


def amounts(frame: DataFrame, table: Table, breakdown: Breakdown | None) -> Sequence[Column]:
    """The amount that a row adds to each measure.

    Raises:
        ContractBroken: A measure is neither a condition nor a number.
    """
    measures = breakdown.measures if breakdown else {}
    values = {name: F.expr(measured) for name, measured in measures.items()}
    # Their types are asked for together: each question takes Spark as long as planning.
    kinds = frame.select(*values.values()).schema.fields if values else []
    return [
        _amount(value, kind.dataType, table, name).alias(f"of_{name}")
        for (name, value), kind in zip(values.items(), kinds, strict=True)
    ]


def _amount(value: Column, kind: DataType, table: Table, name: str) -> Column:
    """The amount that a row adds to a measure: 1 or 0 for a condition, otherwise its number."""
    match kind:
        case BooleanType():
            return value.cast("int")
        case IntegralType() | DecimalType() | DoubleType() | FloatType():
            return value
        case _:
            problem = f"is {kind.simpleString()}, and neither a condition nor a number"
            raise CodeBroken(code=f"the measure {name} of {table.name}", problem=problem)


def sums_of_amounts(rows: DataFrame, breakdown: Breakdown | None) -> Iterator[Column]:
    """The sums of the `amounts` of rows, exact for whole numbers: Spark adds up 32 bits in 64, and 64 bits in as many,
    which may be too few, so that both halves of those are added up. Decimals would take several times as long."""
    for name in breakdown.measures if breakdown else ():
        amount, kind = F.col(f"of_{name}"), rows.schema[f"of_{name}"].dataType
        is_long = isinstance(kind, LongType)
        yield F.sum(amount.bitwiseAND(F.lit(LOW_32_BITS).cast("bigint")) if is_long else amount).alias(f"of_{name}")
        if is_long:
            yield F.sum(F.shiftright(amount, 32)).alias(f"high_{name}")


def partition_cell(found: Mapping[str, Any], breakdown: Breakdown) -> PartitionCell:
    """The cell of one partition and combination of dimensions; without dimensions where there are too many of them."""
    by = {name: found[f"by_{name}"] for name in breakdown.by if f"by_{name}" in found}
    return PartitionCell(
        by=texts(by, by),
        measures={
            ROWS: str(found[ROWS]),
            **{name: _text(_sum(found, name)) for name in breakdown.measures},
        },
        content=tuple(found[name] for name in SUMS),
    )


def _sum(found: Mapping[str, Any], name: str) -> Decimal:
    """A measure of a cell: zero where no row has a value."""
    found_sum, high = found[f"of_{name}"], found.get(f"high_{name}")
    if found_sum is None:
        return Decimal(0)
    return Decimal(str(found_sum)) if high is None else Decimal(found_sum + (high << 32))


def row_changes(
    staged: DataFrame, accepted: DataFrame, table: DerivedTable, breakdown: Breakdown, tolerance: Tolerance
) -> tuple[RowChanges, ...]:
    """The changes of the tolerated measure between the rows of two sides, by month and the dimensions of the tolerance.

    Args:
        staged: The candidate's rows of the partitions that differ.
        accepted: The accepted rows of the same partitions.

    Returns:
        None where there are more groups than MOST_CELLS.
    """
    by = [f"by_{name}" for name in tolerance.by]
    key = [F.col(name).alias(f"key_{n}") for n, name in enumerate(key_columns(table))]

    def side(rows: DataFrame, sign: int) -> DataFrame:
        named = dict(zip(breakdown.measures, amounts(rows, table, breakdown), strict=True))
        amount = F.lit(1) if tolerance.measure == ROWS else F.coalesce(named[tolerance.measure], F.lit(0))
        month = F.trunc(table.partition.column, "month").alias("month")
        every = dict(zip(breakdown.by, dimensions(breakdown), strict=True))
        chosen = rows.select(month, *key, *(every[name] for name in tolerance.by), amount.alias("amount"))
        kind = chosen.schema["amount"].dataType
        return chosen.withColumn(
            "amount", sign * F.col("amount").cast(DecimalType(20) if isinstance(kind, LongType) else kind)
        )

    rows = side(staged, 1).unionByName(side(accepted, -1))
    each = rows.groupBy("month", *(f"key_{n}" for n in range(len(key))), *by).agg(F.sum("amount").alias("amount"))
    found = each.groupBy("month", *by).agg(F.sum(F.abs("amount")).alias("amount")).limit(MOST_CELLS + 1).collect()
    return tuple(
        RowChanges(
            month=row.month,
            measure=tolerance.measure,
            by=texts({name: row[f"by_{name}"] for name in tolerance.by}, tolerance.by),
            amount=_text(Decimal(str(row.amount))),
        )
        for row in sorted(found, key=str)
        if len(found) <= MOST_CELLS
    )


Cells = Mapping[date, Sequence[PartitionCell]]
"""Of partitions that have rows."""


def cells_to_keep(table: Table, files: Mapping[date, FileSet], found: Cells) -> tuple[PartitionCells, ...]:
    """The cells of staged partitions, with what they are cells of; none of a table without a breakdown."""
    breakdown = breakdown_of(table)
    if breakdown is None:
        return ()
    declared = declared_by(breakdown)
    return tuple(
        PartitionCells(partition=p, files=files[p].digest, declared=declared, cells=tuple(cells))
        for p, cells in found.items()
        if cells
    )


def break_down(
    before: Cells, after: Cells, breakdown: Breakdown, *, new: Collection[date]
) -> tuple[BreakdownCell, ...]:
    """The measures of the accepted rows and of a candidate, in the order of months and dimensions.

    Args:
        before: The cells of the accepted rows.
        after: Those of the candidate's.
        breakdown: The declaration.
        new: The partitions without an accepted version.

    Returns:
        One cell per month, new or restated partitions, and values of the dimensions; without the dimensions when there
        are more than MOST_CELLS, or where they were too many for one of the sides.
    """
    every = [cell for side in (before, after) for cells in side.values() for cell in cells]
    are_by_all = all(cell.by.keys() == set(breakdown.by) for cell in every)
    found = _added_up(before, after, breakdown, new, breakdown.by if are_by_all else ())
    return found if len(found) <= MOST_CELLS else _added_up(before, after, breakdown, new, ())


def _added_up(
    before: Cells, after: Cells, breakdown: Breakdown, new: Collection[date], by: Sequence[str]
) -> tuple[BreakdownCell, ...]:
    groups: dict[tuple[Any, ...], tuple[list[PartitionCell], list[PartitionCell]]] = {}
    for side, cells_of_side in enumerate((before, after)):
        for partition, cells in cells_of_side.items():
            for cell in cells:
                # Nulls first, as Spark orders them.
                values = tuple((cell.by[name] is not None, cell.by[name] or "") for name in by)
                group = (partition.replace(day=1), partition in new, values)
                groups.setdefault(group, ([], []))[side].append(cell)
    return tuple(
        BreakdownCell(
            month=month,
            is_new=is_new,
            by={name: value if is_there else None for name, (is_there, value) in zip(by, values, strict=True)},
            before=_measures(old, breakdown),
            after=_measures(now, breakdown),
            differs=_content(old) != _content(now),
        )
        for (month, is_new, values), (old, now) in sorted(groups.items(), key=lambda group: group[0])
    )


def _measures(cells: Iterable[PartitionCell], breakdown: Breakdown) -> Mapping[str, str]:
    sums = dict.fromkeys(breakdown.names, Decimal(0))
    for cell in cells:
        sums = {name: _EXACT.add(total, Decimal(cell.measures[name])) for name, total in sums.items()}
    return {name: _text(total) for name, total in sums.items()}


def _content(cells: Sequence[PartitionCell]) -> Sequence[int]:
    """A content key for rows whose measures are the same: their number, and the sums of a checksum."""
    return [
        sum(int(cell.measures[ROWS]) for cell in cells),
        *map(sum, zip(*(cell.content for cell in cells), strict=True)),
    ]


def _text(value: Decimal) -> str:
    return format(value, "f")
