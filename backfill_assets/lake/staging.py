"""Staged files: data files that are written and not visible to readers.

A staging attempt writes into its own folder, `_runs/<run>/<attempt>/<column>=<value>/`, below the table: Delta's vacuum
ignores underscore folders, the path of every live file names the run that made it, and a process that has lost its run
but still writes cannot change the files of the attempt after it.

Rows that are never published are computed into scratch folders below `_runs/_reproduced/`, whose names contain the time
at which they were begun: each is removed at the end, and what a killed process leaves is recognized by its age. Nothing
else of a table is listed or removed here: not its log, and not files of other writers.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import DataFile, FileSet
from backfill_assets.core.places import for_spark
from backfill_assets.files.admission import require_admitted
from backfill_assets.files.port import Files, FileState
from backfill_assets.lake.tables import Lake

RUNS_FOLDER = "_runs"
OF_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What Spark names the folder of rows whose partition column is null."""


def write_staged(
    lake: Lake,
    table: str,
    frame: DataFrame,
    *,
    run_id: str,
    attempt: str,
    partition_column: str,
    same: Mapping[str, str] | None = None,
) -> Mapping[str, FileSet]:
    """Runs the frame and writes its rows as Parquet files below `_runs/`, one folder per partition value.

    Args:
        run_id: Names the run's folder.
        partition_column: Its values become folders.
        same: The last columns of the frame that have one value for all rows, with that value: they are not shuffled
            with the rows, and added when these are written.

    Returns:
        The file set of every partition value that has rows.
    """
    require_admitted(lake.root, lake.access)
    relative = f"{RUNS_FOLDER}/{run_id}/{attempt}"
    alike = same or {}
    shuffled = frame.drop(*alike).hint("rebalance", F.col(partition_column))
    # Spark sorts what it writes to folders; sorted here, rows are moved without what is the same in all of them.
    (
        shuffled.sortWithinPartitions(partition_column)
        .select("*", *(F.lit(value).alias(name) for name, value in alike.items()))
        .write.partitionBy(partition_column)
        .mode("error")
        .parquet(for_spark(lake.place(table), relative))
    )
    files = lake.files(table)
    written = re.compile(rf"{re.escape(relative)}/{re.escape(partition_column)}=([^/]*)/[^/]*\.parquet")
    listed = [(match[1], each) for each in files.listed(relative) if (match := written.fullmatch(each.path))]
    read = described_files(files, [state for _, state in listed])
    found = grouped((unquote(value), file) for (value, _), file in zip(listed, read, strict=True))
    return {value: FileSet.of(files) for value, files in found.items()}


def described_files(files: Files, listed: Sequence[FileState]) -> Sequence[DataFile]:
    """Parquet files that were just written, with their rows, the sha256 of their bytes and their stamps."""
    with ThreadPoolExecutor(files.at_once) as readers:
        return tuple(readers.map(lambda state: _data_file(files, state), listed))


def columns_declared(schema: StructType, partition_column: str) -> tuple[tuple[str, str], ...]:
    """The columns that footers of files with these columns declare, as in `footer_columns`; the partition's is in
    none."""
    return tuple((f.name, json.dumps(f.dataType.jsonValue())) for f in schema.fields if f.name != partition_column)


def schema_of_columns(columns: Sequence[tuple[str, str]], partition: StructField) -> StructType:
    """The columns of a table whose files have these footers; which of them can be null no footer says."""
    fields = [{"name": name, "type": json.loads(kind), "nullable": True, "metadata": {}} for name, kind in columns]
    return StructType([*StructType.fromJson({"fields": fields}).fields, partition])


def footer_columns(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> Mapping[tuple[tuple[str, str], ...], str]:
    """The distinct column lists that the footers of the files declare, each with one file that has it.

    The columns are `(name, Spark type)` pairs as Spark recorded them when it wrote the file.
    """
    found: dict[tuple[tuple[str, str], ...], str] = {}
    files = lake.files(table)
    for file_set in file_sets:
        for file in file_set.files:
            with files.open(file.path) as opened:
                metadata = pq.read_metadata(opened).metadata or {}
            recorded = metadata.get(b"org.apache.spark.sql.parquet.row.metadata", b'{"fields": []}')
            fields = json.loads(recorded)["fields"]
            columns = tuple((column["name"], json.dumps(_as_declared(column["type"]))) for column in fields)
            found.setdefault(columns, file.path)
    return found


def _as_declared(kind: Any) -> Any:
    """A recorded type with strings as they are declared: over Spark Connect, a cast to `StringType()` is recorded as a
    string with the collation that every string has."""
    match kind:
        case "string collate UTF8_BINARY":
            return "string"
        case dict():
            return {key: value if key == "name" else _as_declared(value) for key, value in kind.items()}
        case list():
            return [_as_declared(each) for each in kind]
        case _:
            return kind


def _data_file(files: Files, state: FileState) -> DataFile:
    # The stamp is from before the bytes are read: a later write to the file changes it.
    with files.open(state.path) as opened:
        rows = pq.read_metadata(opened).num_rows
    return DataFile(
        path=state.path, size_bytes=state.size_bytes, rows=rows, sha256=files.digest(state.path), stamp=state.stamp
    )


def run_files(lake: Lake, table: str) -> Mapping[str, int]:
    """Every file below `_runs/` with its size, by its path relative to the table. Links are not listed or followed."""
    return {file.path: file.size_bytes for file in lake.files(table).listed(RUNS_FOLDER)}


def remove_files(lake: Lake, table: str, paths: Iterable[str]) -> None:
    """Removes files below `_runs/`, and folders that become empty. A file that does not exist is not an error.

    Raises:
        ValueError: A path that is not below `_runs/`; nothing is removed.
    """
    chosen = tuple(paths)
    for path in chosen:
        parts = path.split("/")
        if parts[0] != RUNS_FOLDER or ".." in parts:
            raise ValueError(f"{path!r} is not below {RUNS_FOLDER}/ of {table}")
    lake.files(table).remove(chosen, within=RUNS_FOLDER)


SCRATCH_FOLDER = "_reproduced"
_BEGUN = "%Y%m%dT%H%M%SZ"


@contextmanager
def scratch(lake: Lake, table: str, *, begun_at: datetime) -> Iterator[str]:
    """The name of a folder below `_runs/_reproduced/`, which is removed afterwards, also after an error."""
    name = f"{begun_at.astimezone(UTC):{_BEGUN}}-{secrets.token_hex(4)}"
    try:
        yield name
    finally:
        remove_scratch(lake, table, name)


def remove_scratch(lake: Lake, table: str, name: str) -> None:
    """Removes a scratch folder, or a part of one; does nothing if it does not exist."""
    lake.files(table).remove_folder(f"{RUNS_FOLDER}/{SCRATCH_FOLDER}/{name}")


def begun_at(name: str) -> datetime | None:
    """When a scratch folder was begun, by its name; None for any other folder."""
    try:
        return datetime.strptime(name.partition("-")[0], _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        return None
