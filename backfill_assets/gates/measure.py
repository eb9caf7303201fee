"""Measurement: the content of the staged files, and how it differs from the accepted rows.

Spark adds up each partition in one pass: its rows, its content checksum, the rows that violate a gate, and the cells of
its breakdown by month and business dimensions. No row is shuffled for it: a gate on rows is one column, true for a
violation. The cells of a partition are measured once, in the same pass, and kept.

Rows are compared by key and value (`by_values`), which needs the accepted rows only of partitions whose checksums
differ: over files that this process reads with Arrow, or on Spark's workers over rows that Spark reads, by the same
function and with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
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

from backfill_assets.core.columns import in_sql
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import FileSet, document_digest, fields_of
from backfill_assets.domain import (
    AcceptedValues,
    AddsOnly,
    Breakdown,
    ComparedWithAccepted,
    DerivedTable,
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
    Tolerance,
    UniqueKey,
    Usual,
    WarmUpProof,
)
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.operations import OPERATION
from backfill_assets.gates import by_values
from backfill_assets.gates.by_values import AMOUNT, SIDE, Shape
from backfill_assets.gates.measured import NONE_OF_THESE, ByKey, Measured, StateMove, coded_columns, equal_partitions
from backfill_assets.lake.checksums import (
    HASHES,
    LOW_32_BITS,
    NO_ROWS,
    SUMS,
    checksum_of,
    hash_columns,
    partition_checksums,
    sums_of,
)
from backfill_assets.lake.row_values import texts
from backfill_assets.ledger.findings import BreakdownCell, PartitionCell, PartitionCells, RowChanges

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
