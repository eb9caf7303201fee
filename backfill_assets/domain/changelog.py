"""Changelog: the rows of a source that keeps one."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.domain.operations import ENDED_BY, OPERATION, Operation


def is_current() -> Column:
    """Of a row of a changelog: whether its key exists and is what the row says."""
    return (F.col(OPERATION) != F.lit(str(Operation.DELETE))) & F.col(ENDED_BY).isNull()
