"""What is proposed for a public file lands, and gives the rows that pandas reads in it, value by value."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable
from backfill_assets.domain.source_files import FileName
from backfill_assets.sniff.propose import propose
from backfill_assets_tests.support.landing_examples import landing_room
from backfill_assets_tests.support.proposed import declared
from backfill_assets_tests.support.public_files import SHAPES, Shape

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)


def column_of(frame: pd.DataFrame, written: FileName, name: str) -> pd.Series[Any]:
    """The column of pandas for one of the contract, by the names that pandas gives."""
    match written:
        case str() if written in frame.columns:
            return frame[written]
        case int():
            return frame.iloc[:, written]
        case (str() as title, int() as number):
            return frame[title if number == 1 else f"{title}.{number - 1}"]
        case _:
            return frame[name]


def plain(value: Any) -> Any:
    """A value of pandas or of Spark, as both can be compared."""
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a day has no zone
    if isinstance(value, bool | str):
        return value
    if hasattr(value, "item"):
        return plain(value.item())
    return Decimal(value) if isinstance(value, int | float) else value


def text_of(value: Any) -> str:
    """A number that pandas has read, as the text that the file has."""
    return f"{int(value)}" if isinstance(value, int | float) and value == int(value) else str(value)


def alike(found: Any, expected: Any) -> bool:
    found, expected = plain(found), plain(expected)
    if isinstance(found, str) and isinstance(expected, Decimal):
        return found == text_of(expected) or Decimal(found) == expected
    return bool(found == expected)


@pytest.fixture
def clock() -> Clock:
    return lambda: AS_OF


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_proposed_lands_as_pandas_reads_it(
    shape: Shape, spark: SparkSession, settings: Settings, clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / shape.file
    path.write_bytes(shape.write())
    proposal = propose([path], name=f"bronze.{shape.name}", as_of=AS_OF)
    expected = shape.pandas(path)
    source = declared(proposal)
    rows = in_bronze(spark, replace(settings, first_day=date(1900, 1, 1)), clock, source, path, shape.rejected)
    assert len(rows) == len(expected) > 0
    differences = [
        (column.name, number, row[column.name], value)
        for column in proposal.columns
        for number, (row, value) in enumerate(zip(rows, column_of(expected, column.written, column.name), strict=True))
        if not alike(row[column.name], value)
    ]
    assert differences == []


def in_bronze(
    spark: SparkSession, settings: Settings, clock: Clock, source: SourceTable, path: Path, rejected: int
) -> list[dict[str, Any]]:
    """The rows of a file that has landed, in the order of its records."""
    with landing_room(spark, settings, clock, source) as room:
        landed = room.land_path(path)
        reasons = [row["reason"] for rows in room.quarantined.values() for row in rows]
        assert landed.record.counts.rejected == rejected, reasons[:5]
        with room.ledger.read() as reader:
            days = sorted({each.event_date for each in reader.imports.days(source=source.name)})
        return sorted(room.bronze(days), key=lambda row: row["_row"])
