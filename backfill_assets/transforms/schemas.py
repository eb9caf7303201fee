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


def contract_version(table: Table) -> int:
    """The version of a source's contract in which its rows are staged now; a derived table has one schema."""
    return table.contract_version if isinstance(table, SourceTable) else 1


def former_columns(table: Table) -> frozenset[str] | None:
    """The columns of a source's earlier contracts; None for a table whose columns have no versions."""
    if not isinstance(table, SourceTable) or not table.earlier:
        return None
    return frozenset(name for schema in table.earlier.values() for name in schema.fieldNames())
