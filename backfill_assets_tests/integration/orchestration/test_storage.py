"""Dagster's record of runs is in one place, and stores thousands of events in seconds."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    AssetMaterialization,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    EventLogEntry,
    asset,
    materialize,
    resource,
)

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.orchestration import event_log
from backfill_assets.orchestration.dagster_internals import SqliteEventLogStorage
from backfill_assets.orchestration.event_log import gathering, one_commit
from backfill_assets.orchestration.events import MOST_FAILED_ROWS
from backfill_assets.orchestration.launch import SILENT
from backfill_assets.orchestration.partitions import OfferedDays, partitions_definition
from backfill_assets.orchestration.storage import SHOWN_PER_RUN, SqliteEventLog, open_instance
from backfill_assets_tests.support.dagster_history import (
    GATED,
    PUBLISHED,
    STAGED,
    days,
    gates,
    latest_check,
    record_run,
    size_of,
    statuses,
)
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.ledgers import only_with_sqlite


@pytest.fixture(autouse=True)
def without_a_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    only_with_sqlite("these are files of Dagster's")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture
def instance(settings: Settings) -> Iterator[DagsterInstance]:
    with open_record(settings) as opened:
        yield opened


def test_a_command_and_the_ui_of_the_checkout_see_the_same_runs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:

    @asset
    def something() -> None: ...

    with open_instance(settings) as ours:
        made = materialize([something], instance=ours, run_config=SILENT)
    monkeypatch.setenv("BACKFILL_HOME", str(settings.home))
    monkeypatch.chdir(tmp_path)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(PROJECT_ROOT / "dagster.yaml", checkout)
    with DagsterInstance.local_temp(str(checkout)) as theirs:
        assert [run.run_id for run in theirs.get_runs()] == [made.run_id]
        assert isinstance(theirs.event_log_storage, SqliteEventLog)


def test_the_database_of_a_run_begins_as_dagster_would_make_it(tmp_path: Path) -> None:
    own, theirs = SqliteEventLog(str(tmp_path / "own" / "runs")), SqliteEventLogStorage(str(tmp_path / "theirs"))
    for run_id in ("first", "second"):
        with own.run_connection(run_id), theirs.run_connection(run_id):
            pass

    def content(path: str) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            every = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
            revision = connection.execute("SELECT version_num FROM alembic_version").fetchall()
            return [*every, *revision, *connection.execute("PRAGMA journal_mode").fetchall()]

    made = content(theirs.path_for_shard("first"))
    assert [content(own.path_for_shard(run_id)) for run_id in ("first", "second")] == [made, made]
    assert sorted(own.get_all_run_ids()) == ["first", "second"]


def test_the_database_of_a_run_that_another_process_began_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    one, other = (SqliteEventLog(str(tmp_path / "runs")) for _ in range(2))
    with one.run_connection("first"):
        pass
    with closing(sqlite3.connect(one.path_for_shard("first"))) as connection:
        connection.execute("CREATE TABLE written_meanwhile (id INTEGER)")
    other._begin("first")
    with closing(sqlite3.connect(one.path_for_shard("first"))) as connection:
        assert connection.execute("SELECT * FROM written_meanwhile").fetchall() == []


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


def report(instance: DagsterInstance, day: str) -> None:
    instance.report_runless_asset_event(AssetMaterialization("a", partition=day))


def committed(instance: DagsterInstance) -> list[str]:
    """The days that other processes see, in the order in which they were stored."""
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    with sqlite3.connect(log.path_for_shard("index")) as reader:
        return [day for (day,) in reader.execute("SELECT partition FROM event_logs ORDER BY id")]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "GATHER_S", 600.0)


@pytest.mark.usefixtures("unhurried")
def test_gathered_events_are_committed_before_anything_else_is_done(instance: DagsterInstance) -> None:
    with gathering(instance, True):
        report(instance, "2025-01-01")
        report(instance, "2025-01-02")
        assert committed(instance) == []
        with gathering(instance, False):
            assert committed(instance) == ["2025-01-01", "2025-01-02"]
            report(instance, "2025-01-03")
            assert committed(instance)[2:] == ["2025-01-03"]
        report(instance, "2025-01-04")
        with one_commit(instance):
            assert committed(instance)[3:] == ["2025-01-04"]
        report(instance, "2025-01-05")
        assert committed(instance)[4:] == []
    assert committed(instance)[4:] == ["2025-01-05"]
    report(instance, "2025-01-06")
    assert committed(instance)[5:] == ["2025-01-06"]


def test_gathered_events_are_committed_soon(instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    with gathering(instance, True):
        report(instance, "2025-01-01")
        monkeypatch.setattr(event_log, "GATHER_S", 0.0)
        report(instance, "2025-01-02")
        assert committed(instance) == ["2025-01-01", "2025-01-02"]


def test_an_error_undoes_what_it_stopped_and_nothing_that_was_stored(instance: DagsterInstance) -> None:
    with gathering(instance, True):
        report(instance, "2025-01-01")
        with pytest.raises(ZeroDivisionError), one_commit(instance):
            report(instance, "2025-01-02")
            raise ZeroDivisionError
        report(instance, "2025-01-03")
    with pytest.raises(ZeroDivisionError), gathering(instance, True):
        report(instance, "2025-01-04")
        raise ZeroDivisionError
    assert committed(instance) == ["2025-01-01", "2025-01-03", "2025-01-04"]
    latest = instance.get_latest_materialization_event(AssetKey("a"))
    assert latest is not None
    assert latest.get_dagster_event().partition == "2025-01-04"


@pytest.mark.usefixtures("unhurried")
def test_nobody_waits_for_gathered_events_while_an_author_works_or_a_run_changes_its_state(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, runs = instance.event_log_storage, instance.run_storage
    assert isinstance(log, SqliteEventLog)
    waiting: list[str] = []

    @resource
    def opened() -> None:
        waiting.append(f"resource: {log.is_in_batch()}")

    @asset(required_resource_keys={"opened"})
    def something() -> None:
        waiting.append(f"step: {log.is_in_batch()}")

    def noted(run_id: str, event: DagsterEvent, when: datetime | None = None) -> None:
        waiting.append(f"{event.event_type.name}: {log.is_in_batch()}")
        type(runs).handle_run_event(runs, run_id, event, when)

    monkeypatch.setattr(runs, "handle_run_event", noted)
    with gathering(instance, True):
        materialize([something], instance=instance, run_config=SILENT, resources={"opened": opened})
        assert log.is_in_batch() is False
    assert waiting == ["RUN_START: False", "resource: False", "step: False", "RUN_SUCCESS: False"]


def test_a_check_is_planned_for_more_partitions_than_one_statement_takes(instance: DagsterInstance) -> None:
    daily = partitions_definition(Grain.DAILY, OfferedDays(first=date(2000, 1, 1)))
    many = daily.subset_with_partition_keys(daily.get_partition_keys()[:5_000]).to_serializable_subset()
    ran = record_run(instance, days(1), gates(1))
    (stored,) = instance.all_logs(ran.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    planned_for_all = type(stored.get_dagster_event().asset_check_planned_data)(
        asset_key=GATED, check_name="gate", partitions_subset=many
    )
    event = DagsterEvent(
        event_type_value=DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
        job_name="job",
        event_specific_data=planned_for_all,
    )
    instance.event_log_storage.store_event(
        EventLogEntry(  # type: ignore[no-untyped-call]
            None, "debug", "", "a-run", time.time(), job_name="job", dagster_event=event
        )
    )
    counts = "SELECT count(DISTINCT partition), count(*) FROM asset_check_executions WHERE run_id = 'a-run'"
    assert index_of(instance, counts) == (5_000, 5_000)


@pytest.mark.long
def test_a_long_run_leaves_a_fifth_of_what_dagster_would_keep_of_each_partition(
    instance: DagsterInstance, settings: Settings
) -> None:
    """Dagster's own storage keeps 164 KB per partition with ten gates, each evaluation three times."""
    sizes = [size_of(settings.home)]
    for count in (20, 100):
        record_run(instance, days(count), gates(10))
        sizes.append(size_of(settings.home))
    few, many = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert 10_000 < (many - few) / 80 < 33_000


