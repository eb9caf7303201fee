"""Are 100,000 records in any dialect the ones that the oracle reads, character by character?"""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.domain import Csv
from backfill_assets.landing.decoding.csv_rows import REASON_ENDS, decode_csv
from backfill_assets_tests.faults.landing_dialects import Row, dialect_of, file_of, rows_of
from backfill_assets_tests.faults.landing_oracle import FileRefused

RECORDS, FILES = 250, 560


@pytest.mark.long
def test_records_of_any_dialect_are_those_that_the_oracle_reads(tmp_path: Path) -> None:
    fates: Counter[str] = Counter()
    copy, into = tmp_path / "landed", tmp_path / "decoded"
    for seed in range(FILES):
        chance = random.Random(seed)
        dialect = dialect_of(chance)
        content = file_of(chance, dialect, count=RECORDS)
        copy.write_bytes(content)
        found, refused = _found(copy, into, dialect)
        try:
            expected = rows_of(content, dialect)
        except FileRefused as refusal:
            assert str(refusal) in refused, (seed, dialect, refused)
            fates["files refused"] += 1
            continue
        assert refused == "", (seed, dialect, refused)
        for number, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
            same = ours.values == theirs.values and (theirs.values is not None or _alike(ours.text, theirs.text))
            assert same, (seed, dialect, number, ours, theirs)
        assert len(found) == len(expected), (seed, dialect)
        fates.update("rejected" if each.values is None else "accepted" for each in expected[1:])
    assert fates["accepted"] + fates["rejected"] >= 100_000, fates
    assert fates["rejected"] > 5_000, fates


def _found(copy: Path, into: Path, dialect: Csv) -> tuple[list[Row], str]:
    """The rows that the decoder gives, or why it refuses the file."""
    try:
        decode_csv(copy, FileKind(format=Format.CSV, compression=""), dialect, name="a.csv", into=into)
    except BadFile as refused:
        return [], refused.message
    with into.open(encoding="utf-8", newline="") as text:
        return [_row(row) for row in csv.reader(text, strict=True)], ""


def _row(row: list[str]) -> Row:
    if REASON_ENDS in row[0]:
        return Row(values=None, text=row[0].partition(REASON_ENDS)[2])
    return Row(values=tuple(row), text="")


def _alike(ours: str, theirs: str) -> bool:
    """Whether two texts are the same up to how many characters stand for bytes that are none."""
    return ours.replace("\ufffd", "") == theirs.replace("\ufffd", "")
