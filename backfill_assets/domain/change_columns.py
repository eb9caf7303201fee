"""What a source declares besides its table whose records are changes: columns and operations of its records."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, TimestampType

from backfill_assets.capture import debezium, postgres_table
from backfill_assets.domain.operations import Operations


def _columns(operation: str, order: tuple[str, ...], committed_at: str) -> tuple[StructField, ...]:
    """What was done, in which order, and when it was committed."""
    return (
        StructField(operation, StringType(), nullable=False),
        *(StructField(name, LongType(), nullable=False) for name in order),
        StructField(committed_at, TimestampType(), nullable=False),
    )


DEBEZIUM_COLUMNS = _columns(debezium.OPERATION, debezium.ORDER, debezium.COMMITTED_AT)
POSTGRES_COLUMNS = _columns(postgres_table.OPERATION, postgres_table.ORDER, postgres_table.COMMITTED_AT)
"""The columns of a schema besides those of the table."""

DEBEZIUM_OPERATIONS = Operations(column=debezium.OPERATION, at=debezium.COMMITTED_AT, **debezium.OPERATIONS)
POSTGRES_OPERATIONS = Operations(
    column=postgres_table.OPERATION, at=postgres_table.COMMITTED_AT, **postgres_table.OPERATIONS
)
"""How change events, and the records of a snapshot and of changes, name their operation."""
