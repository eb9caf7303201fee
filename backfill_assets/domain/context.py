"""Transform context: what a transform may use in addition to its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING, Any

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.planning.manifest_parts import Mode, RunPurpose

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformContext:
    """The context of one call of a transform: no clock, no environment, nothing that differs for another run."""

    run_id: str  #: The run for which it is called.
    kind: RunPurpose  #: Why history is computed.
    mode: Mode  #: How the run may act.
    transform_version: str  #: The registered release that was called.
    #: The days from the first to the last output day of this call, half-open. Rows of other partitions than
    #: `output_partitions` are dropped by the caller, so a transform may use the range to save work, never to decide a
    #: value.
    output: DayRange
    output_partitions: tuple[date, ...]  #: The output partitions, in order; a set may leave gaps between them.
    #: Per argument, the first to the last input day that was read, warm-up included. Where the output has gaps, only
    #: the windows of the output partitions were read.
    input_days: Mapping[str, DayRange]
    references: Mapping[str, Any]  #: The parsed reference values that the table declares, by name.
    #: For building small DataFrames from references; a transform reads nothing with it and runs no action.
    spark: SparkSession

    def frame(self, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
        """A small DataFrame of known rows, such as a calendar from a reference.

        It is handed over as Arrow and becomes part of the plan: unlike `spark.createDataFrame(rows)` it needs no Python
        worker, and Spark knows that it is small enough to be sent to every task.

        Args:
            rows: Values in the order of the columns.
        """
        return frame_of(self.spark, rows, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContext:
    """The context of a gate on rows that fail, as its function is given it by the argument `ctx`."""

    output: DayRange  #: The days from the first to the last partition that is measured, half-open.
    output_partitions: tuple[date, ...]  #: The partitions that are measured: rows of others do not count.
    grain: Grain  #: Whether a partition is a day or a month.
    partition: str  #: The name of the partition column.
    partition_columns: Mapping[str, str]  #: The name of the partition column of each frame, by the name of the frame.
    key: tuple[str, ...]  #: The key of the table.
    references: Mapping[str, Any]  #: The parsed reference values that the gate names, by name.
    #: For building small DataFrames from references; a gate reads nothing with it and runs no action.
    spark: SparkSession

    def partition_of(self, day: Column) -> Column:
        """The partition that a day is in."""
        from pyspark.sql import functions as sf

        return day if self.grain is Grain.DAILY else sf.trunc(day, "month").cast("date")

    def frame(self, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
        """A small DataFrame of known rows, as `TransformContext.frame` makes it.

        Args:
            rows: Values in the order of the columns.
        """
        return frame_of(self.spark, rows, schema)


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
    """A small DataFrame of known rows, whose name tells its keys."""
    # Imported here because only a running function needs it, and loading a domain should be fast.
    from pyspark.sql.types import StructType

    columns = StructType.fromDDL(schema)
    assert isinstance(columns, StructType), "a list of columns is a struct"
    known = [tuple(row) for row in rows]
    made = known_rows(spark, known, columns)
    keys = _keys_of(known, columns.fieldNames())
    # A plan says nothing of values: by this name it tells which columns decide about a row.
    return made.alias(f"{FRAME}{' or '.join(map(', '.join, keys))}") if keys else made


FRAME = "frame by "
"""The prefixes of names by which a plan tells frames of known rows, followed by their keys."""
_MOST_KEYED_ROWS = 100_000
_MOST_COLUMNS = 3


def _keys_of(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[tuple[str, ...]]:
    """The sets of columns of which no two rows hold the same, and no row a null, without those that hold another."""
    if len(rows) > _MOST_KEYED_ROWS:
        return []
    if len(rows) < 2:
        return [()]
    cells = [[None if cell is None else _equal_to(cell) for cell in column] for column in zip(*rows, strict=True)]
    found: list[tuple[int, ...]] = []
    filled = [place for place, column in enumerate(cells) if None not in column]
    for size in range(1, _MOST_COLUMNS + 1):
        for places in combinations(filled, size):
            is_larger = any(set(each) <= set(places) for each in found)
            if not is_larger and _are_different(zip(*(cells[place] for place in places), strict=True)):
                found.append(places)
    return [tuple(names[place] for place in places) for places in found]


def _equal_to(cell: Any) -> object:
    """A normal form that equal column values share, such as the decimals 1.0 and 1.00."""
    is_number = isinstance(cell, int | float | Decimal) and cell == cell
    return cell if is_number or isinstance(cell, date) else repr(cell)


def _are_different(values: Iterable[object]) -> bool:
    seen = set[object]()
    for each in values:
        if each in seen:
            return False  # soon, of most columns
        seen.add(each)
    return True


def known_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType) -> DataFrame:
    """A small DataFrame of known rows, handed over as Arrow.

    Args:
        rows: Values in the order of the columns.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, arrow, strict=True)]
    table: Any = pa.Table.from_arrays(arrays, schema=arrow)
    return spark.createDataFrame(table, schema=schema)
