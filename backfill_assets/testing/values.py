"""Values that a test gives and expects: typed by the schema of their table, and compared as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql.types import DataType, DateType, DecimalType, StructType, TimestampNTZType, TimestampType

from backfill_assets.domain import SourceTable
from backfill_assets.domain.tables import Table
from backfill_assets.transforms.schemas import business_schema

Rows = Sequence[Mapping[str, Any]]
"""Rows as values by column."""


def columns_given(table: Table, *, changes: bool = False) -> StructType:
    """The columns of a table that a function reads."""
    schema = business_schema(table)
    if changes or not isinstance(table, SourceTable) or table.operation is None:
        return schema
    kept = {*table.schema.fieldNames(), table.partition.column}
    return StructType([field for field in schema.fields if field.name in kept])


def typed_rows(rows: Rows, schema: StructType, *, event: str = "", partition: str = "") -> Iterator[tuple[Any, ...]]:
    """The values of rows in the order of their columns.

    Args:
        event: The column whose UTC day is the partition, where that is not given; empty for none.
        partition: The column of the partition.

    Raises:
        ValueError: A row has a column that its table has not, or lacks a value that cannot be null.
    """
    for row in rows:
        if unknown := sorted(row.keys() - set(schema.fieldNames())):
            raise ValueError(f"{row} has the column {', '.join(unknown)}, which the table has not.")
        values = {field.name: typed(row.get(field.name), field.dataType) for field in schema.fields}
        if event and values[partition] is None and (at := values[event]) is not None:
            values[partition] = at.date() if isinstance(at, datetime) else at
        if missing := [field.name for field in schema.fields if not field.nullable and values[field.name] is None]:
            raise ValueError(f"{row} has no value for {', '.join(missing)}, which cannot be null.")
        yield tuple(values.values())


def typed(value: Any, kind: DataType) -> Any:
    """A value as its column has it: dates, instants and decimals can be given as texts, and instants are in UTC."""
    match kind:
        case TimestampType() if value is not None:
            at = datetime.fromisoformat(value) if isinstance(value, str) else value
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        case TimestampNTZType() if isinstance(value, str):
            return datetime.fromisoformat(value)
        case DateType() if isinstance(value, str):
            return date.fromisoformat(value)
        case DecimalType() if value is not None:
            return Decimal(str(value))
        case _:
            return value


def in_json(value: Any) -> str:
    """A value that JSON has no form for, as a source sends it."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).isoformat()
    return str(value)


def differing(found: Rows, expected: Rows, schema: StructType) -> tuple[list[str], list[str]]:
    """The expected rows that were not found, and the found rows that were not expected, as texts.

    Only columns that an expected row names are compared; without expected rows all are.
    """
    named = {name for row in expected for name in row}
    if unknown := sorted(named - set(schema.fieldNames())):
        raise ValueError(f"{', '.join(unknown)} is expected, which the table has not.")
    kept = StructType([field for field in schema.fields if field.name in named or not named])
    wanted = Counter(_text({f.name: typed(row.get(f.name), f.dataType) for f in kept.fields}) for row in expected)
    had = Counter(_text({name: row[name] for name in kept.fieldNames()}) for row in found)
    return sorted((wanted - had).elements()), sorted((had - wanted).elements())


def _text(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in row.items())


def _plain(value: Any) -> Any:
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return format(value.normalize(), "f")
        case str():
            return repr(value)
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value
