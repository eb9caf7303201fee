"""Sources: the landed files, and the contract of their records."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import SourceTable, daily

case_events = SourceTable(
    name="bronze.case_events",
    description="""Events of enforcement cases, as the authorities reported them.

    Grain: one row per event; the latest arrival of an `event_id` wins, so a correction is the same id sent again.
    Key: event_id.
    Source: spec "SLA clocks of enforcement cases", Tables.
    """,
    key=("event_id",),
    event_time="event_time",
    partition=daily("event_date"),
    schema=StructType(
        [
            StructField(
                "event_id",
                StringType(),
                nullable=False,
                metadata={"comment": "Names the event; sent again, it is a correction."},
            ),
            StructField("case_id", StringType(), nullable=False, metadata={"comment": "The case that it happened to."}),
            StructField(
                "jurisdiction",
                StringType(),
                nullable=False,
                metadata={"comment": "Whose time zone, holidays and deadlines apply."},
            ),
            StructField(
                "event_type", StringType(), nullable=False, metadata={"comment": "Events, such as NOTICE_SENT."}
            ),
            StructField(
                "event_time", TimestampType(), nullable=False, metadata={"comment": "When it happened, in UTC."}
            ),
            StructField("attributes", StringType(), metadata={"comment": "A JSON object with what else is known."}),
            # Older exports do not have it.
            StructField("schema_version", IntegerType(), metadata={"comment": "The version of the export."}),
        ]
    ),
    json_columns=("attributes",),
)
