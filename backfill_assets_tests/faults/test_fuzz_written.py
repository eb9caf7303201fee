"""A short version of the comparison of declared texts, with a fixed seed: every format of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets_tests.faults.fuzz_values import table
from backfill_assets_tests.faults.fuzz_written import fuzz_written


@pytest.mark.long
def test_every_declared_text_is_the_value_that_was_written(spark: SparkSession, tmp_path: Path) -> None:
    findings = fuzz_written(spark, tmp_path, seed=1, records=6_000, records_in_a_file=1_000)
    assert not findings.differences, table(findings)
    compared = {name for _, name in findings.counts}
    assert {"timestamp", "timestamp_ntz", "date", "boolean", "string"} <= compared
