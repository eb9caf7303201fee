"""Sources: the landed files, and the contract of their records."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import SourceTable, daily

case_events = SourceTable(
    name="bronze.case_events",
    description="""What happened to enforcement cases, as the authorities reported it.

    Grain: one row per event; the latest arrival of an `event_id` wins, so a correction is the same id sent again.
    Key: event_id.
    Source: spec "SLA clocks of enforcement cases", Tables.
    """,
    key=("event_id",),
    event_time="event_time",
    partition=daily("event_date"),
    schema=StructType(
        [
            StructField("event_id", StringType(), nullable=False),
            StructField("case_id", StringType(), nullable=False),
            StructField("jurisdiction", StringType(), nullable=False),
            StructField("event_type", StringType(), nullable=False),
            StructField("event_time", TimestampType(), nullable=False),
            StructField("attributes", StringType()),
            # Older exports do not have it.
            StructField("schema_version", IntegerType()),
        ]
    ),
    json_columns=("attributes",),
)
