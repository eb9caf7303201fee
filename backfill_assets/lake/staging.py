"""How do rows become data files that nobody reads yet?

A staging attempt writes into a folder of its own, `_runs/<run>/<attempt>/<column>=<value>/`, below the table: vacuum
leaves underscore folders alone, the path of every live file names the run that made it, and a process that was given
up for dead but still writes cannot touch the files of the attempt that followed it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.identity import DataFile, FileSet
from backfill_assets.lake.tables import Lake, sha256_of_file

RUNS_FOLDER = "_runs"
_LONGEST_STATISTIC = 64


def write_staged(
    lake: Lake,
    table: str,
    frame: DataFrame,
    *,
    run_id: str,
    attempt: str,
    partition_column: str,
    statistics: Sequence[str] = (),
) -> Mapping[str, FileSet]:
    """Runs the frame and writes its rows as Parquet files below `_runs/`, one folder per partition value.

    Args:
        lake: Where tables are.
        table: The table that may publish the files later.
        frame: All columns of the table.
        run_id: Names the run's folder.
        attempt: Names a folder nobody has written to.
        partition_column: Its values become folders.
        statistics: Columns whose minimum and maximum readers can skip files by.

    Returns:
        The file set of every partition value that got rows.
    """
    relative = f"{RUNS_FOLDER}/{run_id}/{attempt}"
    folder = lake.path(table) / relative
    (
        frame.hint("rebalance", F.col(partition_column))
        .write.partitionBy(partition_column)
        .mode("errorifexists")
        .parquet(str(folder))
    )
    found: dict[str, list[DataFile]] = {}
    for path in sorted(folder.glob(f"{partition_column}=*/*.parquet")):
        value = unquote(path.parent.name.partition("=")[2])
        found.setdefault(value, []).append(_described(path, lake.path(table), statistics))
    return {value: FileSet.of(files) for value, files in found.items()}


def footer_columns(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> Mapping[tuple[tuple[str, str], ...], str]:
    """The distinct column lists that the files' own footers declare, each with one file that has it.

    The columns are `(name, Spark type)` pairs as Spark recorded them when it wrote the file.
    """
    found: dict[tuple[tuple[str, str], ...], str] = {}
    for file_set in file_sets:
        for file in file_set.files:
            metadata = pq.read_metadata(lake.path(table) / file.path).metadata or {}
            recorded = metadata.get(b"org.apache.spark.sql.parquet.row.metadata", b'{"fields": []}')
            fields = json.loads(recorded)["fields"]
            columns = tuple((column["name"], json.dumps(column["type"])) for column in fields)
            found.setdefault(columns, file.path)
    return found


def _described(path: Path, root: Path, statistics: Sequence[str]) -> DataFile:
    metadata = pq.read_metadata(path)
    return DataFile(
        path=path.relative_to(root).as_posix(),
        size_bytes=path.stat().st_size,
        rows=metadata.num_rows,
        stats=json.dumps(_delta_statistics(metadata, statistics), separators=(",", ":")),
        sha256=sha256_of_file(path),
    )


def _delta_statistics(metadata: pq.FileMetaData, wanted: Sequence[str]) -> Mapping[str, Any]:
    """The file's statistics in Delta's form: number of rows, and bounds and nulls of the wanted columns."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    positions = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    for column in (name for name in wanted if name in positions):
        groups = [metadata.row_group(g).column(positions[column]).statistics for g in range(metadata.num_row_groups)]
        if not groups or any(s is None or not s.has_null_count for s in groups):
            continue
        nulls[column] = sum(s.null_count for s in groups)
        bounded = [s for s in groups if s.has_min_max]
        if len(bounded) != len(groups):
            continue
        low, high = min(s.min for s in bounded), max(s.max for s in bounded)
        if (low_value := _as_delta(low)) is not None and (high_value := _as_delta(high)) is not None:
            least[column], most[column] = low_value, high_value
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _as_delta(value: object) -> str | int | None:
    """A bound as Delta's JSON writes it; None for values whose bounds are not kept."""
    match value:
        case bool():
            return None
        case int():
            return value
        case str():
            return value if len(value) <= _LONGEST_STATISTIC else None
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
        case Decimal():
            return None
        case _:
            return None
