"""Schemas: the columns of a table, and those that are its content."""

from __future__ import annotations

from pyspark.sql.types import DateType, StructField, StructType

from backfill_assets.domain import SourceTable, Table
from backfill_assets.lake.lineage import DERIVED_LINEAGE, SOURCE_LINEAGE


def business_schema(table: Table) -> StructType:
    """The columns whose content is compared and checksummed, the partition column included."""
    if isinstance(table, SourceTable):
        return StructType([*table.schema.fields, StructField(table.partition.column, DateType(), nullable=False)])
    return table.schema


def stored_schema(table: Table) -> StructType:
    """Every column of the Delta table: business columns, then lineage."""
    lineage = SOURCE_LINEAGE if isinstance(table, SourceTable) else DERIVED_LINEAGE
    return StructType([*business_schema(table).fields, *lineage.fields])