@pytest.mark.long
def test_every_partition_has_the_status_of_every_gate_and_none_stays_planned(instance: DagsterInstance) -> None:
    failing = days(3)
    record_run(instance, days(30), gates(2), failing=failing)
    for gate, failed in (("not_null_column_0", failing), ("not_null_column_1", ())):
        assert statuses(instance, gate) == {
            day.isoformat(): "FAILED" if day in failed else "SUCCEEDED" for day in days(30)
        }
    record_run(instance, days(2), gates(2))
    assert set(statuses(instance, "not_null_column_0").values()) == {"SUCCEEDED", "FAILED"}
    assert statuses(instance, "not_null_column_0")["2020-01-03"] == "FAILED"
    assert index_of(instance, "SELECT count(*) FROM asset_check_executions WHERE execution_status = 'PLANNED'") == (0,)


@pytest.mark.long
def test_the_verdict_on_a_partition_is_kept_and_what_was_observed_where_it_failed(instance: DagsterInstance) -> None:
    record_run(instance, days(30), gates(1), failing=days(1))
    failed, passed = (evaluation(instance, day.isoformat()) for day in days(2))
    assert passed.description == "0 of 12,345 rows have no not_null_column_0."
    # A number of every partition, so that pages plot it.
    assert {name: value.value for name, value in passed.metadata.items()} == {"violations": 0}
    assert failed.description == "1 of 12,345 rows have no not_null_column_0."
    assert set(failed.metadata) == {"violations", "observed", "changed_columns"}
    record_run(instance, days(MOST_FAILED_ROWS + 1), gates(1), failing=days(MOST_FAILED_ROWS + 1))
    last, beyond = (evaluation(instance, day.isoformat()) for day in days(MOST_FAILED_ROWS + 1)[-2:])
    assert ("observed" in last.metadata, "observed" in beyond.metadata) == (True, False)


