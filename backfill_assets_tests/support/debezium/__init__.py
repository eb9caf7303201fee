"""What Debezium wrote of a table of PostgreSQL, and what that table held meanwhile.

Recorded once with Debezium 3.6.1.Final (its embedded engine, by `Feed.java` and `record.py` beside this) over
PostgreSQL 15: in `plain.jsonl` events without their schema, with decimals as texts and times in ISO form; in
`wrapped.jsonl` the same ones with their schema, with every other setting as it is by default. Each line is a record of
the topic: its key and its value. `states.jsonl` has the rows of the table after so many records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.domain import DEBEZIUM_COLUMNS, DEBEZIUM_OPERATIONS, Debezium, SourceTable, daily

RECORDED = Path(__file__).parent
"""The folder of the recordings; a live run has files of the same names."""

ORDERS = (
    StructField("order_id", IntegerType(), nullable=False),
    StructField("ordered_at", TimestampType(), nullable=False),
    StructField("amount", DecimalType(12, 2)),
    StructField("placed", TimestampNTZType()),
    StructField("placed_ms", TimestampNTZType()),
    StructField("due", DateType()),
    StructField("paid", BooleanType()),
    StructField("weight", DoubleType()),
    StructField("photo", BinaryType()),
    StructField("extra", StringType()),
    StructField("note", StringType()),
)

COLUMNS = tuple(each.name for each in ORDERS)

orders = SourceTable(
    name="bronze.orders",
    description="What became of every order.",
    key=("order_id",),
    event_time="ordered_at",
    partition=daily("ordered_on"),
    schema=StructType([*ORDERS, *DEBEZIUM_COLUMNS]),
    json_columns=("extra",),
    order=("debezium_commit", "debezium_lsn"),
    operation=DEBEZIUM_OPERATIONS,
    envelope=Debezium(table="public.orders"),
)

DAYS = tuple(date(2026, 7, day) for day in range(1, 11))


@dataclass(frozen=True, kw_only=True)
class State:
    """The table after some records."""

    after: str  #: What was done last.
    records: int  #: How many records the topic had then.
    rows: Sequence[Mapping[str, Any]]  #: Its rows, as PostgreSQL writes them as JSON.


def recording(name: str, folder: Path = RECORDED) -> Sequence[tuple[str, str | None]]:
    """The records of the topic: keys and values, as they were written."""
    found = []
    for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines():
        key, _, value = line.removeprefix('{"key": ').removesuffix("}").partition(', "value": ')
        found.append((key, None if value == "null" else value))
    return found


def states(folder: Path = RECORDED) -> Sequence[State]:
    """The table, each time after it was changed."""
    lines = (folder / "states.jsonl").read_text("utf-8").splitlines()
    return [State(**json.loads(line)) for line in lines]


def as_landed(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> dict[int, Mapping[str, Any]]:
    """Rows of the table as bronze has them, by their key."""
    return {row["order_id"]: {name: _as_landed(name, row[name]) for name in columns} for row in rows}


def _as_landed(name: str, value: Any) -> Any:
    if value is None:
        return None
    match name:
        case "amount":
            return Decimal(value)
        case "ordered_at":
            return datetime.fromisoformat(value).astimezone(UTC)
        case "placed" | "placed_ms":
            return datetime.fromisoformat(value)
        case "due":
            return date.fromisoformat(value)
        case "weight":
            return float(value)
        case "photo":
            return bytes.fromhex(value.removeprefix("\\x"))
    return value


def held(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> dict[int, Mapping[str, Any]]:
    """The current rows of bronze, by their key, without what only bronze has."""
    return {
        row["order_id"]: {name: _of_bronze(name, row[name]) for name in columns}
        for row in rows
        if row["_ended_by"] is None and row["_operation"] != "delete"
    }


def _of_bronze(name: str, value: Any) -> Any:
    if name == "ordered_at" and isinstance(value, datetime):
        return value.astimezone(UTC)
    return json.loads(value, parse_float=str) if name == "extra" and value is not None else value
