"""Definitions that Dagster loads, built from a domain without starting Spark or opening the ledger.

What executes a run (`jobs.table_definitions`), with everything that launches one or acts on one: nothing that a run
executes imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from dagster import Definitions

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.drop import DROP, drop_sensor
from backfill_assets.orchestration.jobs import table_definitions, table_jobs
from backfill_assets.orchestration.launchpad_jobs import acting_jobs
from backfill_assets.orchestration.resources import Session
from backfill_assets.orchestration.sensor_jobs import LIVE, SENSOR_JOBS, dagster_job, live_schedule, sensor_of
from backfill_assets.orchestration.sensors import follow_sensor, propose_sensor
from backfill_assets.workspace import Workspace

SPARK_POOL = "spark"
"""The concurrency pool of assets that use Spark; `dagster.yaml` sets how many may run at once."""


def build_definitions(settings: Settings) -> Definitions:
    """The definitions of the settings' domain."""
    workspace = Workspace.open(settings)
    return definitions_over(workspace, lambda: Session(workspace=Workspace.open(settings)), pool=SPARK_POOL)


def definitions_over(
    workspace: Workspace, open_session: Callable[[], Session], *, pool: str | None, first_day: date | None = None
) -> Definitions:
    """The definitions over a workspace; arguments as of `table_definitions`."""
    jobs = table_jobs(workspace.domain)
    sensor_jobs = (dagster_job(each, pool=pool) for each in (*SENSOR_JOBS, DROP, LIVE))
    return Definitions.merge(
        table_definitions(workspace, open_session, jobs=jobs, pool=pool, first_day=first_day),
        Definitions(
            jobs=[*acting_jobs(workspace.domain, pool=pool), *sensor_jobs],
            sensors=[follow_sensor(jobs), propose_sensor(), *map(sensor_of, SENSOR_JOBS), drop_sensor()],
            schedules=[live_schedule(workspace.settings.live_at)],
        ),
    )
