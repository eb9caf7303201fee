"""A short version of the fuzzer, with fixed seeds: every kind of file a few times over the life of the suite."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture.files.file_capture import kind_of
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.landing.probe import probe
from backfill_assets_tests.faults.corpus import KINDS, hostile_file
from backfill_assets_tests.faults.corpus_json import gzip_file
from backfill_assets_tests.faults.corpus_tables import parquet_file
from backfill_assets_tests.faults.corpus_values import Author
from backfill_assets_tests.faults.fuzz import expected_counts, fuzz, table
from backfill_assets_tests.faults.fuzz_changes import fuzz_changes
from backfill_assets_tests.support.landing_examples import EVENTS

SOME, OTHERS = ("line breaks in quotes", "odd values"), ("mixed line ends", "two members")


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "records", "empty_files"),
    [(SOME, 100, 1), (SOME, 500, None), (OTHERS, 500, None)],
    ids=["few", "some", "others"],
)
def test_every_record_of_hostile_files_is_accounted_for(
    spark: SparkSession, tmp_path: Path, names: Sequence[str], records: int, empty_files: int | None
) -> None:
    findings = fuzz(
        spark,
        tmp_path,
        seed=20,
        records=records,
        records_in_a_file=records * 4 // 5,
        kinds=[next(n for n, (_, kind) in enumerate(KINDS) if kind == name) for name in names],
        files_in_a_room=2,
        empty_files=empty_files,
    )
    assert not findings.violations, table(findings) + "\n" + "\n".join(findings.violations)
    assert findings.records >= records
    assert sum(tally.refused for tally in findings.tallies.values()) > 20


@pytest.mark.long
@pytest.mark.parametrize(("seed", "acts"), [(1, 4), (2, 14), (3, 14)], ids=["few", "many", "others"])
def test_the_accounts_of_a_source_that_changes_its_mind_close_after_whatever_is_done(
    spark: SparkSession, tmp_path: Path, seed: int, acts: int
) -> None:
    findings = fuzz_changes(spark, tmp_path, seed=seed, rooms=1, acts=acts, count=60)
    assert not findings.violations, table(findings) + "\n" + "\n".join(findings.violations)
    assert sum(tally.files for tally in findings.tallies.values()) == acts


def test_a_seed_makes_the_same_file_again_and_another_seed_another() -> None:
    assert hostile_file(1, 3, 50) == hostile_file(1, 3, 50)
    assert hostile_file(1, 3, 50) != hostile_file(2, 3, 50)


@pytest.mark.long
def test_a_first_look_at_damaged_files_ends_in_one_sentence_whatever_bytes_changed(tmp_path: Path) -> None:
    chance = random.Random(5)
    makers = [(parquet_file, "nested"), (parquet_file, "int96"), (parquet_file, "extra columns"), (gzip_file, "csv")]
    whole = [make(kind, Author(random.Random(kind), "x"), 20) for make, kind in makers]
    refused = 0
    for _ in range(800):
        file = chance.choice(whole)
        content = bytearray(file.content)
        for _ in range(chance.choice([1, 3, 20])):
            tail = len(content) - 1 - chance.randrange(min(len(content), 1_200))  # where the footer is
            content[chance.choice([tail, chance.randrange(len(content))])] = chance.randrange(256)
        path = tmp_path / file.name
        path.write_bytes(bytes(content))
        try:
            probe(path, kind_of(path), EVENTS, name=file.name)
        except UnreadableFile as error:
            refused += 1
            assert "\n" not in error.message
            assert len(error.message) < 1_000
    assert refused > 400


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_the_counts_that_are_expected_of_any_file_add_up(number: int) -> None:
    files = [hostile_file(seed, number, 100).records or () for seed in range(3)]
    for file, counts in zip(files, expected_counts(files), strict=True):
        assert counts.reconciles
        assert counts.landed == len(file)
        assert counts.rejected == sum(fate is None for fate in file)
