"""Every line of docs/your-file.md is a declaration that loads."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets import domain as seam
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import SourceTable, daily

PAGE = (PROJECT_ROOT / "docs" / "your-file.md").read_text(encoding="utf-8")
ARGUMENT = re.compile(r"`((?:\w+)=(?:[^`]|\\`)+)`")
ROWS = [line.strip("| ").split(" | ", 1) for line in PAGE.splitlines() if line.startswith("| ")][1:]
SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in ("id", "amount_2", "login", "key")),
        StructField("at", TimestampType()),
        StructField("day", DateType()),
        StructField("cost", LongType()),
    ]
)
FILLED = StructType([StructField("file_name", StringType()), StructField("row_number", LongType()), *SCHEMA.fields])


def arguments(text: str) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for argument in ARGUMENT.findall(text):
        name, _, value = argument.partition("=")
        found.setdefault(name, []).append(eval(value, dict(vars(seam))))
    return found


@pytest.mark.parametrize("looks_like", [looks_like for looks_like, _ in ROWS])
def test_a_line_of_the_table_is_a_declaration(looks_like: str) -> None:
    declared = arguments(dict(ROWS)[looks_like])
    for number in range(max(map(len, declared.values()), default=0)):
        chosen = {name: values[min(number, len(values) - 1)] for name, values in declared.items()}
        schema = FILLED if "row_number" in chosen else SCHEMA
        if chosen.get("planned"):
            chosen.pop("ahead", None)
        given = {"key": ("id",), "event_time": "at", "timezone": "UTC", "schema": schema, **chosen}
        SourceTable(name="bronze.example", partition=daily("event_day"), **given)  # type: ignore[arg-type]
    assert declared or "nothing" in dict(ROWS)[looks_like] or "DATE" in dict(ROWS)[looks_like]


def test_the_table_is_read_whole() -> None:
    assert len(ROWS) > 30
    assert len({name for name, _ in ROWS}) == len(ROWS)
