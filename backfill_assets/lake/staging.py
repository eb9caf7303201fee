"""Staged files: data files that are written and not visible to readers.

A staging attempt writes into its own folder, `_runs/<run>/<attempt>/<column>=<value>/`, below the table: Delta's vacuum
ignores underscore folders, the path of every live file names the run that made it, and a process that has lost its run
but still writes cannot change the files of the attempt after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.files.port import Files, FileState
from backfill_assets.identity import DataFile, FileSet
from backfill_assets.lake.admitted import require_admitted
from backfill_assets.lake.tables import Lake
from backfill_assets.places import for_spark

RUNS_FOLDER = "_runs"

_CONTRACT = re.compile(r"-v([0-9]+)/[^/]+/[^/]+")


def attempt_of(name: str, contract: int) -> str:
    """The folder of an attempt, which also says in which version of its source's contract its files are.

    Their path is part of the digest of a file set, so what it says cannot be changed later.

    Args:
        name: Identifies the attempt.
        contract: The version; the first one is not written down, as in files of earlier releases.
    """
    return name if contract == 1 else f"{name}-v{contract}"


def contract_of(files: FileSet) -> int:
    """The version of its source's contract in which the files of a partition are."""
    found = _CONTRACT.search(files.paths[0]) if files.files else None
    return int(found.group(1)) if found else 1


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
        lake: Where tables are.
        table: The table that may publish the files later.
        frame: All columns of the table.
        run_id: Names the run's folder.
        attempt: The name of a folder that does not exist yet.
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
    with ThreadPoolExecutor(files.at_once) as readers:
        described = readers.map(lambda state: _described(files, state), (state for _, state in listed))
    found: dict[str, list[DataFile]] = {}
    for (value, _), file in zip(listed, described, strict=True):
        found.setdefault(unquote(value), []).append(file)
    return {value: FileSet.of(files) for value, files in found.items()}


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
            columns = tuple((column["name"], json.dumps(column["type"])) for column in fields)
            found.setdefault(columns, file.path)
    return found


def _described(files: Files, state: FileState) -> DataFile:
    # The stamp is from before the bytes are read: a later write to the file changes it.
    with files.open(state.path) as opened:
        rows = pq.read_metadata(opened).num_rows
    return DataFile(
        path=state.path, size_bytes=state.size_bytes, rows=rows, sha256=files.digest(state.path), stamp=state.stamp
    )
