"""A short version of the comparison of landed values, with a fixed seed: every format and every type."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets_tests.faults.fuzz_values import fuzz_values, table
from backfill_assets_tests.faults.landing_oracle import FileRefused, expected
from backfill_assets_tests.faults.landing_values import ATOMIC, FORMATS, contract, file_of

SEED = 3835
"""Of two contracts that have every type in 14 columns each, and few nested ones, which Spark plans for seconds."""


def test_every_landed_value_is_the_value_that_was_written_or_its_record_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    findings = fuzz_values(
        spark, tmp_path, seed=SEED, records=900, records_in_a_file=150, columns=14, depth=2, files_of_a_format=1
    )
    assert not findings.differences, table(findings)
    names = {*(kind.typeName() for kind in ATOMIC), "array", "struct"}
    for kind in FORMATS:
        of_format = {name: counts for (found, name), counts in findings.counts.items() if found == kind}
        assert {name for name, counts in of_format.items() if counts["accepted"]} >= names
        assert sum(bool(counts["rejected"]) for counts in of_format.values()) > len(names) / 2


@pytest.mark.parametrize("kind", FORMATS)
def test_the_oracle_reads_whatever_a_seed_makes_and_takes_some_of_it(kind: str) -> None:
    fates: Counter[str] = Counter()
    for seed in range(40):
        schema = contract(random.Random(seed), columns=10)
        files = [file_of(random.Random(seed), schema, kind, count=20, prefix="f") for _ in range(2)]
        assert files[0] == files[1]
        try:
            records = expected(files[0].content, files[0].name, schema, rounds=seed % 2 == 0)
        except FileRefused:
            fates["files refused"] += 1
            continue
        assert len(records) == 20
        fates.update("rejected" if each.culprits or each.broken is not None else "accepted" for each in records)
    assert fates["accepted"] > 300
    assert fates["rejected"] > 100
    assert fates["files refused"] > 0
