"""Content checksums: order-independent over the business columns, equal for sets of files with the same rows.

It is a sum, so the checksum of a chunk is that of its partitions together, however rows are split and ordered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

_LOW_32_BITS = 0xFFFFFFFF


def checksum_text(rows: int, low: int, high: int, mixed: int) -> str:
    """The content checksum as text: row count, two sums and the exclusive or of row hashes."""
    return f"xx64:{rows}:{low:x}:{high:x}:{mixed & 0xFFFFFFFFFFFFFFFF:016x}"


NO_ROWS = checksum_text(0, 0, 0, 0)
"""The checksum of a partition without rows."""


def row_hash(schema: StructType) -> Column:
    """A 64-bit hash of a row's business columns."""
    return F.xxhash64(*hashed_values(schema.fields))


def hashed_values(fields: Iterable[StructField]) -> list[Column]:
    """What is hashed of columns, so that equal values have equal hashes.

    Spark's hash skips nulls, so a flag per column keeps (null, 'a') and ('a', null) apart; zeros and NaNs of floating
    columns are normalized before hashing.
    """
    parts: list[Column] = []
    for column in fields:
        value = F.col(column.name)
        if isinstance(column.dataType, (FloatType, DoubleType)):
            value = F.when(F.isnan(value), F.lit(float("nan"))).otherwise(value + F.lit(0.0))
        parts += [value, F.col(column.name).isNull()]
    return parts


def sums_of(row_hashes: Column, prefix: str = "") -> tuple[Column, ...]:
    """The aggregates of a checksum, named `low`, `high` and `mixed`; null hashes add nothing."""
    return (
        F.sum(row_hashes.bitwiseAND(F.lit(_LOW_32_BITS).cast("bigint"))).alias(f"{prefix}low"),
        F.sum(F.shiftrightunsigned(row_hashes, 32)).alias(f"{prefix}high"),
        F.bit_xor(row_hashes).alias(f"{prefix}mixed"),
    )


def checksum_of(found: Mapping[str, Any], prefix: str = "") -> str:
    """The checksum from the aggregates and `rows` with a prefix; aggregates over no rows are null."""
    rows, low, high, mixed = (found[f"{prefix}{name}"] or 0 for name in ("rows", "low", "high", "mixed"))
    return checksum_text(rows, low, high, mixed)


def partition_checksums(rows: DataFrame, column: str, schema: StructType) -> Mapping[date, str]:
    """The checksum of every partition that has rows, in one aggregation.

    Args:
        rows: Rows with the business columns.
        column: The partition column.
        schema: The business columns, the partition column included.
    """
    hashed = rows.select(column, row_hash(schema).alias("row_hash"))
    found = hashed.groupBy(column).agg(F.count(F.lit(1)).alias("rows"), *sums_of(F.col("row_hash"))).collect()
    return {row[column]: checksum_of(row.asDict()) for row in found}
