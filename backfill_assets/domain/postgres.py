"""What a source that is captured from PostgreSQL declares besides its table: columns and operations of its records."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, TimestampType

from backfill_assets.capture.postgres_table import COMMITTED_AT, LSN, OPERATION, OPERATIONS, POSITION
from backfill_assets.domain.operations import Operations

POSTGRES_COLUMNS = (
    StructField(OPERATION, StringType(), nullable=False),
    StructField(LSN, LongType(), nullable=False),
    StructField(POSITION, LongType(), nullable=False),
    StructField(COMMITTED_AT, TimestampType(), nullable=False),
)
"""The columns of a schema besides those of the table: what was done, in which order, and when it was committed."""

POSTGRES_OPERATIONS = Operations(column=OPERATION, at=COMMITTED_AT, **OPERATIONS)
"""How records of a snapshot and of changes name their operation."""
