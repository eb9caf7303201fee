"""What people and sensors launch in Dagster is staged, gated and published by the ledger's word alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta

import pytest
from dagster import AssetCheckKey, AssetKey, AssetRecordsFilter, DagsterEventType, build_sensor_context
from pyspark.sql import SparkSession

from backfill_assets.application.parts import STAGED_AND_GATED
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.launch import run_in_process
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets_tests.support.dagster_history import latest_check
from backfill_assets_tests.support.dagster_record import ended_process
from backfill_assets_tests.support.operations import approve, plan_load, publish, rollback
from backfill_assets_tests.support.orchestration_examples import (
    BRONZE,
    CANDIDATE,
    EVERYTHING,
    MONTHLY,
    PUBLICATION,
    PUBLISHED,
    VALIDATION,
    Bench,
    bench,
    failures,
    steps,
)

FIRST, LAST = date(2025, 1, 1), date(2025, 3, 3)
TOO_MUCH = date(2025, 2, 20)
FEBRUARY = (date(2025, 2, 1), date(2025, 2, 17))
BLOCKED = (date(2025, 2, 18), date(2025, 2, 24))


def days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def keys(first: date, last: date) -> set[str]:
    return {day.isoformat() for day in days(first, last)}


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Bronze is loaded from January to the third of March, with one sale that no gate lets through."""
    with bench(tmp_path_factory.mktemp("bench") / "home") as made:
        amounts = {day: 5_000 if day == TOO_MUCH else 10 for day in days(FIRST, LAST)}
        made.land(spark, amounts, name="first")
        outcome = made.load()
        assert outcome.succeeded, outcome.error
        yield made


def the_run(made: Bench, run_id: str) -> RunRecord:
    with made.workspace.ledger.read() as reader:
        return reader.runs.get(run_id)


def events(made: Bench) -> int:
    with made.workspace.ledger.read() as reader:
        return len(list(reader.events.entries()))


def newest_run(made: Bench) -> RunRecord:
    with made.workspace.ledger.read() as reader:
        return reader.runs.records(table="silver.recent_sales", limit=1)[0]


@pytest.mark.long
def test_a_load_reports_each_day_and_each_gate(loaded: Bench) -> None:
    assert loaded.materialized(BRONZE) == keys(FIRST, LAST)
    summary = loaded.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [AssetCheckKey(BRONZE, "unique_key")], None
    )[AssetCheckKey(BRONZE, "unique_key")]
    assert summary.event is not None
    evaluation = summary.event.get_dagster_event().asset_check_evaluation_data
    assert (evaluation.passed, evaluation.description) == (True, "62 days that readers see passed.")


@pytest.mark.long
def test_a_load_of_days_with_a_gap_reports_exactly_the_days_that_landed(loaded: Bench) -> None:
    far = {date(2025, 6, 1): 10, date(2025, 6, 2): 10}
    loaded.land(loaded.workspace.spark(), far, name="far")
    run = plan_load(loaded.workspace, "sales", partitions=tuple(far), by="ann", reason="to have both")
    assert run is not None
    assert run_in_process(loaded.workspace, run.run_id, EVERYTHING, instance=loaded.instance, by="ann").succeeded
    apart = (date(2025, 1, 10), date(2025, 6, 2))
    run = plan_load(loaded.workspace, "sales", partitions=apart, by="ann", reason="days far apart")
    assert run is not None
    outcome = run_in_process(loaded.workspace, run.run_id, EVERYTHING, instance=loaded.instance, by="ann")
    assert outcome.succeeded, outcome.error
    assert loaded.materialized(BRONZE) == keys(FIRST, LAST) | {"2025-06-01", "2025-06-02"}


