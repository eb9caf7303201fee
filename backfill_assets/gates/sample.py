"""Sample: some of the changed rows, before and after.

Only the few partitions with the most changes are read again, and the same rows are chosen every time: of each kind of
difference those that differ most, and among equals those with the smallest hash of their key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates.measure import Measured
from backfill_assets.gates.moves import coded_columns
from backfill_assets.lake.row_values import texts
from backfill_assets.ledger.findings import SampledRow

MOST_ROWS = 20

_AFTER, _BEFORE, _KIND, _PLACE = "_after", "_before", "_kind", "_place"


def sample_rows(
    staged: DataFrame, accepted: DataFrame, table: Table, *, most: int = MOST_ROWS
) -> tuple[SampledRow, ...]:
    """The rows that differ most of each kind of difference, rows on both sides first, the same on every call.

    They are ranked by how far the measure moves that the table's breakdown names, otherwise by how many columns change.
    How many are shown of a kind, `places` decides.

    Args:
        staged: Rows of the chosen partitions in the candidate.
        accepted: Rows of the same partitions that readers see.
        table: The declaration, for its key.
        most: The maximum number of rows.
    """
    column, key = table.partition.column, key_columns(table)
    values = [field.name for field in table.schema.fields if field.name not in key]
    amount = _ranked_by(table)
    # Columns of a table never begin with _, so that these are not taken for some of its key.
    after = staged.select(*key, _as_struct(values).alias(_AFTER), amount.alias("_new_amount"))
    before = accepted.select(*key, _as_struct(values).alias(_BEFORE), amount.alias("_old_amount"))
    differing = [_differs(name).cast("int") for name in values]
    moves = F.abs(F.coalesce("_new_amount", F.lit(0)) - F.coalesce("_old_amount", F.lit(0)))
    rank: list[Column | str] = [
        F.col(_BEFORE).isNull() | F.col(_AFTER).isNull(),
        moves.desc(),
        sum(differing, F.lit(0)).desc(),
        F.xxhash64(*key),
        *key,
    ]
    found = (
        after.join(before, on=key, how="full_outer")
        .where(~F.col(_AFTER).eqNullSafe(F.col(_BEFORE)))
        .withColumn(_KIND, _kind(table, values))
        .withColumn(_PLACE, F.row_number().over(Window.partitionBy(_KIND).orderBy(*rank)))
        .where(F.col(_PLACE) <= most)
        .orderBy(*rank)
        .collect()
    )
    there = Counter(RowKind(row[_KIND]) for row in found)
    given = places(there, most)
    moved = [row for row in found if row[_PLACE] <= given[RowKind(row[_KIND])]]
    return tuple(
        SampledRow(
            partition=row[column],
            key=texts(row, key),
            before=texts(row[_BEFORE], values) if row[_BEFORE] is not None else None,
            after=texts(row[_AFTER], values) if row[_AFTER] is not None else None,
        )
        for row in moved
    )


def _differs(name: str) -> Column:
    return ~F.col(f"{_AFTER}.{name}").eqNullSafe(F.col(f"{_BEFORE}.{name}"))


def _kind(table: Table, values: Sequence[str]) -> Column:
    """How a row differs."""
    breakdown = table.breakdown if isinstance(table, DerivedTable) else None
    telling = dict.fromkeys([*(breakdown.by if breakdown else ()), *(c.column for c in coded_columns(table, values))])
    moved = (_differs(name) for name in telling if name in values)
    return (
        F.when(F.col(_BEFORE).isNull(), F.lit(str(RowKind.ADDED)))
        .when(F.col(_AFTER).isNull(), F.lit(str(RowKind.REMOVED)))
        .when(reduce(Column.__or__, moved, F.lit(False)), F.lit(str(RowKind.STATE)))
        .otherwise(F.lit(str(RowKind.CHANGED)))
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
    return F.struct(*values) if values else F.struct(F.lit(True).alias("_present"))


def key_columns(table: Table) -> list[str]:
    """The columns that identify a row, the partition first."""
    column = table.partition.column
    return [column, *(name for name in table.row_key if name != column)]


class RowKind(StrEnum):
    """How a row differs, in the order in which places are given out.

    STATE: on both sides, with another value of a dimension or of a column with few values. CHANGED: on both sides, with
    other values of other columns.
    """

    STATE = "STATE"
    ADDED = "ADDED"
    REMOVED = "REMOVED"
    CHANGED = "CHANGED"


def rows_of_kind(found: Measured, kind: RowKind) -> int:
    """How many rows of a partition differ in this way, as far as its gates list the values of its columns."""
    match kind:
        case RowKind.STATE:
            return sum(each.rows for each in found.state_moves if each.is_another_state)
        case RowKind.ADDED:
            return found.added
        case RowKind.REMOVED:
            return found.removed
        case RowKind.CHANGED:
            return found.changed


def most_moved(measured: Mapping[date, Measured], *, most: int = 3) -> tuple[date, ...]:
    """The partitions that rows are sampled from; none without changes.

    Args:
        measured: The measurements of partitions with accepted rows.
        most: How many partitions, unless more are needed to have the one with the most rows of every kind.
    """
    moved = {p: m.added + m.removed + m.changed for p, m in measured.items()}
    ranked = sorted((p for p, count in moved.items() if count), key=lambda p: (-moved[p], p))
    best = [
        max(ranked, key=lambda p: (rows_of_kind(measured[p], kind), moved[p], -p.toordinal()))
        for kind in RowKind
        if any(rows_of_kind(measured[p], kind) for p in ranked)
    ]
    chosen = list(dict.fromkeys([*best, *ranked]))
    return tuple(sorted(chosen[: max(most, len(set(best)))]))


def places(there: Mapping[RowKind, int], most: int) -> Mapping[RowKind, int]:
    """How many rows of each kind are shown: the same number of all, and what a kind cannot fill goes to the others.

    Args:
        there: How many rows of each kind there are.
        most: How many are shown together.
    """
    given = dict.fromkeys(RowKind, 0)
    while sum(given.values()) < most:
        wanting: Sequence[RowKind] = [kind for kind in RowKind if given[kind] < there.get(kind, 0)]
        if not wanting:
            break
        for kind in wanting[: most - sum(given.values())]:
            given[kind] += 1
    return given
