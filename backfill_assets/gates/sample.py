"""Sample: some of the changed rows, before and after.

Only the few partitions with the most changes are read again, and the same rows are chosen every time: of each kind of
difference those that differ most, and among equals those whose key has the smallest MD5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import partial
from math import isnan
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import AMOUNT, Shape
from backfill_assets.gates.comparison import Comparing, compare_frames, shape_of
from backfill_assets.gates.measured import Measured
from backfill_assets.lake.row_values import instants_in, rows_of_arrow, texts
from backfill_assets.ledger.findings import SampledRow

MOST_ROWS = 20


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
    shape = shape_of(table, table.schema)
    new, old = (with_amount(frame, table) for frame in (staged, accepted))
    return shown(compare_frames(new, old, sampling(shape, most), shape), table, most)


def sampling(shape: Shape, most: int = MOST_ROWS) -> Comparing:
    """Chooses the rows that differ most."""
    return partial(by_values.most_different, shape=shape, most=most)


def with_amount(frame: DataFrame, table: Table) -> DataFrame:
    """Rows with what each adds to the measure that ranks them; as they are where none is named."""
    breakdown = table.breakdown if isinstance(table, DerivedTable) else None
    if breakdown is None or breakdown.rank_rows_by is None:
        return frame
    return frame.withColumn(AMOUNT, F.expr(breakdown.measures[breakdown.rank_rows_by]).cast("double"))


def shown(found: Iterable[pa.Table], table: Table, most: int = MOST_ROWS) -> tuple[SampledRow, ...]:
    """The rows that are shown, of those that were chosen among several groups of partitions."""
    shape, instants = shape_of(table, table.schema), instants_in(table.schema)
    ranked = sorted((row for each in found for row in rows_of_arrow(each)), key=_rank)
    given = places(Counter(RowKind(row["kind"]) for row in ranked), most)
    rows = {kind: [row for row in ranked if row["kind"] == kind][: given[kind]] for kind in RowKind}
    return tuple(
        _sampled(row, shape, instants) for row in ranked if any(row is kept for kept in rows[RowKind(row["kind"])])
    )


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Rows on both sides first, then those that move the measure most, then by columns; NaN is more than any number."""
    moved = row["moved"]
    return row["missing"], not isnan(moved), -moved, -row["differing"], row["tie"]


def _sampled(row: Mapping[str, Any], shape: Shape, instants: Collection[str]) -> SampledRow:
    key = {name: row[f"k_{n}"] for n, name in enumerate(shape.key)}
    sides = {
        side: texts({name: row[f"{side}_{n}"] for n, name in enumerate(shape.values)}, shape.values, instants)
        for side in ("before", "after")
    }
    return SampledRow(
        partition=key[shape.key[0]],
        key=texts(key, shape.key, instants),
        before=sides["before"] if row["on_accepted"] else None,
        after=sides["after"] if row["on_staged"] else None,
    )


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
        measured: The measurements of partitions with accepted rows, or of all of a first build.
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