@pytest.mark.long
def test_a_bronze_day_on_which_nothing_landed_is_only_built_when_declared_empty(loaded: Bench) -> None:
    silent = date(2025, 3, 20)
    result = loaded.materialize([BRONZE], silent, silent, by="uma")
    assert not result.success
    assert any("nothing has landed for 2025-03-20" in said and "--empty" in said for said in failures(result))
    result = loaded.materialize([BRONZE], silent, silent, by="uma", empty="2025-03-20..2025-03-21")
    assert any("2025-03-21, 1 day cannot be declared empty" in said for said in failures(result))
    assert loaded.materialize([BRONZE], silent, silent, by="uma", empty="2025-03-20").success
    with loaded.workspace.ledger.read() as reader:
        version = reader.versions.accepted("bronze.sales", [silent])[silent]
        manifest = reader.runs.get(version.run_id).manifest
    assert (version.rows, manifest.change.declared_empty, manifest.requested_by) == (0, (silent,), "uma")


@pytest.mark.long
def test_a_missing_day_of_warm_up_is_refused_in_words_before_anything_is_staged(loaded: Bench) -> None:
    result = loaded.materialize([CANDIDATE], date(2025, 3, 3), date(2025, 3, 4), by="uma")
    assert not result.success
    assert "2025-03-04..2025-03-05" in failures(result)[0]
    assert "Next:" in failures(result)[0]


@pytest.mark.long
def test_what_is_launched_in_the_ui_is_staged_and_gated_but_never_published_without_approval(loaded: Bench) -> None:
    result = loaded.materialize([CANDIDATE, VALIDATION, PUBLISHED], *FEBRUARY, by="uma", reason="from the UI")
    run = newest_run(loaded)
    assert (run.state, run.manifest.requested_by, run.manifest.reason) == (RunState.PASSED, "uma", "from the UI")
    assert run.manifest.partitions == tuple(days(*FEBRUARY))
    assert result.success
    assert "silver__recent_sales" in steps(result, DagsterEventType.STEP_SUCCESS)
    (waits,) = loaded.instance.fetch_observations(PUBLISHED, limit=1).records
    said = (waits.asset_observation and waits.asset_observation.description) or ""
    assert said.startswith("PASSED, waiting for approval by another person than the requester: ")
    assert said.endswith(f"Next: the job backfill_decide (approve {run.run_id})")
    assert loaded.materialized(VALIDATION) >= keys(*FEBRUARY)
    assert not loaded.materialized(PUBLISHED) & keys(*FEBRUARY)


@pytest.mark.long
@pytest.mark.parametrize("asset", [BRONZE, CANDIDATE, VALIDATION, PUBLISHED])
def test_a_launch_that_does_not_say_who_asks_is_refused_before_anything_is_planned(
    loaded: Bench, asset: AssetKey
) -> None:
    before = events(loaded)
    for given in ({}, {"by": " "}):
        said = failures(loaded.materialize([asset], date(2025, 2, 3), date(2025, 2, 5), **given))[0]
        assert "the launch does not name its requester. Next: add the tag backfill/by" in said
    assert events(loaded) == before


@pytest.mark.long
@pytest.mark.parametrize(
    "by", ["sensor", "unspecified", "policy:follow", "policy:live runs", "follow", "Publish", "publish\u200b", "LIVE"]
)
def test_a_launch_is_asked_for_by_a_person(loaded: Bench, by: str) -> None:
    before = events(loaded)
    for asset in (BRONZE, CANDIDATE, VALIDATION, PUBLISHED):
        said = failures(loaded.materialize([asset], date(2025, 2, 3), date(2025, 2, 5), by=by))[0]
        assert f"cannot be {by!r}: that name is reserved for the system" in said
        assert "Next: add the tag backfill/by with the name of a person" in said
    assert events(loaded) == before


