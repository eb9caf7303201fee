"""Lineage columns: the columns of every row in addition to its business columns."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, StructType

DERIVED_LINEAGE = StructType(
    [
        StructField(name, StringType(), nullable=True)
        for name in (
            "_run_id",
            "_kind",
            "_mode",
            "_transform",
            "_transform_version",
            "_input_version",
            "_reference_versions",
            "_restatement_reason",
        )
    ]
)
"""On every row of a derived table (DESIGN, Identity)."""

SOURCE_LINEAGE = StructType(
    [
        StructField("_import_id", StringType(), nullable=True),
        StructField("_row", LongType(), nullable=True),
        StructField("_run_id", StringType(), nullable=True),
    ]
)
"""On every row of a source table: the landed file, the line or row in it, and the run that loaded it."""
