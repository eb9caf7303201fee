"""Rows of an exact list of files, below few folders and below many."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, LongType, StructField, StructType

from backfill_assets.core.identity import DataFile, FileSet
from backfill_assets.lake import snapshot
from backfill_assets.lake.snapshot import MOST_FOLDERS, read_files
from backfill_assets.lake.tables import Lake

TABLE = "silver.numbers"
SCHEMA = StructType([StructField("day", DateType()), StructField("number", LongType())])


def staged(lake: Lake, run_id: str, day: date, number: int) -> FileSet:
    path = f"_runs/{run_id}/0001-abc/day={day}/part-0.parquet"
    file = Path(str(lake.place(TABLE))) / path
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"number": pa.array([number], pa.int64())}), file)
    return FileSet.of([DataFile(path=path, size_bytes=file.stat().st_size, rows=1)])


@pytest.mark.parametrize("runs", [1, 3, MOST_FOLDERS, MOST_FOLDERS + 1])
def test_a_row_has_the_day_of_its_folder_whatever_the_number_of_runs(
    tmp_path: Path, spark: SparkSession, runs: int
) -> None:
    lake = Lake(root=tmp_path / "lake")
    wanted = {(date(2026, 1, day), 100 * run + day) for run in range(runs) for day in (1, 2)}
    files = [staged(lake, f"run-{number // 100}", day, number) for day, number in sorted(wanted)]
    rows = read_files(spark, lake, TABLE, files, schema=SCHEMA, partition_column="day")
    assert rows.schema == SCHEMA
    assert {(row.day, row.number) for row in rows.collect()} == wanted


def test_only_files_below_many_folders_are_asked_for_their_paths(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(root=tmp_path / "lake")
    files = [staged(lake, run, date(2026, 1, 1), number) for number, run in enumerate(("one", "other"))]
    rows = read_files(spark, lake, TABLE, files, schema=SCHEMA, partition_column="day")
    assert "file_path" not in _plan_of(rows)
    monkeypatch.setattr(snapshot, "MOST_FOLDERS", 1)
    rows = read_files(spark, lake, TABLE, files, schema=SCHEMA, partition_column="day")
    assert "file_path" in _plan_of(rows)


def _plan_of(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().analyzed())
