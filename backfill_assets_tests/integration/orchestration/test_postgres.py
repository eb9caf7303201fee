"""With Dagster's runs in PostgreSQL everything works as with files, and one URL is enough to say so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from dagster import AssetCheckKey, AssetKey, AssetMaterialization, DagsterInstance, asset, materialize
from pyspark.sql import SparkSession

from backfill_assets.application.parts import STAGED_AND_GATED
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration.event_log import one_commit
from backfill_assets.orchestration.launch import SILENT, run_in_process
from backfill_assets.orchestration.postgres import PostgresEventLog
from backfill_assets.orchestration.recorder import prune
from backfill_assets.orchestration.storage import open_instance
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.dagster_history import GATED, days, gates, latest_check, record_run, statuses
from backfill_assets_tests.support.operations import approve
from backfill_assets_tests.support.orchestration_examples import (
    BRONZE,
    MONTHLY,
    PUBLICATION,
    PUBLISHED,
    VALIDATION,
    bench,
)

OPENED = """
    import os
    from backfill_assets.orchestration.storage import open_instance
    from backfill_assets.core.settings import Settings
    with open_instance(Settings.from_environment()) as instance:
        instance.get_runs()
"""


@pytest.fixture
def settings(tmp_path: Path, postgres_url: str) -> Settings:
    return Settings.from_environment({"BACKFILL_HOME": str(tmp_path / "home"), "BACKFILL_LEDGER_URL": postgres_url})


@contextmanager
def opened(settings: Settings) -> Iterator[DagsterInstance]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        with open_instance(settings) as instance:
            yield instance


@asset
def something() -> None: ...


@pytest.mark.long
def test_the_whole_way_with_ledger_and_dagster_in_one_database(
    tmp_path: Path, spark: SparkSession, postgres_url: str
) -> None:
    home = tmp_path / "home"
    with bench(home, BACKFILL_LEDGER_URL=postgres_url) as made:
        made.land(spark, {date(2025, 1, 1) + timedelta(days=n): 10 for n in range(62)}, name="first")
        assert made.load().succeeded
        run_id = made.plan(date(2025, 1, 23), date(2025, 2, 28))
        staged = run_in_process(made.workspace, run_id, STAGED_AND_GATED, instance=made.instance, by="ann")
        assert staged.succeeded, staged.error
        approve(made.workspace, run_id, by="bob")
        assert run_in_process(made.workspace, run_id, PUBLICATION, instance=made.instance, by="bob").succeeded
        followed = made.follow(by="bob")
        assert [(run.table, run.state) for run in followed.followed] == [("gold.sales_monthly", RunState.PUBLISHED)]
        assert len(made.materialized(BRONZE)) == 62
        assert len(made.materialized(PUBLISHED)) == 37
        assert made.materialized(MONTHLY) == {"2025-02-01"}
        checked = latest_check(made.instance, AssetCheckKey(VALIDATION, "unique_key"), "2025-02-03")
        assert checked.status.value == "SUCCEEDED"
        with psycopg.connect(postgres_url) as look:
            runs = look.execute("SELECT (SELECT count(*) FROM public.runs), (SELECT count(*) FROM dagster.runs)")
            assert runs.fetchone() == (3, 4)
    assert not [path.name for path in home.rglob("*.db")]


def test_a_command_and_the_ui_of_the_checkout_see_the_same_runs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(settings) as ours:
        made = materialize([something], instance=ours, run_config=SILENT)
    monkeypatch.setenv("BACKFILL_HOME", str(settings.home))
    monkeypatch.setenv("BACKFILL_LEDGER_URL", settings.ledger_url)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(PROJECT_ROOT / "dagster.yaml", checkout)
    with DagsterInstance.local_temp(str(checkout)) as theirs:
        assert [run.run_id for run in theirs.get_runs()] == [made.run_id]
        assert isinstance(theirs.event_log_storage, PostgresEventLog)
        theirs.optimize_for_webserver(statement_timeout=5_000, pool_recycle=60, max_overflow=5)
        assert len(theirs.all_logs(made.run_id)) > 5
        assert settings.ledger_url not in str(theirs.get_ref().to_dict()), (
            "children are told where to look, not what is there"
        )


def test_dagster_can_be_in_another_database_than_the_ledger(tmp_path: Path, postgres_url: str) -> None:
    home = {"BACKFILL_HOME": str(tmp_path / "home")}
    with opened(Settings.from_environment({**home, "BACKFILL_DAGSTER_URL": postgres_url})) as instance:
        assert isinstance(instance.event_log_storage, PostgresEventLog)
    elsewhere = {"BACKFILL_LEDGER_URL": postgres_url, "BACKFILL_DAGSTER_URL": "sqlite"}
    with opened(Settings.from_environment({**home, **elsewhere})) as instance:
        assert not isinstance(instance.event_log_storage, PostgresEventLog)


def test_a_search_path_of_the_urls_own_is_kept(tmp_path: Path, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA mine")
    url = f"{postgres_url}&options=-c%20search_path%3Dmine"
    given = {"BACKFILL_HOME": str(tmp_path / "home"), "BACKFILL_DAGSTER_URL": url}
    with opened(Settings.from_environment(given)) as instance:
        instance.report_runless_asset_event(AssetMaterialization("a"))
    with psycopg.connect(postgres_url) as look:
        assert look.execute("SELECT count(*) FROM mine.event_logs").fetchone() == (1,)


def test_events_of_one_commit_are_seen_by_others_all_at_once_or_never(settings: Settings) -> None:
    def seen(look: psycopg.Connection) -> int:
        (count,) = look.execute("SELECT count(*) FROM dagster.event_logs").fetchone() or (None,)
        return int(count or 0)

    with opened(settings) as instance, psycopg.connect(settings.ledger_url, autocommit=True) as look:
        with one_commit(instance):
            for day in ("2025-01-01", "2025-01-03", "2025-01-02"):
                instance.report_runless_asset_event(AssetMaterialization("a", partition=day))
            assert seen(look) == 0
        assert seen(look) == 3
        latest = instance.get_latest_materialization_event(AssetKey("a"))
        assert latest is not None
        assert latest.get_dagster_event().partition == "2025-01-02"
        with pytest.raises(ZeroDivisionError), one_commit(instance):
            instance.report_runless_asset_event(AssetMaterialization("a", partition="2025-01-04"))
            raise ZeroDivisionError
        assert seen(look) == 3
        instance.report_runless_asset_event(AssetMaterialization("a", partition="2025-01-05"))
        assert seen(look) == 4


@pytest.mark.long
def test_old_runs_go_and_pages_are_as_they_were(settings: Settings) -> None:
    with opened(settings) as instance:
        first, second = (record_run(instance, days(4), gates(2), failing=days(1)).run_id for _ in range(2))
        before = statuses(instance, "not_null_column_0"), instance.get_materialized_partitions(GATED)
        assert before[0] == {"2020-01-01": "FAILED", **{day.isoformat(): "SUCCEEDED" for day in days(4)[1:]}}
        later = datetime.now(UTC) + timedelta(days=91)
        asked, found = (prune(instance, days=90, as_of=later, dry_run=dry_run) for dry_run in (True, False))
        assert asked == found
        assert (found.runs, found.kept_runs, found.size_bytes > 10_000, found.note) == (1, 1, True, None)
        assert (statuses(instance, "not_null_column_0"), instance.get_materialized_partitions(GATED)) == before
        assert [run.run_id for run in instance.get_runs()] == [second]
        log = instance.event_log_storage
        assert isinstance(log, PostgresEventLog)
        assert first not in log.sizes()


@pytest.mark.long
def test_processes_that_come_first_at_the_same_time_make_the_tables_once(settings: Settings) -> None:
    environment = {
        "PYTHONPATH": str(PROJECT_ROOT),
        "BACKFILL_HOME": str(settings.home),
        "BACKFILL_LEDGER_URL": settings.ledger_url,
    }
    program = "\n".join(line[4:] for line in OPENED.splitlines())
    started = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in started]
    assert [(code, said) for said, code in ended if code] == []


def test_a_database_that_is_not_there_is_one_sentence_without_the_password(settings: Settings) -> None:
    given = {"BACKFILL_HOME": str(settings.home), "BACKFILL_DAGSTER_URL": "postgresql://me:secret@localhost:1/runs"}
    with (
        pytest.raises(Refused, match="Dagster's runs cannot be used") as refusal,
        opened(Settings.from_environment(given)),
    ):
        pass
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("package", ["dagster_postgres", "psycopg"])
def test_a_missing_package_is_named_with_the_way_to_get_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.delitem(sys.modules, "backfill_assets.orchestration.postgres")
    monkeypatch.setitem(sys.modules, package, None)
    with refused(Refused, match=rf"{package}, which is not installed.*backfill-assets\[postgres\]"), opened(settings):
        pass