@pytest.mark.long
def test_a_name_of_the_system_takes_on_no_run_of_a_person(loaded: Bench) -> None:
    days = (date(2025, 2, 3), date(2025, 2, 5))
    assert loaded.materialize([CANDIDATE], *days, by="uma").success
    run_id = newest_run(loaded).run_id
    before = events(loaded)
    for by in ("sensor", "follow", "li\u0475e"):
        said = failures(loaded.materialize([VALIDATION], *days, by=by, run_id=run_id))[0]
        assert f"cannot be {by!r}: that name is reserved for the system" in said
    assert events(loaded) == before


def test_a_mistyped_tag_of_a_launch_is_refused_with_the_one_that_was_meant(loaded: Bench) -> None:
    said = failures(loaded.materialize([CANDIDATE], date(2025, 2, 3), date(2025, 2, 3), by="uma", reasn="why"))[0]
    assert "a tag of the launch is 'backfill/reasn'" in said
    assert "Next: write backfill/reason" in said


def test_the_setting_of_the_process_says_who_asks_where_no_tag_does(loaded: Bench) -> None:
    settings = replace(loaded.workspace.settings, user="uma")
    own = replace(loaded, workspace=replace(loaded.workspace, settings=settings))
    assert own.materialize([CANDIDATE], date(2025, 2, 3), date(2025, 2, 3)).success
    assert newest_run(loaded).manifest.requested_by == "uma"


@pytest.mark.long
def test_later_launches_find_the_run_that_an_earlier_one_has_staged(loaded: Bench) -> None:
    some = (date(2025, 2, 3), date(2025, 2, 5))
    assert loaded.materialize([CANDIDATE], *some, by="uma").success
    staged = newest_run(loaded)
    assert (staged.manifest.requested_by, staged.manifest.reason) == ("uma", "launched without a reason")
    assert staged.state is RunState.STAGED
    assert loaded.materialize([VALIDATION], *some, by="uma").success
    assert the_run(loaded, staged.run_id).state is RunState.PASSED
    approve(loaded.workspace, staged.run_id, by="bob")
    assert loaded.materialize([PUBLISHED], *some, by="bob").success
    assert the_run(loaded, staged.run_id).state is RunState.PUBLISHED


@pytest.mark.long
def test_a_later_asset_does_not_take_a_run_over_other_partitions(loaded: Bench) -> None:
    assert loaded.materialize([CANDIDATE], date(2025, 2, 7), date(2025, 2, 9), by="uma").success
    result = loaded.materialize([VALIDATION], date(2025, 2, 7), date(2025, 2, 8), by="uma")
    assert "no run of silver.recent_sales is STAGED over exactly 2025-02-07..2025-02-08, 2 days" in failures(result)[0]


def every_gate_has_a_status_for_every_partition_of_the_blocked_run(loaded: Bench) -> None:
    statuses = {
        (gate, day): latest_check(loaded.instance, AssetCheckKey(VALIDATION, gate), day).status.value
        for gate in ("schema", "unique_key", "plausible", "usual", "compared_with_accepted", "warm_up")
        for day in keys(*BLOCKED)
    }
    failed = keys(date(2025, 2, 19), date(2025, 2, 22))
    assert {key for key, status in statuses.items() if status == "FAILED"} == {
        (gate, day) for gate in ("plausible", "usual") for day in failed
    }
    assert set(statuses.values()) == {"FAILED", "SUCCEEDED"}


@pytest.mark.long
def test_a_failed_blocking_gate_shows_on_its_partitions_and_leaves_the_published_asset_unexecuted_in_any_run(
    loaded: Bench,
) -> None:
    before = loaded.materialized(PUBLISHED)
    result = loaded.materialize([CANDIDATE, VALIDATION, PUBLISHED], *BLOCKED, by="uma")
    run = newest_run(loaded)
    assert run.state is RunState.BLOCKED
    assert steps(result, DagsterEventType.STEP_FAILURE) == {"validation__recent_sales"}
    assert "silver__recent_sales" not in steps(result, DagsterEventType.STEP_START)
    assert "Failure: Blocked by plausible: it cannot be published" in failures(result)[0]
    assert loaded.materialized(VALIDATION) >= keys(*BLOCKED)
    every_gate_has_a_status_for_every_partition_of_the_blocked_run(loaded)
    with pytest.raises(IllegalTransition, match="is BLOCKED"):
        approve(loaded.workspace, run.run_id, by="bob")
    alone = loaded.materialize([PUBLISHED], *BLOCKED, by="bob", run_id=run.run_id)
    assert f"run {run.run_id} cannot be published: it is BLOCKED" in failures(alone)[0]
    assert loaded.materialized(PUBLISHED) == before


