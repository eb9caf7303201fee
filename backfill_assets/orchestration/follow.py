"""Follow sensor: launches the runs that follow publications.

The ledger decides what follows (`application.follow`). What is launched here are manifests that it wrote: a tag
names one and grants nothing. A run that is launched twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from backfill_assets.next_steps import NAME, WHY, Act, do, step
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.jobs import job_name
from backfill_assets.orchestration.resources import SESSION, Session
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
                stuck.append(f"{each.run.run_id} ({each.run.note or each.run.state})")
            else:
                found.append(_run_request(workspace, each, attempts))
        if found:
            return SensorResult(run_requests=found)
        if stuck:
            return SensorResult(skip_reason=f"Gave up after {MOST_ATTEMPTS} attempts: {'; '.join(stuck)}. {WHAT_NOW}")
        return SensorResult(skip_reason="Every publication has been followed.")

    return follow


WHAT_NOW = words_of(
    step(
        *("To try again: ", do(Act.FOLLOW), ". To let dependents be as they are: "),
        *(do(Act.FOLLOW, cancel="PUBLICATION", by=NAME, reason=WHY), "."),
    )
)


def _stuck_plans(workspace: Workspace) -> Iterator[str]:
    for asking in asked_follow_ups(workspace):
        if asking.entry.attempts >= MOST_ATTEMPTS:
            yield f"{asking.entry.publication_id} ({asking.entry.note})"


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
