"""Affected versions: those of the keys that landed files can change, with these files and without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegralType, StringType

from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import OPERATION
from backfill_assets.files.port import Files
from backfill_assets.landing.compacted import earlier_versions
from backfill_assets.landing.conformed import valid_rows
from backfill_assets.landing.key_versions import version_columns
from backfill_assets.ledger.import_records import ImportRecord

PHASE, WITHOUT, WITH = "_phase", "without", "with"
"""Of a version: whether the landed files are there; those of earlier files are in both phases."""

_MANY = 200_000
"""Of so many earlier records it is worth a job to leave out what cannot be of the same keys."""


def affected_versions(
    spark: SparkSession,
    landing: Files,
    source: SourceTable,
    imports: Sequence[ImportRecord],
    others: Sequence[ImportRecord],
) -> DataFrame:
    """All versions of the keys that imports can affect, and once more those without these imports.

    Args:
        spark: The session.
        landing: The landing folder.
        source: The source table.
        imports: The imports.
        others: The other imports that count.
    """
    mine = valid_rows(spark, landing, source, imports).select(*version_columns(source))
    if not others:
        return mine.withColumn(PHASE, F.lit(WITH))
    theirs = earlier_versions(spark, landing, source, others)
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    truncates = source.operation is not None and source.operation.truncate is not None
    many = sum(record.counts.landed for record in others) > _MANY
    first, last, is_ended = _reach(mine, source, is_truncate) if truncates or many else (None, None, False)
    if truncates and is_ended:
        affected = theirs
    else:
        keys = mine.select(*source.key).distinct()
        near = theirs if first is None else theirs.where(F.col(source.key[0]).between(F.lit(first), F.lit(last)))
        affected = near.join(keys, on=list(source.key), how="left_semi").select(*mine.columns)
        if truncates:
            affected = affected.unionByName(theirs.where(is_truncate))
    return in_both_phases(mine, affected)


def in_both_phases(mine: DataFrame, affected: DataFrame) -> DataFrame:
    """The versions of landed files, and those of the same keys that others have, with these files and without them."""
    phases = F.explode(F.array(F.lit(WITHOUT), F.lit(WITH)))
    return mine.withColumn(PHASE, F.lit(WITH)).unionByName(affected.withColumn(PHASE, phases))


def _reach(mine: DataFrame, source: SourceTable, is_truncate: Column) -> tuple[Any, Any, bool]:
    """The smallest and the largest value of the first key column, by which files of earlier versions are left out, and
    whether there is a truncate."""
    name = source.key[0]
    is_plain = isinstance(source.schema[name].dataType, (StringType, IntegralType, DateType))
    key = F.col(name) if is_plain else F.lit(None)
    found = mine.agg(F.min(key), F.max(key), F.max(is_truncate)).collect()[0]
    return found[0], found[1], bool(found[2])