def test_a_manifest_is_executed_over_exactly_its_partitions_or_not_at_all(loaded: Bench) -> None:
    run_id = loaded.plan(date(2025, 2, 3), date(2025, 2, 6))
    result = loaded.materialize([CANDIDATE], date(2025, 2, 3), date(2025, 2, 5), by="uma", run_id=run_id)
    assert (
        f"the manifest of {run_id} covers 2025-02-03..2025-02-06, 4 days, but 2025-02-03..2025-02-05"
        in (failures(result)[0])
    )
    assert the_run(loaded, run_id).state is RunState.PLANNED


def test_a_run_that_claims_to_follow_or_to_be_live_is_not_approved_by_policy(loaded: Bench) -> None:
    live = loaded.materialize([CANDIDATE], *FEBRUARY, by="uma", kind="LIVE")
    assert "is 'LIVE', which is not one of BACKFILL" in failures(live)[0]
    with loaded.workspace.ledger.read() as reader:
        load = next(p for p in reader.publications.records() if p.table == "bronze.sales").publication_id
    claimed = {"because": load, "transform_version": "0.9.0", "by": "x"}
    result = loaded.materialize([CANDIDATE, VALIDATION, PUBLISHED], date(2025, 2, 5), date(2025, 2, 7), **claimed)
    assert "a launch cannot state what it follows: the ledger decides that" in failures(result)[0]
    assert not loaded.materialized(PUBLISHED) & keys(date(2025, 2, 6), date(2025, 2, 7))


@pytest.mark.long
def test_dependents_follow_a_publication_once(loaded: Bench) -> None:
    whole = (date(2025, 1, 23), date(2025, 2, 18))
    run_id = loaded.plan(*whole)
    assert run_in_process(loaded.workspace, run_id, STAGED_AND_GATED, instance=loaded.instance, by="ann").succeeded
    approve(loaded.workspace, run_id, by="bob")
    assert run_in_process(loaded.workspace, run_id, PUBLICATION, instance=loaded.instance, by="bob").succeeded
    # No month is complete yet, so nothing can follow and nothing is left waiting.
    assert not loaded.follow(by="bob").followed

    doctored = {TOO_MUCH: 20}
    loaded.land(loaded.workspace.spark(), doctored, name="corrected")
    assert loaded.load().succeeded
    run_id = loaded.plan(date(2025, 2, 1), date(2025, 2, 28))
    outcome = run_in_process(loaded.workspace, run_id, STAGED_AND_GATED, instance=loaded.instance, by="ann")
    assert outcome.succeeded, outcome.error
    approve(loaded.workspace, run_id, by="bob")
    assert run_in_process(loaded.workspace, run_id, PUBLICATION, instance=loaded.instance, by="bob").succeeded

    sensor = loaded.definitions().resolve_sensor_def("backfill_follow")
    context = build_sensor_context(instance=loaded.instance, resources={SESSION: Session(workspace=loaded.workspace)})
    asked = sensor.evaluate_tick(context).run_requests or []
    of_a_month = [AssetKey([part, "sales_monthly"]) for part in ("candidate", "validation", "gold")]
    assert [request.asset_selection for request in asked] == [of_a_month]
    assert [request.job_name for request in asked] == ["backfill_monthly_tables"]
    again = sensor.evaluate_tick(context).run_requests or []
    assert [request.run_key for request in again] == [request.run_key for request in asked]

    first = loaded.definitions().resolve_job_def("backfill_monthly_tables")
    for _ in range(2):
        result = first.execute_in_process(
            instance=loaded.instance, tags=dict(asked[0].tags), asset_selection=asked[0].asset_selection
        )
        assert result.success
    with loaded.workspace.ledger.read() as reader:
        followed = reader.runs.records(table="gold.sales_monthly")
    assert [(run.state, run.manifest.partitions) for run in followed] == [(RunState.PUBLISHED, (date(2025, 2, 1),))]
    assert loaded.materialized(MONTHLY) == {"2025-02-01"}
    assert not sensor.evaluate_tick(context).run_requests
    with loaded.workspace.ledger.read() as reader:
        assert not [entry for entry in reader.outbox.entries(open_only=True) if entry.table == "silver.recent_sales"]


