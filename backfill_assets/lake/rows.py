"""Rows of small tables for display. They are not used in computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill_assets.lake.tables import Lake


def small_table(lake: Lake, table: str, columns: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Every row of a table that is known to be small, such as monthly figures; empty when the table does not exist."""
    if not lake.exists(table):
        return []
    rows: list[Mapping[str, Any]] = lake.open(table).to_pyarrow_table(columns=list(columns)).to_pylist()
    return rows


def few_rows(
    lake: Lake, table: str, columns: Sequence[str], *, where: tuple[str, str], most: int = 3
) -> Sequence[Mapping[str, Any]]:
    """Some rows of a table, for display.

    Args:
        columns: What to show; rows are in the order of the first one.
        where: A partition column and its value.
        most: The maximum number of rows.
    """
    if not lake.exists(table):
        return []
    column, value = where
    found = lake.open(table).to_pyarrow_table(columns=list(columns), filters=[(column, "=", value)])
    rows: list[Mapping[str, Any]] = found.sort_by(columns[0]).slice(0, most).to_pylist()
    return rows
