"""Failing rows: up to five keys of rows that fail each gate, for a reviewer.

Keys are values of rows: they are kept where they can be erased, never in a verdict or among what a gate observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.domain import AddsOnly, ComparedWithAccepted, Table, UniqueKey
from backfill_assets.domain.gates import WARM_UP
from backfill_assets.gates.comparison import key_columns
from backfill_assets.gates.measure import violations
from backfill_assets.gates.measured import Proven
from backfill_assets.lake.row_values import instants_in, texts
from backfill_assets.ledger.findings import FailingKey, GateResult, SampledRow

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
            found += [
                FailingKey(gate=gate.name, partition=row.partition, key=row.key)
                for row in differing(failed[gate.name][0])
            ]
    if WARM_UP in failed:
        recomputed = [row for each in proven for row in each.examples]
        found += [FailingKey(gate=WARM_UP, partition=row.partition, key=row.key) for row in recomputed[:MOST_KEYS]]
    return tuple(found)


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
