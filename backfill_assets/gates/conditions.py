"""Gate conditions: one Spark column for each gate on rows, true for a violation."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.domain import (
    AcceptedValues,
    ComparedWithAccepted,
    Gate,
    Moved,
    NotNull,
    Operation,
    RowCount,
    RowExpression,
    SchemaMatches,
    SourceTable,
    Table,
    UniqueKey,
    WarmUpProof,
)
from backfill_assets.domain.operations import OPERATION


def violation(gate: Gate, table: Table) -> Column | None:
    """True for a row that violates the gate; None for gates that are not about single rows."""
    match gate:
        case NotNull():
            return F.col(gate.column).isNull()
        case AcceptedValues():
            return F.col(gate.column).isNotNull() & ~F.col(gate.column).isin(*gate.values)
        case RowExpression():
            # A condition that is null is not satisfied.
            return ~F.coalesce(F.expr(gate.condition), F.lit(False))
        case SchemaMatches():
            required = [field.name for field in table.schema.fields if not field.nullable]
            return F.greatest(F.lit(False), F.lit(False), *(F.col(name).isNull() for name in required))
        case UniqueKey() | RowCount() | ComparedWithAccepted() | WarmUpProof() | Moved():
            return None


def violations(table: Table) -> Mapping[str, Column]:
    """The violation columns of a table's gates, by gate name."""
    found = {gate.name: violation(gate, table) for gate in table.gates}
    # Gates are about states: the row of a delete has no values but its key.
    changelog = isinstance(table, SourceTable) and table.operation is not None
    is_state = F.col(OPERATION) != F.lit(str(Operation.DELETE)) if changelog else F.lit(True)
    return {name: is_state & column if changelog else column for name, column in found.items() if column is not None}
