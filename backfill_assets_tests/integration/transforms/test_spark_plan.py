"""What Spark's plan says of rows is read in this process and over Spark Connect, and nothing stays behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.support import plans_tried, ties_tried
from backfill_assets_tests.support.clusters import connect


@pytest.mark.long
def test_a_plan_that_asks_a_clock_is_told_from_its_look_alikes(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    assert list(plans_tried.decided_wrongly(spark)) == []
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == before
    assert [each for each in spark.catalog.listTables() if each.isTemporary] == []


@pytest.mark.long
def test_rows_that_depend_on_ties_are_told_from_rows_that_do_not(spark: SparkSession) -> None:
    assert list(ties_tried.decided_wrongly(spark)) == []


@pytest.mark.long
def test_plans_are_told_from_their_look_alikes_over_spark_connect(tmp_path: Path) -> None:
    with connect(tmp_path, []) as settings:
        for tried in ("plans_tried", "ties_tried"):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    f"backfill_assets_tests.support.{tried}",
                    settings["BACKFILL_SPARK_REMOTE"],
                ],
                cwd=PROJECT_ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            assert json.loads(done.stdout.splitlines()[-1]) == [], tried
