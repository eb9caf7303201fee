"""What a source declares whose records are change events of Debezium: columns and operations of its records."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, TimestampType

from backfill_assets.capture.debezium import COMMIT, COMMITTED_AT, LSN, OPERATION, OPERATIONS
from backfill_assets.domain.operations import Operations

DEBEZIUM_COLUMNS = (
    StructField(OPERATION, StringType(), nullable=False),
    StructField(COMMIT, LongType(), nullable=False),
    StructField(LSN, LongType(), nullable=False),
    StructField(COMMITTED_AT, TimestampType(), nullable=False),
)
"""The columns of a schema besides those of the table: what was done, in which order, and when it was committed."""

DEBEZIUM_OPERATIONS = Operations(column=OPERATION, at=COMMITTED_AT, **OPERATIONS)
"""How change events name their operation."""
