"""A place in a pool of Dagster's ends with the process that had it, also where no daemon looks after that."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus

from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.orchestration.storage import dagster_folder, open_instance
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.shop import shop_environment

POOL = "spark"
STEP = "backfill_land_dropped_now"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    with open_record(Settings.from_environment(shop_environment(tmp_path))) as opened:
        opened.event_log_storage.set_concurrency_slots(POOL, 1)
        yield opened


def started(instance: DagsterInstance, run_id: str, status: DagsterRunStatus = DagsterRunStatus.STARTED) -> None:
    instance.add_run(DagsterRun(job_name="backfill_land_dropped", run_id=run_id, status=status))


def claims(instance: DagsterInstance, run_id: str) -> bool:
    return bool(instance.event_log_storage.claim_concurrency_slot(POOL, run_id, STEP).is_claimed)


def _claims_and_is_killed(home: Path, run_id: str) -> None:
    with open_instance(Settings.from_environment(shop_environment(home))) as instance:
        assert claims(instance, run_id)
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_the_place_of_a_process_that_was_killed_is_free_for_the_next_run(
    instance: DagsterInstance, tmp_path: Path
) -> None:
    started(instance, "killed")
    started(instance, "next")
    process = multiprocessing.get_context("spawn").Process(target=_claims_and_is_killed, args=(tmp_path, "killed"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert instance.event_log_storage.get_concurrency_info(POOL).active_run_ids == {"killed"}
    assert claims(instance, "next")
    killed = instance.get_run_by_id("killed")
    assert killed is not None and killed.status is DagsterRunStatus.FAILURE
    assert instance.event_log_storage.get_concurrency_info(POOL).active_run_ids == {"next"}


def test_the_place_of_a_run_that_has_ended_is_free_for_the_next_one(instance: DagsterInstance) -> None:
    started(instance, "ended")
    started(instance, "next")
    assert claims(instance, "ended")
    instance.report_run_canceled(instance.get_run_by_id("ended"))  # type: ignore[arg-type]
    assert claims(instance, "next")


def test_the_place_of_a_process_that_is_at_work_stays_its_own(instance: DagsterInstance) -> None:
    started(instance, "first")
    started(instance, "second")
    assert claims(instance, "first")
    assert not claims(instance, "second")
    first = instance.get_run_by_id("first")
    assert first is not None and first.status is DagsterRunStatus.STARTED
    instance.event_log_storage.free_concurrency_slots_for_run("first")
    assert claims(instance, "second")


@pytest.mark.long
def test_a_run_that_waits_for_a_place_takes_no_core_and_can_be_terminated(
    instance: DagsterInstance, tmp_path: Path
) -> None:
    started(instance, "first")
    assert claims(instance, "first")
    program = Path(sys.executable).with_name("dagster")
    log = tmp_path / "waits.log"
    (tmp_path / "drop" / "sales").mkdir(parents=True)
    own = {
        **os.environ,
        **shop_environment(tmp_path),
        "BACKFILL_DROP": str(tmp_path / "drop"),
        "BACKFILL_USER": "olga",
        "DAGSTER_HOME": str(dagster_folder(Settings.from_environment(shop_environment(tmp_path)))),
    }
    with log.open("wb") as output:
        waits = subprocess.Popen(
            [program, "job", "execute", "-m", "backfill_assets.definitions", "-j", "backfill_land_dropped"],
            cwd=PROJECT_ROOT,
            env=own,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until = time.monotonic() + 120
        while "Step blocked by limit for pool" not in log.read_text(errors="replace"):
            assert waits.poll() is None and time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.2)
        before = cpu_seconds(waits.pid)
        time.sleep(4)
        assert cpu_seconds(waits.pid) - before < 1
        waits.terminate()
        assert waits.wait(timeout=30) != 0
    finally:
        waits.kill()
        waits.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
