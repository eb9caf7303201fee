"""Measurement: the content of the staged files, and how it differs from the accepted rows.

One pass: both sides are read once and joined by key in one sort-merge join of keys and hashes, not of whole rows. The
window that counts rows of a key uses the distribution and order that the join needs anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_assets.domain import Table
from backfill_assets.gates.conditions import violations
from backfill_assets.lake.checksums import checksum_of, row_hash, sums_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of one staged partition. Grain: one per partition.

    Attributes:
        rows: Rows in the staged files.
        accepted_rows: Rows in the accepted files.
        checksum: Order-independent content checksum of the staged business columns, including the row count.
        accepted_checksum: The same of the accepted files, as they are now.
        surplus: Rows beyond the first of their key.
        violations: Violating rows by gate.
        added, removed, changed, unchanged: Keys that only the candidate has, only the accepted rows have, both have
            with different values, both have with the same.
        changed_columns: Keys whose value in a column differs, by column; only columns that differ somewhere.
    """

    partition: date
    rows: int = 0
    accepted_rows: int = 0
    checksum: str = ""
    accepted_checksum: str = ""
    surplus: int = 0
    violations: Mapping[str, int] = field(default_factory=dict)
    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0
    changed_columns: Mapping[str, int] = field(default_factory=dict)


def measure(
    staged: DataFrame, accepted: DataFrame | None, table: Table, *, schema: StructType
) -> Mapping[date, Measured]:
    """Measures every partition that has rows on either side.

    Args:
        staged: The candidate's rows: business columns, the partition column included.
        accepted: The rows readers see in the same partitions; None when there are none.
        table: The declaration, for its key and gates.
        schema: The business columns, the partition column included.

    Returns:
        By partition. Partitions without rows on both sides are absent.
    """
    column = table.partition.column
    flags = violations(table)
    # The same column may be partition and key: it is joined once.
    key = [column, *(name for name in table.row_key if name != column)]
    compared = [name for name in schema.fieldNames() if name not in key]
    fresh = _side(staged, key, compared, schema, extra={f"bad_{name}": flag for name, flag in flags.items()})
    fresh = fresh.withColumn("nth", F.row_number().over(Window.partitionBy(*key).orderBy("row_hash")))
    if accepted is None:
        joined = fresh.withColumn("old_hash", F.lit(None).cast("bigint"))
        differs: dict[str, Column] = {}
    else:
        old = _side(accepted, key, compared, schema, extra={})
        renamed = [F.col(name).alias(f"old_{name}") for name in ["row_hash", *(f"hash_{c}" for c in compared)]]
        old = old.select(*key, *renamed).withColumnRenamed("old_row_hash", "old_hash")
        joined = fresh.join(old, on=key, how="full_outer")
        differs = {name: F.col(f"hash_{name}") != F.col(f"old_hash_{name}") for name in compared}
    return {
        found.partition: found
        for found in (_measured(row, column, flags, differs) for row in _summed(joined, column, flags, differs))
    }


def _side(
    frame: DataFrame, key: Sequence[str], compared: Sequence[str], schema: StructType, extra: Mapping[str, Column]
) -> DataFrame:
    return frame.select(
        *key,
        row_hash(schema).alias("row_hash"),
        *(F.hash(F.col(name), F.col(name).isNull()).alias(f"hash_{name}") for name in compared),
        *(flag.alias(name) for name, flag in extra.items()),
    )


def _summed(
    joined: DataFrame, column: str, flags: Mapping[str, Column], differs: Mapping[str, Column]
) -> Sequence[Row]:
    is_new, is_old = F.col("row_hash").isNotNull(), F.col("old_hash").isNotNull()
    first = F.col("nth") == 1
    moved = is_new & is_old & first & (F.col("row_hash") != F.col("old_hash"))
    # A staged duplicate is joined with the accepted row of its key again, which is counted once.
    is_accepted = is_old & F.coalesce(first, F.lit(True))
    sums: dict[str, Column] = {
        "rows": is_new,
        "accepted_rows": is_accepted,
        "surplus": is_new & ~first,
        "added": is_new & ~is_old & first,
        "removed": is_old & ~is_new,
        "changed": moved,
        "unchanged": is_new & is_old & first & ~moved,
        **{f"bad_{name}": F.col(f"bad_{name}") for name in flags},
        **{f"moved_{name}": moved & differ for name, differ in differs.items()},
    }
    return (
        joined.groupBy(column)
        .agg(
            *(_count(condition).alias(name) for name, condition in sums.items()),
            *sums_of(F.when(is_new, F.col("row_hash"))),
            *sums_of(F.when(is_accepted, F.col("old_hash")), prefix="accepted_"),
        )
        .collect()
    )


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, F.lit(1)).otherwise(F.lit(0)))


def _measured(row: Row, column: str, flags: Mapping[str, Column], differs: Mapping[str, Column]) -> Measured:
    return Measured(
        partition=row[column],
        rows=row["rows"],
        accepted_rows=row["accepted_rows"],
        checksum=checksum_of(row.asDict()),
        accepted_checksum=checksum_of(row.asDict(), prefix="accepted_"),
        surplus=row["surplus"],
        violations={name: row[f"bad_{name}"] for name in flags},
        added=row["added"],
        removed=row["removed"],
        changed=row["changed"],
        unchanged=row["unchanged"],
        changed_columns={name: row[f"moved_{name}"] for name in differs if row[f"moved_{name}"]},
    )


def total(measured: Mapping[date, Measured]) -> Measured:
    """The sums over all partitions; its partition and checksum have no meaning."""
    return reduce(_plus, measured.values(), Measured(partition=date.min))


def _plus(left: Measured, right: Measured) -> Measured:
    return Measured(
        partition=left.partition,
        rows=left.rows + right.rows,
        accepted_rows=left.accepted_rows + right.accepted_rows,
        surplus=left.surplus + right.surplus,
        violations=_add(left.violations, right.violations),
        added=left.added + right.added,
        removed=left.removed + right.removed,
        changed=left.changed + right.changed,
        unchanged=left.unchanged + right.unchanged,
        changed_columns=_add(left.changed_columns, right.changed_columns),
    )


def _add(left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
