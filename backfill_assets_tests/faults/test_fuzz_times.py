"""A short version of the comparison of landed times, with a fixed seed: every format and most declarations."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets_tests.faults.fuzz_times import fuzz_times
from backfill_assets_tests.faults.fuzz_values import table


@pytest.mark.long
def test_every_time_is_the_one_that_was_written(spark: SparkSession, tmp_path: Path) -> None:
    findings = fuzz_times(spark, tmp_path, seed=1, records=3_000, records_in_a_file=60)
    assert not findings.differences, table(findings)
    compared = {name for _, name in findings.counts}
    assert {"timestamp", "timestamp_ntz", "date", "array"} <= compared
