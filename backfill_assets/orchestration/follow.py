"""Follow sensor: launches the runs that follow publications.

The ledger decides what follows (`application.follow`). What is launched here are manifests that it wrote: a tag
names one and grants nothing. A run that is launched twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dagster import (
    DagsterInstance,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from backfill_assets.application.command_line import words_of
from backfill_assets.application.follow import Unfinished, asked_follow_ups, plan_follow_ups, unfinished
from backfill_assets.ledger.records import RunRecord
from backfill_assets.next_steps import NAME, WHY, Act, Invocation, do, step
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.jobs import job_name
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.planning.filling import joined
from backfill_assets.workspace import Workspace

SENSOR_NAME = "follow"
MOST_ATTEMPTS = 3
SENSOR = "sensor"


def follow_sensor(jobs: Sequence[AssetJob]) -> SensorDefinition:
    """Re-materializes what depends on a publication."""

    @sensor(
        name=SENSOR_NAME,
        jobs=jobs,
        required_resource_keys={SESSION},
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Stages, gates and publishes the tables that depend on what was published, once for all inputs "
        "that were published together.",
    )
    def follow(context: SensorEvaluationContext) -> SensorResult:
        session: Session = context.resources.session
        workspace = session.workspace
        plan_follow_ups(workspace, by=SENSOR, tries=lambda entry: entry.attempts < MOST_ATTEMPTS)
        found, stuck = [], list(_stuck_plans(workspace))
        for each in unfinished(workspace):
            attempts = attempts_of(context.instance, each.run.run_id)
            if attempts is None:
                continue
            if attempts >= MOST_ATTEMPTS:
                stuck.append(_stuck_run(each.run))
            else:
                found.append(_run_request(workspace, each, attempts))
        if found:
            return SensorResult(run_requests=found)
        if stuck:
            return SensorResult(skip_reason=_gave_up(stuck))
        return SensorResult(skip_reason="Every publication has been followed.")

    return follow


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stuck:
    """A follow-up that the sensor does not try again.

    Attributes:
        sentence: What it is, and why it failed.
        cancel: What leaves its dependents as they are.
    """

    sentence: str
    cancel: Invocation


def _stuck_plans(workspace: Workspace) -> Iterator[_Stuck]:
    for asking in asked_follow_ups(workspace):
        entry = asking.entry
        if entry.attempts >= MOST_ATTEMPTS:
            cancel = do(Act.FOLLOW, cancel=entry.publication_id, by=NAME, reason=WHY)
            yield _Stuck(sentence=f"{entry.publication_id} ({entry.note})", cancel=cancel)


def _stuck_run(run: RunRecord) -> _Stuck:
    """Its publications are followed by it already, so the run itself is what can be cancelled."""
    cancel = do(Act.CANCEL, run.run_id, by=NAME, reason=WHY)
    return _Stuck(sentence=f"{run.run_id} ({run.note or run.state})", cancel=cancel)


def _gave_up(stuck: Sequence[_Stuck]) -> str:
    return words_of(
        step(
            f"Gave up after {MOST_ATTEMPTS} attempts: {'; '.join(each.sentence for each in stuck)}. To try again: ",
            *(do(Act.FOLLOW), ". To let dependents be as they are: ", joined([each.cancel for each in stuck]), "."),
        )
    )


def attempts_of(instance: DagsterInstance, run_id: str) -> int | None:
    """How many Dagster runs of a manifest have ended; None while one is under way."""
    runs = instance.get_runs(filters=RunsFilter(tags={tags.RUN_ID: run_id}))
    return len(runs) if all(run.is_finished for run in runs) else None


def _run_request(workspace: Workspace, each: Unfinished, attempts: int) -> RunRequest:
    run = each.run
    return RunRequest(
        run_key=f"{run.run_id}:{attempts + 1}",
        job_name=job_name(workspace.domain.table(run.manifest.table), each.parts),
        tags={**tags.partition_range(run.manifest.partitions), **tags.of_run(run, SENSOR)},
    )
