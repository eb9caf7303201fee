"""Content checksums: order-independent over the business columns, equal for sets of files with the same rows.

Rows are hashed in a canonical form: a sequence of parts from which every value can be read back, so that rows with
other values have another form. Two hashes of 64 bits are taken of a form and added up, so that the checksum of a chunk
is that of its partitions together, however rows are split and ordered. Comparison by key, early cutoff, reproduction,
the proof of windows and the versions of a landed key use this form; `docs/guarantees.md` says what its hashes promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from backfill_assets.core.columns import in_sql
from backfill_assets.core.identity import document_digest

FORM = "c3"
"""The version of the canonical form and of its hashes, with which every checksum begins."""

LOW_32_BITS = 0xFFFFFFFF

SUMS = ("low_0", "high_0", "low_1", "high_1")
"""The aggregates of a checksum besides `rows`: the sums of both halves of both hashes."""


def checksum_text(rows: int, *sums: int) -> str:
    """The content checksum as text: its form, the row count, and the sums of both halves of the two row hashes."""
    return ":".join((FORM, str(rows), *(f"{each:x}" for each in sums)))


def is_of_this_form(checksum: str) -> bool:
    """True if a recorded checksum can be compared with those of this release; one of another form says nothing."""
    return checksum.startswith(f"{FORM}:")


NO_ROWS = checksum_text(0, 0, 0, 0, 0)
"""The checksum of a partition without rows."""


def canonical(fields: Iterable[StructField]) -> list[str]:
    """The values of columns as parts to be hashed in this order, as SQL: Spark reads a text of any length in one call,
    where a column is made in some calls for each of its parts.

    Spark's hashes skip nulls and do not hash the length of an array. So every value, at any depth, is preceded by a
    flag that says whether it is null, and every array by its length: no sequence of parts belongs to two rows. The
    hashes themselves cover the length of a text, and take zeros of either sign and all NaNs for the same number.
    """
    return [part for field in fields for part in _parts(in_sql(field.name), field.dataType)]


def _parts(value: str, kind: DataType, depth: int = 0) -> Iterator[str]:
    yield f"isnull({value})"
    match kind:
        case StructType():
            for field in kind.fields:
                # Not with a point: a frame that an author has named like the column would be asked for its own column.
                yield from _parts(f"{value}['{field.name}']", field.dataType, depth)
        case ArrayType():
            yield f"size({value})"
            each = f"each_{depth}"
            yield f"transform({value}, {each} -> struct({', '.join(_parts(each, kind.elementType, depth + 1))}))"
        case MapType() | VariantType():
            raise TypeError(f"{kind.simpleString()} has no canonical form")
        case _:
            yield value


def row_hash(fields: Iterable[StructField]) -> Column:
    """A 64-bit hash of columns: equal values have equal ones."""
    return F.expr(_hashed(canonical(fields)))


def _hashed(parts: Iterable[str]) -> str:
    return f"xxhash64({', '.join(parts)})"


HASHES = ("_row_hash_0", "_row_hash_1")
"""What the two hashes of a row are called as columns."""


def hashes_of_row(schema: StructType) -> tuple[str, str]:
    """The two 64-bit hashes of a row's business columns that a checksum adds up, as SQL.

    Spark hashes neither names nor types: to it, columns that have changed places, and 12.50 and 0.1250 as decimals of
    two and of four digits, are the same. So both hashes begin with the names and types of the columns. The second has
    another part besides, so that rows whose first hashes agree by chance differ in it.
    """
    named = document_digest([[field.name, field.dataType.simpleString()] for field in schema.fields])
    parts = [f"{int(named[:15], 16)}L", *canonical(schema.fields)]
    return _hashed(parts), _hashed(["1", *parts])


def hash_columns(schema: StructType) -> tuple[Column, ...]:
    """The hashes of a row as columns, named `HASHES`."""
    return tuple(F.expr(each).alias(name) for each, name in zip(hashes_of_row(schema), HASHES, strict=True))


def sums_of(hashes: Iterable[str], prefix: str = "") -> tuple[Column, ...]:
    """The aggregates of a checksum, of hashes of rows as SQL; null hashes add nothing."""
    halves = (half for value in hashes for half in (f"{value} & {LOW_32_BITS}L", f"shiftrightunsigned({value}, 32)"))
    return tuple(F.expr(f"sum({half}) AS {prefix}{name}") for half, name in zip(halves, SUMS, strict=True))


def checksum_of(found: Mapping[str, Any], prefix: str = "") -> str:
    """The checksum from the aggregates and `rows` with a prefix; aggregates over no rows are null."""
    return checksum_text(found[f"{prefix}rows"] or 0, *(found[f"{prefix}{name}"] or 0 for name in SUMS))


def joined(checksums: Iterable[str]) -> str:
    """The checksum of the rows of several partitions together, from the checksums of each in the present form."""
    parts = [
        [int(rows), *(int(each, 16) for each in sums)] for text in checksums for _, rows, *sums in [text.split(":")]
    ]
    return checksum_text(*map(sum, zip(*parts, strict=True)))


def partition_checksums(rows: DataFrame, column: str, schema: StructType) -> Mapping[date, str]:
    """The checksum of every partition that has rows, in one aggregation."""
    hashed = rows.select(column, *hash_columns(schema))
    found = hashed.groupBy(column).agg(F.count(F.lit(1)).alias("rows"), *sums_of(HASHES)).collect()
    return {row[column]: checksum_of(row.asDict()) for row in found}
