"""Definitions that Dagster loads, built from a domain without starting Spark or opening the ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from dagster import Definitions, in_process_executor

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.assets import domain_assets
from backfill_assets.orchestration.drop import DROP, drop_sensor
from backfill_assets.orchestration.follow import follow_sensor
from backfill_assets.orchestration.jobs import table_jobs
from backfill_assets.orchestration.launchpad_jobs import acting_jobs
from backfill_assets.orchestration.live import LIVE, live_schedule
from backfill_assets.orchestration.partitions import first_day_of_data
from backfill_assets.orchestration.preview import relied_upon
from backfill_assets.orchestration.propose import propose_sensor
from backfill_assets.orchestration.resources import Session, run_resources
from backfill_assets.orchestration.sensor_jobs import ERRANDS, errand_job, errand_sensor
from backfill_assets.workspace import Workspace

SPARK_POOL = "spark"
"""The concurrency pool of assets that use Spark; `dagster.yaml` sets how many may run at once."""


def build_definitions(settings: Settings) -> Definitions:
    """The definitions of the settings' domain.

    Raises:
        InvalidDeclaration: The domain cannot be loaded.
        MissingInput, InvalidReference: A reference file does not exist or is invalid. Windows may depend on
            references, so there is no lineage to show without them; the UI shows this sentence instead.
    """
    workspace = Workspace.open(settings)
    return definitions_over(workspace, lambda: Session(workspace=Workspace.open(settings)), pool=SPARK_POOL)


def definitions_over(
    workspace: Workspace, open_session: Callable[[], Session], *, pool: str | None, first_day: date | None = None
) -> Definitions:
    """The definitions over a workspace.

    Args:
        workspace: Whose domain, graph and settings they follow.
        open_session: What the assets of a run act through.
        pool: The concurrency pool of assets that use Spark; None for runs that this process executes itself.
        first_day: Where the partitions start if it is earlier than the data, for a run of earlier partitions.
    """
    starts = first_day_of_data(workspace)
    starts = starts if first_day is None else min(starts, first_day)
    with relied_upon():
        jobs = table_jobs(workspace.domain)
        return Definitions(
            assets=domain_assets(workspace.domain, workspace.graph, first_day=starts, pool=pool),
            jobs=[
                *jobs,
                *acting_jobs(workspace.domain, pool=pool),
                *(errand_job(each, pool=pool) for each in (*ERRANDS, DROP, LIVE)),
            ],
            sensors=[follow_sensor(jobs), propose_sensor(), *map(errand_sensor, ERRANDS), drop_sensor()],
            schedules=[live_schedule(workspace.settings.live_at)],
            resources=run_resources(workspace.settings, workspace.domain, open_session),
            # One process per run: a process per step would start a JVM per step.
            executor=in_process_executor,
        )
