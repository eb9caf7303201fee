"""Failing rows: how many rows fail each gate in each partition, and some of them with what was expected and found.

The rows of all gates of a run are counted in one query. Some are read only of gates that failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from backfill_assets.core.columns import in_sql
from backfill_assets.domain import Grain, Table
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.failing_rows import EXPECTED, FOUND
from backfill_assets.lake.row_values import instants_in, texts
from backfill_assets.ledger.findings import FailingKey

MOST_KEYS = 5
_MOST_PARTITIONS = 20
"""The number of partitions, from the first that fails a gate, in which rows are searched."""

_GATE, _PARTITION, _ROWS = "_gate", "_partition", "_rows"


class RowsOfGate(Protocol):
    """The rows that fail a gate, which are not computed yet."""

    @property
    def rows(self) -> DataFrame: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def place(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingRows:
    """The failing rows that one gate found."""

    #: How many rows fail it, by partition; partitions without any are absent.
    rows: Mapping[date, int] = field(default_factory=dict)
    #: By partition, a table that it reads there and the partitions of it that are not accepted.
    lacking: Mapping[date, tuple[str, tuple[date, ...]]] = field(default_factory=dict)
    #: The partitions of which its reference has no entry, so that it asks nothing there.
    unknown: Collection[date] = ()


def count_failing(
    asked_for: Mapping[str, RowsOfGate], table: Table, partitions: Sequence[date]
) -> Mapping[str, FailingRows]:
    """Counts the rows that fail each gate in each of these partitions, all in one query.

    Raises:
        ContractBroken: A row has no partition, so that it is of none.
    """
    if not asked_for:
        return {}
    each = [
        _within(frame.rows, table, partitions).select(F.lit(name).alias(_GATE), _partition(table).alias(_PARTITION))
        for name, frame in asked_for.items()
    ]
    counted = reduce(DataFrame.unionAll, each).groupBy(_GATE, _PARTITION).agg(F.count(F.lit(1)).alias(_ROWS))
    found: dict[str, dict[date, int]] = {name: {} for name in asked_for}
    for row in counted.collect():
        if row[_PARTITION] is None:
            place = asked_for[row[_GATE]].place
            problem = f"returned rows without a value of {table.partition.column!r}, by which they are counted{place}"
            raise CodeBroken(code=f"the gate {row[_GATE]} of {table.name}", problem=problem)
        found[row[_GATE]][row[_PARTITION]] = row[_ROWS]
    asked = set(partitions)
    return {
        name: FailingRows(rows={p: count for p, count in rows.items() if p in asked}) for name, rows in found.items()
    }


def failing_examples(
    gate: str, asked_for: RowsOfGate, table: Table, partitions: Iterable[date]
) -> tuple[FailingKey, ...]:
    """Some of the rows that fail a gate: the first by partition, key and what is said of them, the same on every call.

    Args:
        partitions: Those in which it failed, in order.
    """
    chosen = tuple(partitions)[:_MOST_PARTITIONS]
    names = asked_for.rows.schema.fieldNames()
    said = [name for name in (EXPECTED, FOUND) if name in names and name not in asked_for.key]
    column = table.partition.column
    rows = _within(asked_for.rows, table, chosen).where(_partition(table).isin(list(chosen)))
    first = rows.select(*asked_for.key, *said).orderBy(*_order(asked_for, said)).limit(MOST_KEYS)
    instants = instants_in(asked_for.rows.schema)
    found = []
    for row in first.collect():
        values = texts(row, (*asked_for.key, *said), instants)
        found.append(
            FailingKey(
                gate=gate,
                partition=_first_day(row[column], table),
                key={name: values[name] for name in asked_for.key},
                expected=_said(values, EXPECTED, said),
                found=_said(values, FOUND, said),
            )
        )
    return tuple(found)


def _said(values: Mapping[str, str | None], name: str, said: Sequence[str]) -> str | None:
    """The text of a gate for a row; null as a word, and None where it has none."""
    return (values[name] or ("null" if values[name] is None else "")) if name in said else None


def _order(asked_for: RowsOfGate, said: Sequence[str]) -> list[Column]:
    """By partition, key and what is said of a row; what has no order of its own, by its text."""
    schema, names = asked_for.rows.schema, (*asked_for.key, *said)
    return [F.to_json(F.struct(name)) if _has_no_order(schema, name) else F.col(in_sql(name)) for name in names]


def _has_no_order(schema: StructType, name: str) -> bool:
    return isinstance(schema[name].dataType, ArrayType | MapType | StructType | VariantType)


def _within(rows: DataFrame, table: Table, partitions: Sequence[date]) -> DataFrame:
    """The rows between the first and the last of these partitions, and those without any."""
    column = _partition(table)
    return rows.where(column.between(F.lit(min(partitions)), F.lit(max(partitions))) | column.isNull())


def _partition(table: Table) -> Column:
    """The partition of a row: a monthly one by any of its days."""
    column = F.col(in_sql(table.partition.column))
    return column if table.partition.grain is Grain.DAILY else F.trunc(column, "month").cast("date")


def _first_day(day: date, table: Table) -> date:
    return day if table.partition.grain is Grain.DAILY else day.replace(day=1)
