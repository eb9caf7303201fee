"""What a command does to many partitions is recorded by a process of its own, for which the command does not wait."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from dagster import DagsterRunStatus

from backfill_assets.application.parts import Part
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.progress import Progress
from backfill_assets.orchestration import background_recorder, tags
from backfill_assets.orchestration.background_recorder import RecordedBeside
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.partitions import key_of, published_key
from backfill_assets.orchestration.resources import Session
from backfill_assets_tests.faults.spark_free_compute import SparkFreeCompute, without_spark
from backfill_assets_tests.faults.story_generator import DAYS as LANDED
from backfill_assets_tests.faults.story_generator import Time, open_home
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.by_hand import JANUARY, Hand
from backfill_assets_tests.support.dagster_record import ended_process, open_record
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.shop import shop_environment
from backfill_assets_tests.support.ticks import Ticks

pytestmark = pytest.mark.long

WITHIN_S = 120
DAYS = dict.fromkeys(JANUARY, 20)


@pytest.fixture(autouse=True)
def many(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A month is many; the environment names the home, as that of a command does."""
    monkeypatch.setattr(background_recorder, "MANY", len(DAYS) - 1)
    for name, value in shop_environment(hand.ws.settings.home).items():
        monkeypatch.setenv(name, value)


def published(hand: Hand, run_id: str) -> list[Progress]:
    told: list[Progress] = []
    with RecordedBeside(hand.ws.settings) as recorder:
        recorder.execute(hand.ws, run_id, [Part.PUBLISH], by="ben", listener=told.append)
    return told


def awaited(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


def ended(ticks: Ticks, run_id: str) -> DagsterRunStatus:
    def runs() -> list[DagsterRunStatus]:
        return [run.status for run in ticks.instance.get_runs() if run.tags.get(tags.RUN_ID) == run_id]

    awaited(lambda: any(status in (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE) for status in runs()))
    return runs()[0]


def test_pages_show_every_partition_although_the_command_has_ended_long_before(hand: Hand, ticks: Ticks) -> None:
    run_id = hand.silver(DAYS)
    began = time.monotonic()
    told = published(hand, run_id)
    took = time.monotonic() - began
    assert "process" in told[-1].line
    assert background_recorder.LOG in told[-1].line
    assert ended(ticks, run_id) is DagsterRunStatus.SUCCESS
    assert time.monotonic() - began > took
    key = published_key(hand.ws.domain.table(SILVER))
    with hand.ws.ledger.read() as tx:
        accepted = tx.versions.accepted(SILVER)
    latest = ticks.instance.get_latest_materialization_event(key)
    assert latest is not None
    assert latest.asset_materialization is not None
    assert latest.asset_materialization.metadata["run_id"].value == run_id
    assert ticks.instance.get_materialized_partitions(key) == {key_of(day) for day in accepted}

    operations.rollback(hand.ws, run_id, by="ben", reason="was right before")
    with hand.ws.ledger.read() as tx:
        undone = tx.publications.records(run_id=run_id)[0]
    with RecordedBeside(hand.ws.settings) as recorder:
        recorder.landed(hand.ws, undone)

    def is_shown() -> bool:
        found = ticks.instance.get_latest_materialization_event(key)
        return found is not None and "Rolled back by ben" in str(found.asset_materialization)

    awaited(is_shown)


def test_what_refuses_the_work_is_recorded_as_it_is_raised(hand: Hand, ticks: Ticks) -> None:
    run_id = hand.silver(DAYS)
    operations.cancel(hand.ws, run_id, by="ben", reason="wrong")
    with pytest.raises(BackfillError, match="CANCELLED"):
        published(hand, run_id)
    assert ended(ticks, run_id) is DagsterRunStatus.FAILURE
    (run,) = [run for run in ticks.instance.get_runs() if run.tags.get(tags.RUN_ID) == run_id]
    assert tags.REFUSED in run.tags


class Killed(background_recorder.Apart):
    """A process that is killed before it has recorded anything."""

    def leave(self) -> None:
        super().leave()
        os.kill(self.number, signal.SIGKILL)


def test_where_that_process_is_killed_the_sensor_shows_what_is_accepted(
    hand: Hand, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_recorder, "Apart", Killed)
    run_id = hand.silver(DAYS)
    published(hand, run_id)
    # As if it had begun: its run in Dagster has its process.
    job = definitions_over(
        hand.ws, lambda: Session(workspace=hand.ws), pool=None
    ).resolve_implicit_global_asset_job_def()
    process = f"{socket.gethostname()}:{ended_process()}"
    begun = ticks.instance.create_run_for_job(job, tags={tags.RUN_ID: run_id, tags.PROCESS: process})
    ticks.asked("fresh")
    key = published_key(hand.ws.domain.table(SILVER))
    assert ticks.instance.get_materialized_partitions(key) == {key_of(day) for day in JANUARY}
    ended_run = ticks.instance.get_run_by_id(begun.run_id)
    assert ended_run is not None
    assert ended_run.status is DagsterRunStatus.FAILURE


def test_the_sensor_completes_the_record_of_a_load_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws, compute = open_home(tmp_path / "own", Time()), SparkFreeCompute()
    monkeypatch.setattr(background_recorder, "Apart", Killed)
    monkeypatch.setattr(background_recorder, "_is_apart", lambda *_: True)
    source = ws.domain.source_table("bronze.orders")
    ticks = Ticks(ws)
    with open_record(ws.settings) as instance, ticks.open(instance), without_spark(compute):
        for days in (LANDED[:2], LANDED):
            compute.land(ws, {day: (10 + len(days), 1) for day in days}, by="ana")
            load = operations.plan_load(ws, source.name, partitions=None, by="ana", reason="landed")
            assert load is not None
            with RecordedBeside(ws.settings) as recorder:
                recorder.execute(ws, load.run_id, tuple(Part), by="ana", listener=lambda _: None)
            ticks.asked("fresh")
            assert "reported" in ticks.said
            assert instance.get_materialized_partitions(published_key(source)) == {key_of(day) for day in days}
            ticks.asked("fresh")
            assert ticks.said == "Nothing has changed."
    ws.close()
