"""Call of a gate on rows that fail: what an author's function, or query, returns of the frames that it is given.

It only describes rows, as a transform does, and by the same rules; nothing is counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, StructType

from backfill_assets.core.columns import in_sql
from backfill_assets.core.wording import visible
from backfill_assets.domain import DerivedTable, Failing, GateContext, Table
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.failing_rows import ACCEPTED, AROUND, CANDIDATE, CONTEXT, EXPECTED, FOUND, Frames, query_of
from backfill_assets.transforms.apply import called, input_keys, key_of
from backfill_assets.transforms.definitions import Sources
from backfill_assets.transforms.dependencies import Keys
from backfill_assets.transforms.spark_plan import require_determined_plan, with_key


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingFrame:
    """The rows that fail a gate, as its function described them."""

    gate: Failing  #: The gate.
    rows: DataFrame  #: The rows; nothing of them is computed yet.
    key: tuple[str, ...]  #: The columns that name a row, the partition first.
    calls_python: bool  #: Whether Spark calls functions of Python for them.
    place: str  #: Where the gate is declared, as the end of a sentence.


def called_gate(gate: Failing, table: Table, frames: Frames, ctx: GateContext, sources: Sources) -> FailingFrame:
    """The result of a gate for these frames.

    Args:
        frames: At least what it names, without its context.
        sources: Which modules are the author's.

    Raises:
        ContractBroken: It failed, as a transform fails; it returned rows without the partition column, or a column
            twice; or what is read of them depends on an order that nothing decides.
    """
    named = gate_of(gate, table)
    given: dict[str, Any] = {name: ctx if name == CONTEXT else with_key(frames[name], name) for name in gate.named}
    function = partial(_selected, gate.sql, ctx.spark) if gate.rows is None else gate.rows
    taken = given if gate.then is None else {name: given[name] for name in gate.takes}
    declared = visible(f", in {gate.place}") if gate.place else ""
    rows, found, places = called(named, function, taken, ctx.spark, sources, declared)
    if gate.then is not None:
        then, both = partial(gate.then, returned=rows), {"ctx": ctx, "candidate": given[CANDIDATE]}
        rows, found, _ = called(named, then, both, ctx.spark, sources, declared)
    if problem := _wrong_shape(found, table):
        raise CodeBroken(code=named, problem=f"returned rows {problem}{declared}")
    key = _key_of(found, table, is_whole=not gate.release and gate.then is None)
    said = [name for name in (EXPECTED, FOUND) if name in found.fieldNames() and name not in key]
    plan = require_determined_plan(
        rows.select(*(in_sql(name) for name in (*key, *said))),  # what is counted and shown of them
        named,
        # A gate of this project is released without ties, whatever expressions it is given.
        keys=None if gate.release else _keys_of_frames(gate, table),
        declared=gate.undetermined,
        # Of a query no line of the author calls Spark.
        placed=lambda tie: ("" if gate.sql else places.of(tie)) or declared,
    )
    return FailingFrame(gate=gate, rows=rows, key=key, calls_python=plan.calls_python, place=declared)


def gate_of(gate: Failing, table: Table) -> str:
    """A gate, as its errors name it."""
    return f"the gate {gate.name} of {table.name}"


def _keys_of_frames(gate: Failing, table: Table) -> Keys:
    """The columns by which the rows of each frame are unique, by the names under which plans hold them."""
    keys = dict(input_keys(table)) if isinstance(table, DerivedTable) else {}
    keys |= {f"input {name}": key_of(table) for name in (CANDIDATE, ACCEPTED, AROUND)}
    return keys | {f"input {each.argument}": key_of(each.table, changes=each.changes) for each in gate.reads}


def _selected(sql: str, spark: SparkSession, **frames: Any) -> DataFrame:
    return spark.sql(query_of(sql, frames), **frames)


def _wrong_shape(found: StructType, table: Table) -> str | None:
    """Why rows cannot be counted by partition, as the end of a sentence; None if they can."""
    names, column = found.fieldNames(), table.partition.column
    if column not in names:
        return f"without the partition column {column!r}, by which they are counted: it has {', '.join(names)}"
    if twice := sorted({name for name in names if names.count(name) > 1}):
        return f"with {', '.join(twice)} twice"
    if not isinstance(kind := found[column].dataType, DateType):
        return f"whose partition column {column!r} is {kind.simpleString()}, and has to be date"
    return None


def _key_of(found: StructType, table: Table, *, is_whole: bool) -> tuple[str, ...]:
    """The columns that name a row: those of the key of the table, or without any all that say nothing else.

    Args:
        is_whole: Whether it can have columns besides those that name it, as the rows of an author's function have.
    """
    names, partition = found.fieldNames(), table.partition.column
    others = [name for name in table.row_key if is_whole and name in names and name != partition]
    if not others:
        others = [name for name in names if name not in (partition, EXPECTED, FOUND)]
    return (partition, *others)


Called = Mapping[str, FailingFrame]
"""What gates returned, by their names."""
