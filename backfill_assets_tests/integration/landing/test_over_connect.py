"""What landing makes of records is the same in a session of this process and over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.support.clusters import connect
from backfill_assets_tests.support.judged_there import RECORDS, judged


@pytest.mark.long
def test_forms_zones_repeated_hours_and_names_are_read_alike_over_spark_connect(
    spark: SparkSession, tmp_path: Path
) -> None:
    here = judged(spark, tmp_path / "here")
    with connect(tmp_path, []) as settings:
        done = subprocess.run(
            [sys.executable, "-m", "backfill_assets_tests.support.judged_there", str(tmp_path / "there")],
            cwd=PROJECT_ROOT,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    there = json.loads(done.stdout.splitlines()[-1])
    assert [len(rows) for rows in here] == [RECORDS] * 6
    assert any(row["_reason"] is None for rows in here for row in rows)
    for ours, theirs in zip(here, there, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one == other
