"""Partitioning: the date column of a table, and what every declaration of a table has."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from backfill_assets.domain.gates import Gate
from backfill_assets.domain.mistakes import (
    Kind,
    a,
    several,
)
from backfill_assets.planning.partitions import Grain
from backfill_assets.planning.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The date column that a table is partitioned by, and how many days a partition covers."""

    column: str
    grain: Grain


def daily(column: str) -> Partitioning:
    """One partition per day."""
    return Partitioning(column=column, grain=Grain.DAILY)


def monthly(column: str) -> Partitioning:
    """One partition per month, named by its first day."""
    return Partitioning(column=column, grain=Grain.MONTHLY)


OF_EVERY_TABLE = {
    "key": several(str, "column names, such as ('case_id',)"),
    "partition": Kind(
        words="daily(COLUMN) or monthly(COLUMN)",
        test=lambda value: isinstance(value, Partitioning) and isinstance(value.column, str),
    ),
    "schema": a(StructType, "a StructType of pyspark.sql.types"),
    "gates": several(Gate, "gates, such as (unique_key(),)"),
    "policy": a(Policy, "a Policy"),
    "description": a(str, "a text"),
}
