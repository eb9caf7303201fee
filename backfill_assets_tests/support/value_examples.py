"""A source with a column of every kind of type, files of it, and what becomes of their values."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.domain import SourceTable
from backfill_assets_tests.support.landing_examples import EVENTS

AT = datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001  (Spark hands out UTC without a zone)

COLUMNS: dict[str, DataType] = {
    "note": StringType(),
    "short": ShortType(),
    "whole": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "money": DecimalType(10, 2),
    "units": DecimalType(10, 0),
    "share": DecimalType(2, 2),
    "precise": DecimalType(38, 18),
    "is_open": BooleanType(),
    "day": DateType(),
    "at": TimestampType(),
    "local": TimestampNTZType(),
    "bytes": BinaryType(),
    "numbers": ArrayType(IntegerType(), containsNull=False),
    "amounts": ArrayType(DecimalType(10, 2)),
    "line": StructType(
        [
            StructField("no", IntegerType(), nullable=False),
            StructField("price", DecimalType(10, 2)),
            StructField("tags", ArrayType(StringType())),
            StructField("when", StructType([StructField("at", TimestampType())])),
        ]
    ),
}
VALUES: SourceTable = replace(
    EVENTS,
    name="bronze.values",
    schema=StructType([*EVENTS.schema.fields[:2], *(StructField(name, kind) for name, kind in COLUMNS.items())]),
    json_columns=(),
)


def parquet(table: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    count = len(next(iter(table.values())))
    common = {"event_id": [str(n) for n in range(count)], "event_time": ["2024-05-01T10:00:00Z"] * count}
    pq.write_table(pa.table({**common, **table}), out, **options)
    return out.getvalue()


def found(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[Any]:
    """Of each row the value of its column, or the reason why it is rejected."""
    return [row["_reason"] or row[name] for row, name in zip(rows, columns, strict=True)]


NO_CLOCK = "; a date has no time of day: make the column a DATE"
NO_OFFSET = "; it has no offset: declare its timezone"


def no(name: str, demand: str, text: str, way_out: str = "") -> str:
    return f"{name} is not {demand}{way_out}: '{text}'"


HAS_OFFSET = "; it has an offset: make the column a TIMESTAMP"
NO_FORM = "; declare its form, which `sniff` proposes for its file"


def with_form(name: str, form: str) -> str:
    """What the reason says to declare of a column of times."""
    return f'; declare its form, such as formats={{"{name}": "{form}"}}'


def no_day(name: str, text: str) -> str:
    return f"{name} is a date that does not exist: '{text}'"


def unfit(name: str, kind: str, text: str) -> str:
    return f"{name} does not fit {kind}: '{text}'"


def plainly(value: Any) -> Any:
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value