@pytest.mark.long
def test_the_log_of_a_run_sums_gates_up_and_shows_some_partitions_and_the_asset_has_all(
    instance: DagsterInstance,
) -> None:
    ran = record_run(instance, days(50), gates(2), failing=days(1))
    shown = [record.event_log_entry for record in instance.get_records_for_run(ran.run_id).records]
    kinds = Counter(event.dagster_event_type for event in shown if event.is_dagster_event)
    assert kinds[DagsterEventType.ASSET_MATERIALIZATION] == 3 * SHOWN_PER_RUN
    assert [
        event.get_dagster_event().asset_check_evaluation_data.description
        for event in shown
        if event.dagster_event_type is DagsterEventType.ASSET_CHECK_EVALUATION
    ] == [
        "1 of 50 days failed: 2020-01-01, 1 day. Keys of rows that fail: backfill report sums-20200101-0a1b2c",
        "50 days passed.",
    ]
    for key in (STAGED, GATED, PUBLISHED):
        assert instance.get_materialized_partitions(key) == {day.isoformat() for day in days(50)}


@pytest.mark.long
def test_what_is_kept_of_an_event_is_what_pages_show_of_it(instance: DagsterInstance) -> None:
    ran = record_run(instance, days(SHOWN_PER_RUN + 2), gates(1))
    told = {
        event.partition: event
        for event in ran.all_events
        if event.event_type is DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == PUBLISHED
    }
    found = instance.fetch_materializations(PUBLISHED, limit=100).records
    assert len(found) == len(told) == SHOWN_PER_RUN + 2
    for record in found:
        kept, whole = record.event_log_entry.get_dagster_event(), told[record.partition_key]
        assert kept.event_specific_data == whole.event_specific_data
        assert (kept.message, kept.step_key, kept.job_name) == (whole.message, whole.step_key, whole.job_name)
        assert record.event_log_entry.run_id == ran.run_id
    evaluated = [
        event.asset_check_evaluation_data
        for event in ran.all_events
        if event.event_type is DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    for whole_evaluation in evaluated:
        assert evaluation(instance, whole_evaluation.partition) == whole_evaluation


def evaluation(instance: DagsterInstance, partition: str | None) -> AssetCheckEvaluation:
    """The latest one of the first gate."""
    found = latest_check(instance, AssetCheckKey(GATED, "not_null_column_0"), partition).evaluation
    assert isinstance(found, AssetCheckEvaluation)
    return found


def index_of(instance: DagsterInstance, query: str) -> Any:
    """The first row of an answer of the index."""
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    with sqlite3.connect(log.path_for_shard("index")) as reader:
        return reader.execute(query).fetchone()
