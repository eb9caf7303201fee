"""Compacted versions are never authoritative: whatever becomes of them, accounts are what they are without them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.landing import conformed
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.landing_examples import LandingRoom, event, json_lines, landing_room


@pytest.mark.long
def test_a_process_that_dies_while_it_compacts_and_files_that_are_damaged_or_gone_change_no_account(
    spark: SparkSession, settings: Settings, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformed, "MOST_FOLDERS", 2)
    with landing_room(spark, settings, clock) as room:
        for number in range(3):
            land(room, number)
        (first,) = segments(room)
        kept = Path(shutil.copytree(first, tmp_path / first.name))
        for number in range(3, 6):
            land(room, number)
        (merged,) = (path for path in segments(room) if path != first)

        # It died after it had built the larger segment and before the one that this replaces was removed.
        shutil.copytree(kept, first, dirs_exist_ok=True)
        # Another one died while it was writing.
        half = Path(shutil.copytree(merged, merged.parent / "half"))
        (half / "_stands_for.json").unlink()
        land(room, 6)
        assert not [path for path in half.rglob("*") if path.is_file()]
        assert first not in segments(room)

        for data in merged.glob("*.parquet"):
            data.write_bytes(data.read_bytes()[:-1])
        land(room, 7)
        assert merged not in segments(room)
        shutil.rmtree(merged.parent.parent)
        land(room, 8)
        assert [record.counts.accepted for record in room.imports()] == [1] * 8 + [2]
        assert [record.keys.current for record in room.imports()] == [2] + [1] * 8


def land(room: LandingRoom, number: int) -> None:
    """One new key, and one that every file has anew."""
    room.land(json_lines(event(f"e{number}"), event("same", place=f"p{number}")), f"f{number}.jsonl")


def segments(room: LandingRoom) -> list[Path]:
    found = folder_at(room.settings.landing).rglob("_stands_for.json")
    return sorted(path.parent for path in found)
