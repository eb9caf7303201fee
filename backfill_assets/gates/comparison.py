"""Comparison: how many keys of each partition are added, removed, changed and unchanged, and some rows that differ.

Whether rows are equal is decided by their values (`by_values`), here over files that this process reads with Arrow, or
on Spark's workers over rows that Spark reads: the same function, and the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_assets.core.grouped import grouped
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import AMOUNT, SIDE, Shape
from backfill_assets.gates.measured import ByKey
from backfill_assets.gates.moves import NONE_OF_THESE, StateMove, coded_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Comparing: TypeAlias = "Callable[[DuckDBPyConnection], pa.Table]"
"""One of the functions of `by_values`, for two sides that are registered as `staged` and `accepted`."""


def key_columns(table: Table) -> tuple[str, ...]:
    """The columns that identify a row, the partition first."""
    # The same column may be partition and key.
    return tuple(dict.fromkeys((table.partition.column, *table.row_key)))


def shape_of(table: Table, schema: StructType) -> Shape:
    """The shape in which rows of a table are compared.

    Args:
        table: The declaration.
        schema: The business columns, the partition column included.
    """
    key = key_columns(table)
    values = tuple(name for name in schema.fieldNames() if name not in key)
    coded = tuple((each.column, each.values) for each in coded_columns(table, values))
    breakdown = table.breakdown if isinstance(table, DerivedTable) else None
    telling = dict.fromkeys([*(breakdown.by if breakdown else ()), *(column for column, _ in coded)])
    return Shape(
        key=key,
        values=values,
        listed=coded,
        telling=tuple(name for name in telling if name in values),
        is_ranked=breakdown is not None and breakdown.rank_rows_by is not None,
    )


def comparing(shape: Shape, *, is_alone: bool = False) -> Comparing:
    """Counts keys; of a side without another one by its keys alone."""
    return partial(by_values.keys_alone if is_alone else by_values.differences, shape=shape)


def compare_keys(
    staged: DataFrame, accepted: DataFrame | None, table: Table, *, schema: StructType
) -> Mapping[date, ByKey]:
    """Compares the keys of two sides that Spark reads, by partition.

    Args:
        staged: The candidate's rows.
        accepted: The accepted rows; None when there are none to compare with, and then only keys are read.
        table: The declaration, for its key.
        schema: The business columns, the partition column included.
    """
    shape = shape_of(table, schema)
    compare = comparing(shape, is_alone=accepted is None)
    return by_key(compare_frames(staged, accepted, compare, shape), shape)


def compare_frames(
    staged: DataFrame, accepted: DataFrame | None, compare: Comparing, shape: Shape, *, spread: bool = True
) -> Sequence[pa.Table]:
    """Compares rows that Spark reads.

    Args:
        spread: Whether its workers compare them, those of a group of partitions in one task; otherwise this process
            does, and Spark need not start Python for few rows.
    """
    columns = shape.key if accepted is None else side_columns(staged, shape)
    both = staged.select(F.lit(True).alias(SIDE), *columns)
    if accepted is not None:
        both = both.unionAll(accepted.select(F.lit(False).alias(SIDE), *columns))
    if not spread:
        with by_values.opened() as connection:
            connection.register("both_sides", both.toArrow())
            return [by_values.of_both(compare, connection, columns)]
    # By value, so that a worker needs pyarrow and DuckDB, and nothing of this project.
    cloudpickle.register_pickle_by_value(by_values)  # type: ignore[no-untyped-call]
    found = both.repartition(shape.key[0]).mapInArrow(by_values.of_batches(compare, columns), "found binary")
    return [pa.ipc.open_stream(row.found).read_all() for row in found.collect()]


def arriving(frame: DataFrame) -> pa.RecordBatchReader:
    """Rows that Spark reads, as a stream: no more than the batches of one task are in this process at once."""
    cloudpickle.register_pickle_by_value(by_values)  # type: ignore[no-untyped-call]
    found = frame.mapInArrow(by_values.as_bytes, "found binary").toLocalIterator()
    streams = (pa.ipc.open_stream(row.found) for row in found)
    first = next(streams, None)
    if first is None:
        return frame.limit(0).toArrow().to_reader()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first
        for stream in streams:
            yield from stream

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def side_columns(frame: DataFrame, shape: Shape) -> Sequence[str]:
    """The columns of a side that are compared."""
    return [*shape.key, *shape.values, *([AMOUNT] if AMOUNT in frame.columns else [])]


def by_key(found: Iterable[pa.Table], shape: Shape) -> Mapping[date, ByKey]:
    """The keys by partition, from the counts of `by_values`."""
    rows = grouped((row["partition"], row) for table in found for row in table.to_pylist())
    return {partition: _by_key(each, shape) for partition, each in rows.items()}


def _by_key(ways: Sequence[Mapping[str, Any]], shape: Shape) -> ByKey:
    def keys(*, staged: bool, accepted: bool, differs: bool = True) -> int:
        way = (staged, accepted, differs)
        return sum(each["keys"] for each in ways if (each["on_staged"], each["on_accepted"], each["differs"]) == way)

    changed = {name: sum(each.get(f"moved_{n}", 0) for each in ways) for n, name in enumerate(shape.values)}
    return ByKey(
        accepted_rows=sum(each["accepted_rows"] for each in ways),
        surplus=sum(each["surplus"] for each in ways),
        added=keys(staged=True, accepted=False),
        removed=keys(staged=False, accepted=True),
        changed=keys(staged=True, accepted=True),
        unchanged=keys(staged=True, accepted=True, differs=False),
        changed_columns={name: count for name, count in changed.items() if count},
        state_moves=tuple(_moves(ways, shape)),
    )


def _moves(ways: Sequence[Mapping[str, Any]], shape: Shape) -> Iterable[StateMove]:
    for n, (column, listed) in enumerate(shape.listed):
        pairs: dict[tuple[int, int], int] = {}
        for each in ways:
            if each["differs"] and f"before_{n}" in each:
                before, after = (-1 if each[f"{side}_{n}"] is None else each[f"{side}_{n}"] for side in _SIDES)
                pairs[before, after] = pairs.get((before, after), 0) + each["keys"]
        values = (*listed, NONE_OF_THESE)
        for (before, after), rows in sorted(pairs.items()):
            yield StateMove(
                column=column,
                before=None if before < 0 else values[before],
                after=None if after < 0 else values[after],
                rows=rows,
            )


_SIDES = ("before", "after")
