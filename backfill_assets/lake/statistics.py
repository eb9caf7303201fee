"""Statistics in logs: whether what a log says of the rows of each file is true, since readers skip files by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.lake.tables import Lake

_SHORTENED = timedelta(milliseconds=1)
"""Times in logs have milliseconds, which readers know."""


def misleading_statistics(lake: Lake, table: str) -> Iterator[str]:
    """The files of a table of which its log says what is not true of their rows; readers would skip some.

    Cost: one pass over the table, a file at a time.
    """
    with lake.reading(table):
        actions = pa.table(lake.open(table).get_add_actions(flatten=True))
        for told in actions.to_pylist():
            path = unquote(told["path"])
            with lake.files(table).open(path) as opened, pq.ParquetFile(opened) as parquet:
                if not _is_true(told, parquet.read()):
                    yield path


def _is_true(told: Mapping[str, Any], rows: pa.Table) -> bool:
    if told.get("num_records") not in (None, rows.num_rows):
        return False
    return all(_is_true_of(told, name, rows.column(name)) for name in rows.column_names)


def _is_true_of(told: Mapping[str, Any], name: str, values: pa.ChunkedArray) -> bool:
    """True if the bounds of a column hold; long texts have shortened ones, on the safe side."""
    if told.get(f"null_count.{name}") not in (None, values.null_count):
        return False
    least, most = told.get(f"min.{name}"), told.get(f"max.{name}")
    if least is None and most is None:
        return True
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    found = pc.min_max(values).as_py()
    if found["min"] is None:
        return False
    if most is not None and pa.types.is_timestamp(values.type):
        most += _SHORTENED
    return (least is None or least <= found["min"]) and (most is None or found["max"] <= most)
