"""Rows that are appended once, against a real Delta table."""

from __future__ import annotations

import errno
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.lake.append import ValidationRow, append_validation, validation_table
from backfill_assets.lake.errors import NotAppended
from backfill_assets.lake.tables import Lake

TABLE = "silver.numbers"


def found_by(run_id: str) -> list[ValidationRow]:
    return [
        ValidationRow(
            partition=date(2026, 1, day),
            run_id=run_id,
            gate="unique_key",
            blocking=True,
            passed=True,
            finding="UNIQUE",
            observed="{}",
            file_set_digest="d",
            transform_version="1.0.0",
        )
        for day in (1, 2)
    ]


def appended(lake: Lake) -> Counter[str]:
    return Counter(lake.open(validation_table(TABLE)).to_pyarrow_table().column("run_id").to_pylist())


def test_of_many_processes_that_append_the_same_results_one_does(tmp_path: Path) -> None:
    lake = Lake(root=tmp_path / "lake")
    names = [f"bf-{number % 3}" for number in range(24)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda name: append_validation(lake, TABLE, found_by(name), app_id=name), names))
    assert appended(lake) == {"bf-0": 2, "bf-1": 2, "bf-2": 2}


def test_results_that_cannot_be_written_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **_named: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    lake = Lake(root=tmp_path / "lake")
    with (
        monkeypatch.context() as broken,
        pytest.raises(NotAppended, match=r"to validation\.numbers: .*Input"),
    ):
        broken.setattr("backfill_assets.lake.append.write_deltalake", failing)
        broken.setattr("backfill_assets.lake.append._FIRST_WAIT_S", 0)
        append_validation(lake, TABLE, found_by("bf-0"), app_id="bf-0")
    append_validation(lake, TABLE, found_by("bf-0"), app_id="bf-0")
    assert appended(lake) == {"bf-0": 2}
