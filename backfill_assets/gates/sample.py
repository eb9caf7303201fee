"""Rows for a reviewer: some of the changed ones, before and after, and up to five keys of rows that fail each gate.

Only the few partitions with the most changes are read again, and the same rows are chosen every time: of each kind of
difference those that differ most, and among equals those whose key has the smallest MD5. Keys are values of rows: they
are kept where they can be erased, never in a verdict or among what a gate observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import partial
from math import isnan
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.domain import AddsOnly, ComparedWithAccepted, DerivedTable, Table, UniqueKey
from backfill_assets.domain.gates import WARM_UP
from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import AMOUNT, Shape
from backfill_assets.gates.measure import Comparing, compare_frames, key_columns, shape_of, violations
from backfill_assets.gates.measured import Measured, Proven
from backfill_assets.lake.row_values import instants_in, rows_of_arrow, texts
from backfill_assets.ledger.findings import FailingKey, GateResult, SampledRow

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
    """The kind of a row's difference, in the order in which places are given out.

    STATE: on both sides, with another value of a dimension or of a column with few values. CHANGED: on both sides, with
    other values of other columns.
    """

    STATE = "STATE"
    ADDED = "ADDED"
    REMOVED = "REMOVED"
    CHANGED = "CHANGED"


def rows_of_kind(found: Measured, kind: RowKind) -> int:
    """The number of rows of a partition that differ in this way, as far as its gates list the values of its columns."""
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
    """The number of shown rows of each kind: the same of all, and unused places go to the others.

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


MOST_KEYS = 5
_MOST_PARTITIONS = 20
"""The number of partitions, from the first that fails a gate, in which keys are searched."""


def failing_keys(
    staged: DataFrame,
    table: Table,
    results: Iterable[GateResult],
    differing: Callable[[date], Iterable[SampledRow]],
    proven: Iterable[Proven] = (),
) -> tuple[FailingKey, ...]:
    """Keys of rows for which gates failed, at most five of each gate, from the first partitions that fail it.

    Args:
        staged: The candidate's rows.
        table: The declaration, for its key and gates.
        results: The gate results.
        differing: Up to `MOST_KEYS` rows of a partition that differ from the accepted ones.
        proven: The result of the proof of the window, with some of the rows that differ.

    Returns:
        Rows by gate and partition. Gates that count rows, or files, name none.
    """
    failed: dict[str, list[date]] = {}
    for result in sorted(results, key=lambda result: result.partition):
        if not result.passed:
            failed.setdefault(result.gate, []).append(result.partition)
    found = _violating(staged, table, failed)
    for gate in table.gates:
        if isinstance(gate, ComparedWithAccepted | AddsOnly) and gate.name in failed:
            found += [_failing(gate.name, row) for row in differing(failed[gate.name][0])]
    if WARM_UP in failed:
        recomputed = [row for each in proven for row in each.examples]
        found += [_failing(WARM_UP, row) for row in recomputed[:MOST_KEYS]]
    return tuple(found)


def _failing(gate: str, row: SampledRow) -> FailingKey:
    return FailingKey(gate=gate, partition=row.partition, key=row.key, before=row.before, after=row.after)


def _violating(staged: DataFrame, table: Table, failed: Mapping[str, Sequence[date]]) -> list[FailingKey]:
    """Rows that violate gates on rows, the first of each gate by partition and key, in one pass."""
    key = key_columns(table)
    conditions = {name: condition for name, condition in violations(table).items() if name in failed}
    rows = staged
    for gate in table.gates:
        if isinstance(gate, UniqueKey) and gate.name in failed:
            same = Window.partitionBy(table.partition.column, *gate.columns).orderBy(*gate.columns)
            rows = rows.withColumn("_nth", F.row_number().over(same))
            # A key is listed once, even if several rows share it.
            conditions[gate.name] = F.col("_nth") == 2
    if not conditions:
        return []
    partitions = sorted({partition for name in conditions for partition in failed[name][:_MOST_PARTITIONS]})
    violated = F.array_compact(F.array(*(F.when(condition, F.lit(name)) for name, condition in conditions.items())))
    first = Window.partitionBy("_gate").orderBy(*key)
    chosen = (
        rows.where(F.col(table.partition.column).isin(partitions))
        .select(*key, F.explode(violated).alias("_gate"))
        .withColumn("_place", F.row_number().over(first))
        .where(F.col("_place") <= MOST_KEYS)
        .orderBy("_gate", "_place")
    )
    instants = instants_in(table.schema)
    return [
        FailingKey(gate=row["_gate"], partition=row[table.partition.column], key=texts(row, key, instants))
        for row in chosen.collect()
    ]
