"""Old runs of Dagster's history go, their space comes back, and pages show what they showed before."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import BackfillPolicy, DagsterInstance, DagsterRunStatus, asset, job, materialize, op
from rich.console import Console

from backfill_assets.application.recorder import Acting
from backfill_assets.application.upkeep import vacuum
from backfill_assets.calendar.partitions import Grain
from backfill_assets.cli.terminal import view
from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.launch import SILENT
from backfill_assets.orchestration.partitions import OfferedDays, partitions_definition, relied_upon
from backfill_assets.orchestration.recorder import dagster_recorder, prune, prune_history
from backfill_assets.orchestration.storage import SqliteEventLog
from backfill_assets.orchestration.tags import partition_range
from backfill_assets.report.upkeep import Pruned, VacuumDocument, vacuum_page
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.dagster_history import (
    FIRST,
    GATED,
    PUBLISHED,
    STAGED,
    days,
    gates,
    record_run,
    size_of,
    statuses,
)
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.ledgers import only_with_sqlite
from backfill_assets_tests.support.orchestration_examples import environment

MORE_THAN_90_DAYS = timedelta(days=91)


@pytest.fixture(autouse=True)
def without_a_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    only_with_sqlite("these are files of Dagster's")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture
def instance(settings: Settings) -> Iterator[DagsterInstance]:
    with open_record(settings) as opened:
        yield opened


def later() -> datetime:
    return datetime.now(UTC) + MORE_THAN_90_DAYS


def failed_run(instance: DagsterInstance, count: int) -> str:
    """The first asset fails on the first days: its partitions turn red."""
    with relied_upon():

        @asset(
            key=STAGED,
            partitions_def=partitions_definition(Grain.DAILY, OfferedDays(first=FIRST)),
            backfill_policy=BackfillPolicy.single_run(),
        )
        def staged() -> None:
            raise ZeroDivisionError

    ran = materialize(
        [staged], instance=instance, tags=dict(partition_range(days(count))), run_config=SILENT, raise_on_error=False
    )
    assert not ran.success
    return ran.run_id


def pages(instance: DagsterInstance) -> dict[str, Any]:
    """What the pages of assets and checks are made of."""
    log = instance.event_log_storage
    return {
        "materialized": {key: instance.get_materialized_partitions(key) for key in (STAGED, GATED, PUBLISHED)},
        "latest": {key: instance.get_latest_materialization_event(key) for key in (STAGED, GATED, PUBLISHED)},
        "failed": log.get_latest_asset_partition_materialization_attempts_without_materializations(STAGED),
        "checks": {gate.name: statuses(instance, gate.name) for gate in gates(2)},
    }


def rows_of(instance: DagsterInstance, run_id: str) -> list[int]:
    """What the index has of a run: events, tags of events, evaluations."""
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    with sqlite3.connect(log.path_for_shard("index")) as reader:
        of_run = "(SELECT id FROM event_logs WHERE run_id = :run)"
        return [
            reader.execute(f"SELECT count(*) FROM {table} WHERE {where}", {"run": run_id}).fetchone()[0]
            for table, where in (
                ("event_logs", "run_id = :run"),
                ("asset_event_tags", f"event_id IN {of_run}"),
                ("asset_check_executions", "run_id = :run"),
            )
        ]


@pytest.mark.long
def test_runs_that_no_page_shows_go_and_pages_are_as_they_were(instance: DagsterInstance, settings: Settings) -> None:
    first = record_run(instance, days(40), gates(2), failing=days(3)).run_id
    second = record_run(instance, days(40), gates(2), failing=days(1)).run_id
    third = record_run(instance, days(2), gates(2)).run_id
    red = failed_run(instance, 1)
    before, size = pages(instance), size_of(settings.home)
    assert before["failed"].keys() == {"2020-01-01"}
    assert before["checks"]["not_null_column_0"]["2020-01-01"] == "SUCCEEDED"

    asked = prune(instance, days=90, as_of=later(), dry_run=True)
    assert (asked.runs, asked.kept_runs, asked.note) == (1, 3, None)
    assert asked.size_bytes > 100_000
    assert (size_of(settings.home), pages(instance)) == (size, before)

    found = prune(instance, days=90, as_of=later(), dry_run=False)
    assert (found.runs, found.kept_runs, found.note) == (1, 3, None)
    assert size - size_of(settings.home) == pytest.approx(found.size_bytes, abs=50_000)
    assert found.size_bytes > 100_000
    assert pages(instance) == before
    assert {run.run_id for run in instance.get_runs()} == {second, third, red}
    assert rows_of(instance, first) == [0, 0, 0]
    assert min(rows_of(instance, second)) > 0
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    assert not list(Path(log.path_for_shard(first)).parent.glob(f"{first}*"))
    assert prune(instance, days=90, as_of=later(), dry_run=False) == Pruned(days=90, kept_runs=3)


@pytest.mark.long
def test_what_is_younger_or_in_progress_stays(instance: DagsterInstance) -> None:
    for _ in range(2):
        record_run(instance, days(2), gates(1))
    assert prune(instance, days=90, as_of=datetime.now(UTC), dry_run=False) == Pruned(days=90)
    for run in instance.get_runs():
        instance.report_run_canceling(run)
    assert {run.status for run in instance.get_runs()} == {DagsterRunStatus.CANCELING}
    assert prune(instance, days=90, as_of=later(), dry_run=False) == Pruned(days=90)
    assert len(instance.get_runs()) == 2


@pytest.mark.long
def test_ids_of_events_are_never_given_again(instance: DagsterInstance) -> None:
    @op
    def nothing() -> None: ...

    @job
    def idle() -> None:
        nothing()

    record_run(instance, days(2), gates(1))
    first, last = (idle.execute_in_process(instance=instance, run_config=SILENT).run_id for _ in range(2))
    assert prune(instance, days=90, as_of=later(), dry_run=False).runs == 1
    assert (instance.get_run_by_id(first) is None, instance.get_run_by_id(last) is None) == (True, False)


@pytest.mark.long
def test_what_a_death_left_goes_the_next_time(instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    first = record_run(instance, days(2), gates(1)).run_id
    record_run(instance, days(2), gates(1))

    def die(_run_id: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(instance.run_storage, "delete_run", die)
        with pytest.raises(KeyboardInterrupt):
            prune(instance, days=90, as_of=later(), dry_run=False)
    assert instance.get_run_by_id(first) is not None
    assert prune(instance, days=90, as_of=later(), dry_run=False).runs == 1
    assert instance.get_run_by_id(first) is None
    assert rows_of(instance, first) == [0, 0, 0]


@pytest.mark.long
def test_files_that_another_process_holds_are_not_made_smaller_and_that_is_said(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        record_run(instance, days(2), gates(1))
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    monkeypatch.setattr("backfill_assets.orchestration.storage.WAIT_SECONDS", 0.1)
    with sqlite3.connect(log.path_for_shard("index")) as other:
        forget = log.forget

        def forget_and_wait(run_id: str) -> None:
            forget(run_id)
            other.execute("BEGIN IMMEDIATE")

        monkeypatch.setattr(log, "forget", forget_and_wait)
        found = prune(instance, days=90, as_of=later(), dry_run=False)
    assert found.runs == 1
    assert found.note is not None
    assert "the files could not be made smaller now" in found.note


def test_a_record_that_cannot_be_used_is_said_and_stops_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert prune_history(settings, as_of=later(), dry_run=False) == Pruned(
        days=90, note="Dagster has recorded nothing yet"
    )
    assert not (settings.home / "dagster").exists()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    note = prune_history(settings, as_of=later(), dry_run=False).note
    assert note is not None
    assert note.startswith("Dagster's record cannot be used: ")
    monkeypatch.delenv("DAGSTER_HOME")
    with open_record(settings) as opened:
        log = opened.event_log_storage
        assert isinstance(log, SqliteEventLog)
        index = Path(log.path_for_shard("index"))
    index.write_bytes(b"no database" * 1_000)
    note = prune_history(settings, as_of=later(), dry_run=False).note
    assert note is not None
    assert "file is not a database" in note


def test_a_foreign_storage_is_not_pruned(tmp_path: Path) -> None:
    with DagsterInstance.local_temp(str(tmp_path)) as other:
        record_run(other, days(2), gates(1))
        found = prune(other, days=90, as_of=later(), dry_run=False)
        assert (found.runs, found.note) == (
            0,
            "dagster.yaml names another storage than this project's; it is left alone",
        )


@pytest.mark.long
def test_vacuum_prunes_and_says_how_many_and_how_much(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**environment(settings.home), "BACKFILL_DAGSTER_DAYS": "1"}.items():
        monkeypatch.setenv(name, value)
    with open_record(settings) as instance:
        for _ in range(2):
            record_run(instance, days(2), gates(1))
        make_old(instance)
    asked = vacuumed(dry_run=True)
    found = vacuumed(dry_run=False)
    gone = found.dagster
    assert gone == replace(asked.dagster, size_bytes=gone.size_bytes)
    assert gone == Pruned(days=1, runs=1, kept_runs=1, size_bytes=gone.size_bytes)
    assert min(gone.size_bytes, asked.dagster.size_bytes) > 10_000
    assert "removed: 1 run older than 1 day, " in shown(found)
    monkeypatch.setenv("DAGSTER_HOME", str(settings.home / "nowhere"))
    left = vacuumed(dry_run=False)
    assert left.lake.problems == ()
    assert "Dagster's record cannot be used" in shown(left)


def vacuumed(*, dry_run: bool) -> VacuumDocument:
    settings = Settings.from_environment()
    ws = Workspace.open(settings)
    with dagster_recorder(settings) as recorder:
        found = vacuum(ws, Acting(by="vic", recorder=recorder), dry_run=dry_run)
    ws.close()
    return found


def make_old(instance: DagsterInstance) -> None:
    """As if every run had ended two days ago."""
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLog)
    with sqlite3.connect(Path(log.path_for_shard("index")).parent.parent / "runs.db") as runs:
        runs.execute("UPDATE runs SET update_timestamp = datetime('now', '-2 days')")


def shown(document: VacuumDocument) -> str:
    """What a person reads."""
    text = io.StringIO()
    Console(file=text, width=200).print(view(vacuum_page(document)))
    return text.getvalue()