class Died(Exception):
    """The process ends here."""


def dies_at(point: Point) -> Callable[[Point], None]:
    def reached(passed: Point) -> None:
        if passed is point:
            raise Died

    return reached


@pytest.mark.long
def test_what_recover_publishes_and_rolls_back_is_shown(loaded: Bench) -> None:
    changed = (date(2025, 1, 21), date(2025, 1, 22))
    run_id = loaded.plan(*changed)
    assert run_in_process(loaded.workspace, run_id, STAGED_AND_GATED, instance=loaded.instance, by="ann").succeeded
    approve(loaded.workspace, run_id, by="bob")
    before = loaded.materialized(PUBLISHED)
    dying = replace(loaded.workspace, reached=dies_at(Point.SWAP_COMMITTED))
    with pytest.raises(Died):
        publish(dying, run_id, by="bob")
    assert loaded.materialized(PUBLISHED) == before
    assert [each.what for each in loaded.recover().recovered] == ["publication"]
    assert loaded.materialized(PUBLISHED) == before | keys(*changed)
    assert shown(loaded, changed[1]) == ("Published by bob: a test", run_id)

    with pytest.raises(Died):
        rollback(dying, run_id, by="bob", reason="to see it")
    assert [each.what for each in loaded.recover().recovered] == ["publication"]
    assert loaded.materialized(PUBLISHED) == before
    of_day = AssetRecordsFilter(asset_key=PUBLISHED, asset_partitions=[changed[1].isoformat()])
    (gone,) = loaded.instance.fetch_observations(of_day, limit=1).records
    assert gone.asset_observation is not None
    assert gone.asset_observation.description == "Rolled back by bob: to see it. No version is accepted."
    assert loaded.recover().recovered == ()


def shown(made: Bench, day: date) -> tuple[str | None, object]:
    """The description and the run of the last materialization of a published day."""
    found = made.instance.fetch_materializations(
        AssetRecordsFilter(asset_key=PUBLISHED, asset_partitions=[day.isoformat()]), limit=1
    )
    last = found.records[0].asset_materialization
    assert last is not None
    run_id = last.metadata.get("run_id")
    return last.description, run_id.value if run_id else None


def test_a_run_whose_process_is_gone_is_not_shown_as_running_after_recover(loaded: Bench) -> None:
    job = loaded.definitions().resolve_job_def("backfill_daily_tables")
    lost = loaded.instance.create_run_for_job(
        job, tags={tags.RUN_ID: "lost", tags.PROCESS: f"{socket.gethostname()}:{ended_process()}"}
    )
    mine = loaded.instance.create_run_for_job(
        job, tags={tags.RUN_ID: "lost", tags.PROCESS: f"{socket.gethostname()}:{os.getpid()}"}
    )
    loaded.recover()
    ended = loaded.instance.get_run_by_id(lost.run_id)
    assert ended is not None
    assert ended.is_failure_or_canceled
    running = loaded.instance.get_run_by_id(mine.run_id)
    assert running is not None
    assert not running.is_finished
