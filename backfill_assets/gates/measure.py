"""Measurement: the content of the staged files, and how it differs from the accepted rows.

Spark adds up each partition in one pass: its rows, its content checksum, the rows that violate a gate, and the cells of
its breakdown. No row is shuffled for it: a gate on rows is one column, true for a violation. Rows are compared by key
and value (`comparison`), which needs the accepted rows only of partitions whose checksums differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_assets.core.columns import in_sql
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import fields_of
from backfill_assets.domain import (
    AcceptedValues,
    AddsOnly,
    Breakdown,
    ComparedWithAccepted,
    Failing,
    Gate,
    Merged,
    Moved,
    NotNull,
    OnlyExpired,
    Operation,
    OutsideScope,
    RowCount,
    RowExpression,
    SameState,
    SchemaMatches,
    SourceTable,
    Table,
    UniqueKey,
    Usual,
    WarmUpProof,
)
from backfill_assets.domain.operations import OPERATION
from backfill_assets.gates.broken_down import (
    MOST_DAILY_CELLS,
    amounts,
    dimensions,
    partition_cell,
    sums_of_amounts,
)
from backfill_assets.gates.comparison import compare_keys
from backfill_assets.gates.measured import ByKey, Measured, equal_partitions
from backfill_assets.lake.checksums import (
    HASHES,
    NO_ROWS,
    SUMS,
    checksum_of,
    hash_columns,
    partition_checksums,
    sums_of,
)

ON_ROWS = SchemaMatches | NotNull | AcceptedValues | RowExpression
"""The gates that are about single rows."""


def measure(
    staged: DataFrame, accepted: DataFrame | None, table: Table, *, schema: StructType
) -> Mapping[date, Measured]:
    """Measures every partition that has rows on either side, and reads all of them.

    Args:
        staged: The candidate's rows: business columns, the partition column included.
        accepted: The rows readers see in the same partitions; None when there are none.
        table: The declaration, for its key and gates.
        schema: The business columns, the partition column included.

    Returns:
        By partition. Partitions without rows on both sides are absent.
    """
    column = table.partition.column
    before = {} if accepted is None else partition_checksums(accepted, column, schema)
    by_key = compare_keys(staged, accepted, table, schema=schema)
    return compare(contents(staged, table, schema=schema), before, by_key, table)


def contents(
    staged: DataFrame,
    table: Table,
    *,
    schema: StructType,
    breakdown: Breakdown | None = None,
    gates: Sequence[Gate] | None = None,
) -> Mapping[date, Measured]:
    """The number of rows, the checksum, the violations and the cells of every partition that has rows, in one
    aggregation; when there are too many cells, a second one counts without the dimensions.

    Args:
        staged: The candidate's rows.
        table: The declaration, for its gates.
        schema: The business columns, the partition column included.
        breakdown: What cells are measured by; None for no cells.
        gates: Only violations of these are counted; None for those of all gates of the table.

    Raises:
        ContractBroken: A measure is neither a condition nor a number.
    """
    column, flags = table.partition.column, violations(table, gates)
    counted = (F.expr(f"count_if({bad}) AS {bad}") for bad in (in_sql(f"bad_{name}") for name in flags))
    by = dimensions(breakdown)
    measured = amounts(staged, table, breakdown)
    rows = staged.select(
        column, *by, *hash_columns(schema), *(flag.alias(f"bad_{name}") for name, flag in flags.items()), *measured
    )
    sums = [F.count(F.lit(1)).alias("rows"), *sums_of(HASHES), *counted, *sums_of_amounts(rows, breakdown)]
    names = [f"by_{name}" for name in (breakdown.by if breakdown else ())]
    found = rows.groupBy(column, *names).agg(*sums).limit(MOST_DAILY_CELLS + 1).collect() if names else []
    if not names or len(found) > MOST_DAILY_CELLS:
        found = rows.groupBy(column).agg(*sums).collect()
    partitions = grouped((row[column], row.asDict()) for row in found)
    return {partition: _contents(partition, cells, flags, breakdown) for partition, cells in partitions.items()}


def _contents(
    partition: date, cells: Sequence[Mapping[str, Any]], flags: Iterable[str], breakdown: Breakdown | None
) -> Measured:
    total = {name: sum(cell[name] for cell in cells) for name in ("rows", *SUMS, *(f"bad_{name}" for name in flags))}
    return Measured(
        partition=partition,
        rows=total["rows"],
        checksum=checksum_of(total),
        violations={name: total[f"bad_{name}"] for name in flags},
        cells=tuple(partition_cell(cell, breakdown) for cell in cells) if breakdown else (),
    )


def compare(
    found: Mapping[date, Measured], before: Mapping[date, str], by_key: Mapping[date, ByKey], table: Table
) -> Mapping[date, Measured]:
    """Adds to the contents of staged partitions how their keys differ from the accepted ones.

    Args:
        found: The contents of the staged partitions.
        before: The checksums of the accepted rows, by partition; partitions without rows may be absent.
        by_key: The keys of every partition with rows; of those that `equal_partitions` names, compared or not.
        table: The declaration, for its gates.
    """
    equal = equal_partitions(found, before)
    on_rows = [gate.name for gate in table.gates if isinstance(gate, ON_ROWS)]
    empty = Measured(partition=date.min, checksum=NO_ROWS, violations=dict.fromkeys(on_rows, 0))
    return {
        partition: _with_keys(
            replace(found.get(partition, empty), partition=partition, accepted_checksum=before.get(partition, NO_ROWS)),
            each,
            is_equal=partition in equal,
        )
        for partition, each in by_key.items()
    }


def _with_keys(found: Measured, by_key: ByKey, *, is_equal: bool) -> Measured:
    if is_equal:
        # Equal rows have equal keys, and whether their accepted rows were read makes no difference.
        keys = by_key.added + by_key.changed + by_key.unchanged
        return replace(found, accepted_rows=found.rows, surplus=by_key.surplus, unchanged=keys)
    return replace(found, **fields_of(by_key))


def violation(gate: Gate, table: Table) -> Column | None:
    """True for a row that violates the gate; None for gates that are not about single rows."""
    match gate:
        case NotNull():
            return _is_null([gate.column])
        case AcceptedValues():
            return F.col(gate.column).isNotNull() & ~F.col(gate.column).isin(*gate.values)
        case RowExpression():
            # A condition that is null is not satisfied.
            return ~F.expr(gate.condition).eqNullSafe(True)
        case SchemaMatches():
            return _is_null(field.name for field in table.schema.fields if not field.nullable)
        case (
            UniqueKey()
            | RowCount()
            | ComparedWithAccepted()
            | AddsOnly()
            | Merged()
            | OutsideScope()
            | SameState()
            | OnlyExpired()
            | WarmUpProof()
            | Moved()
            | Failing()
            | Usual()
        ):
            return None


def _is_null(names: Iterable[str]) -> Column:
    """A condition that is true if one of the columns is null: as SQL, which Spark reads in one call."""
    return F.expr(" OR ".join(["false", *(f"isnull({in_sql(name)})" for name in names)]))


def violations(table: Table, gates: Sequence[Gate] | None = None) -> Mapping[str, Column]:
    """The violation columns of a table's gates, or of some of them, by gate name."""
    found = {gate.name: violation(gate, table) for gate in (table.gates if gates is None else gates)}
    # Gates are about states: the row of a delete has no values but its key.
    changelog = isinstance(table, SourceTable) and table.operation is not None
    of_state = f"{OPERATION} != '{Operation.DELETE}'"
    return {
        name: F.expr(of_state) & column if changelog else column for name, column in found.items() if column is not None
    }
