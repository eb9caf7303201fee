"""Schemas of Delta tables: which change a table can follow, and the schema that holds files of both sides.

A table is never rewritten for it: its schema changes in the commit that first publishes files of the new one.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from deltalake import DeltaTable, Schema
from pyspark.sql.types import StructField, StructType

from backfill_assets.core.columns import differing_columns
from backfill_assets.core.widening import needs_rule, widened


def schema_of(handle: DeltaTable) -> StructType:
    """The columns of a Delta table."""
    return StructType.fromJson(json.loads(handle.schema().to_json()))


def cannot_follow(found: StructType, wanted: StructType, former: Collection[str] | None) -> str | None:
    """Why a table cannot take files of other columns, as a part of a sentence; None if it can.

    Args:
        found: The table's columns.
        wanted: Those of the files.
        former: Columns of earlier contracts, which new files may lack, and with which come rules for old rows; None
            for a table whose columns have no versions.
    """
    # Whether values can be null is not compared: that is measured in the rows.
    kept = [f for f in found.fields if f.name in wanted.fieldNames() or f.name not in (former or ())]
    before = StructType([StructField(f.name, f.dataType, nullable=False) for f in kept])
    added = set(wanted.fieldNames()) - set(found.fieldNames())
    if not needs_rule(before, wanted, ruled=() if former is None else added):
        return None
    return differing_columns(*([(f.name, f.dataType.simpleString()) for f in each.fields] for each in (before, wanted)))


def follows_in_swap(handle: DeltaTable, wanted: StructType) -> bool:
    """Whether the next publication of files with these columns changes the table's schema."""
    return schema_after(handle, wanted) is not None


def schema_after(handle: DeltaTable, wanted: StructType) -> Schema | None:
    """The schema that the table has once it takes files of these columns; None when it has it already."""
    found = schema_of(handle)
    if cannot_follow(found, wanted, former=found.fieldNames()):
        return None  # staged before the declaration changed, or put back after it
    after = widened(found, wanted, former=found.fieldNames())
    return None if after == found else Schema.from_json(after.json())
