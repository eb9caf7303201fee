"""Dagster's record of runs is in one place, and stores thousands of events in seconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckSpec,
    AssetKey,
    AssetMaterialization,
    DagsterInstance,
    MaterializeResult,
    asset,
    materialize,
)
from dagster._core.instance.ref import InstanceRef

from backfill_assets.orchestration.batches import one_commit
from backfill_assets.orchestration.launch import SILENT, open_instance
from backfill_assets.orchestration.partitions import partitions_definition
from backfill_assets.orchestration.preview import relied_upon
from backfill_assets.orchestration.storage import SqliteEventLog
from backfill_assets.orchestration.tags import partition_range
from backfill_assets.planning.partitions import Grain
from backfill_assets.settings import PROJECT_ROOT, Settings


@pytest.fixture
def instance(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with open_instance(settings) as opened:
        yield opened


def test_a_command_and_the_ui_of_the_checkout_see_the_same_runs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)

    @asset
    def something() -> None: ...

    with open_instance(settings) as ours:
        made = materialize([something], instance=ours, run_config=SILENT)
    monkeypatch.setenv("BACKFILL_HOME", str(settings.home))
    monkeypatch.chdir(tmp_path)
    reference = InstanceRef.from_dir(str(tmp_path), config_dir=str(PROJECT_ROOT))
    with DagsterInstance.from_ref(reference) as theirs:
        assert [run.run_id for run in theirs.get_runs()] == [made.run_id]
        assert isinstance(theirs.event_log_storage, SqliteEventLog)


def test_events_of_one_commit_are_seen_by_others_all_at_once(instance: DagsterInstance) -> None:
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)

    def seen() -> int:
        with sqlite3.connect(log.path_for_shard("index")) as reader:
            return int(reader.execute("SELECT count(*) FROM event_logs").fetchone()[0])

    with one_commit(instance):
        for day in ("2025-01-01", "2025-01-02"):
            instance.report_runless_asset_event(AssetMaterialization("a", partition=day))
        assert seen() == 0
    assert seen() == 2
    instance.report_runless_asset_event(AssetMaterialization("a", partition="2025-01-03"))
    assert seen() == 3


def test_the_last_event_of_a_commit_is_the_assets_latest(instance: DagsterInstance) -> None:
    with one_commit(instance):
        for day in ("2025-01-01", "2025-01-03", "2025-01-02"):
            instance.report_runless_asset_event(AssetMaterialization("a", partition=day))
    latest = instance.get_latest_materialization_event(AssetKey("a"))
    assert latest is not None
    assert latest.get_dagster_event().partition == "2025-01-02"
    assert instance.get_asset_keys() == [AssetKey("a")]


def test_what_was_stored_before_an_error_is_not_half_there(instance: DagsterInstance) -> None:
    with pytest.raises(ZeroDivisionError), one_commit(instance):
        instance.report_runless_asset_event(AssetMaterialization("a", partition="2025-01-01"))
        raise ZeroDivisionError
    assert instance.get_materialized_partitions(AssetKey("a")) == set()
    instance.report_runless_asset_event(AssetMaterialization("a", partition="2025-01-02"))
    assert instance.get_materialized_partitions(AssetKey("a")) == {"2025-01-02"}


def test_a_check_over_more_partitions_than_one_statement_takes_is_planned_for_each(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backfill_assets.orchestration.batches.PLANNED_CHECKS", 7)
    days = partitions_definition(Grain.DAILY, date(2025, 1, 1))
    with relied_upon():
        gate = AssetCheckSpec("gate", asset="table", partitions_def=days)

        @asset(partitions_def=days, check_specs=[gate], name="table")
        def table() -> Iterator[Any]:
            yield MaterializeResult()

    chosen = (date(2025, 1, 1), date(2025, 1, 20))
    materialize([table], instance=instance, tags=dict(partition_range(chosen)), run_config=SILENT, raise_on_error=False)
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    with sqlite3.connect(log.path_for_shard("index")) as reader:
        planned = reader.execute("SELECT count(DISTINCT partition), count(*) FROM asset_check_executions").fetchone()
    assert planned == (20, 20)
