"""Sample: some of the changed rows, before and after.

Only the few partitions with the most changes are read again, and the same rows are chosen every time: those that differ
most, and among equals those with the smallest hash of their key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates.measure import Measured
from backfill_assets.ledger.sampled import SampledRow, Values


def most_moved(measured: Mapping[date, Measured], *, most: int = 3) -> tuple[date, ...]:
    """The partitions with the most added, removed and changed keys; none without changes."""
    moved = {p: m.added + m.removed + m.changed for p, m in measured.items()}
    ranked = sorted((p for p, count in moved.items() if count), key=lambda p: (-moved[p], p))
    return tuple(sorted(ranked[:most]))


MOST_ROWS = 20


def sample_rows(
    staged: DataFrame, accepted: DataFrame, table: Table, *, most: int = MOST_ROWS
) -> tuple[SampledRow, ...]:
    """The rows that differ most, changed ones first, the same on every call.

    They are ranked by how far the measure moves that the table's breakdown names, otherwise by how many columns change.

    Args:
        staged: Rows of the chosen partitions in the candidate.
        accepted: Rows of the same partitions that readers see.
        table: The declaration, for its key.
        most: The maximum number of rows.
    """
    column, key = table.partition.column, key_columns(table)
    values = [field.name for field in table.schema.fields if field.name not in key]
    amount = _ranked_by(table)
    after = staged.select(*key, _as_struct(values).alias("after"), amount.alias("new_amount"))
    before = accepted.select(*key, _as_struct(values).alias("before"), amount.alias("old_amount"))
    differing = [(~F.col(f"after.{name}").eqNullSafe(F.col(f"before.{name}"))).cast("int") for name in values]
    moves = F.abs(F.coalesce("new_amount", F.lit(0)) - F.coalesce("old_amount", F.lit(0)))
    moved = (
        after.join(before, on=key, how="full_outer")
        .where(~F.col("after").eqNullSafe(F.col("before")))
        .orderBy(
            F.col("before").isNull() | F.col("after").isNull(),
            moves.desc(),
            sum(differing, F.lit(0)).desc(),
            F.xxhash64(*key),
            *key,
        )
        .limit(most)
    )
    return tuple(
        SampledRow(
            partition=row[column],
            key=texts(row, key),
            before=texts(row["before"], values) if row["before"] is not None else None,
            after=texts(row["after"], values) if row["after"] is not None else None,
        )
        for row in moved.collect()
    )


def _ranked_by(table: Table) -> Column:
    """What a row adds to the measure that ranks rows; nothing where none is named."""
    breakdown = table.breakdown if isinstance(table, DerivedTable) else None
    if breakdown is None or breakdown.rank_rows_by is None:
        return F.lit(0).cast("double")
    measured = F.expr(breakdown.measures[breakdown.rank_rows_by])
    return measured.cast("double")


def _as_struct(values: Sequence[str]) -> Column:
    # A table may have only its key, but a struct needs a field.
    return F.struct(*values) if values else F.struct(F.lit(True).alias("present"))


def key_columns(table: Table) -> list[str]:
    """The columns that identify a row, the partition first."""
    column = table.partition.column
    return [column, *(name for name in table.row_key if name != column)]


def texts(row: Any, columns: Sequence[str]) -> Values:
    """Values of a row as text."""
    return {name: _text(row[name]) for name in columns}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
