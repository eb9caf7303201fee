"""Checkpoints and cleanups of the log, whoever makes them, remove nothing that recovery, rollback or audit need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from backfill_assets.application.recover import recover
from backfill_assets.core.crash_points import Point
from backfill_assets.ledger.states import RunState
from backfill_assets.requests.publish import publish_run, rollback_run
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.prepared import Prepared
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.faults.scene import Scene
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.lakes import folder_of

TEN_YEARS = timedelta(days=3_653)


@pytest.fixture
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Prepared.make(tmp_path_factory.mktemp("log"))
    yield made.copy()
    made.close()


def cleaned_up_after_ten_years(scene: Scene) -> int:
    """Checkpoints a log whose entries are old, lets delta-rs clean it up, and counts the entries that are left."""
    log = folder_of(scene.ws.lake, SILVER) / "_delta_log"
    for entry in log.iterdir():
        then = entry.stat().st_mtime - TEN_YEARS.total_seconds()
        os.utime(entry, (then, then))
    table = scene.ws.lake.open(SILVER)
    table.create_checkpoint()
    table.cleanup_metadata()
    entries = [int(path.stem) for path in log.glob("*.json")]
    assert sorted(entries) == list(range(table.version() + 1))
    assert list(log.glob("*.checkpoint.parquet"))
    return len(entries)


@pytest.mark.long
def test_no_entry_of_the_log_is_removed_by_its_age(scene: Scene) -> None:
    publish_run(scene.ws, "backfill", by="ben")
    assert cleaned_up_after_ten_years(scene) > 3
    assert audit(scene.ws).problems == ()
    rollback_run(scene.ws, "backfill", by="ben", reason="was wrong")
    assert cleaned_up_after_ten_years(scene) > 4
    assert operations.state_of(scene.ws, "backfill") is RunState.ROLLED_BACK
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_a_commit_is_found_by_recovery_in_a_log_that_was_cleaned_up_meanwhile(scene: Scene) -> None:
    with suppress(Stopped):
        publish_run(stopping_at(scene.ws, Point.SWAP_COMMITTED), "backfill", by="ben")
    cleaned_up_after_ten_years(scene)
    (found,) = recover(scene.ws, by="ops")
    assert "had landed" in found.outcome
    assert operations.state_of(scene.ws, "backfill") is RunState.PUBLISHED
    assert audit(scene.ws).problems == ()
