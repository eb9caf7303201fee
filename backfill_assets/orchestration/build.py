"""Definitions that Dagster loads, built from a domain without starting Spark or opening the ledger.

What executes a run (`jobs.table_definitions`), with everything that launches one or acts on one: nothing that a run
executes imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_

from dagster import AssetSelection, Definitions

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.settings import Settings, require_settings
from backfill_assets.domain import Domain
from backfill_assets.domain.domain import load_domain
from backfill_assets.domain.errors import DomainNotLoaded
from backfill_assets.orchestration.assets import derived_jobs, load_jobs, table_definitions
from backfill_assets.orchestration.launchpad_jobs import acting_jobs
from backfill_assets.orchestration.metadata import PART, PARTS
from backfill_assets.orchestration.resources import Session
from backfill_assets.orchestration.sensors import (
    DROP,
    LIVE,
    SENSOR_JOBS,
    dagster_job,
    drop_sensor,
    follow_sensor,
    fresh_sensor,
    live_schedule,
    propose_sensor,
    sensor_of,
)
from backfill_assets.workspace import Workspace

ASSETS = reduce(or_, (AssetSelection.tag(PART, part) for part in PARTS))
"""Every asset of a domain, for jobs of other assets of the same project: `AssetSelection.all() - ASSETS`."""

SPARK_POOL = "spark"
"""The concurrency pool of assets that use Spark; `dagster.yaml` sets how many may run at once."""


def build_definitions(domain: Domain | str | None = None, *, settings: Mapping[str, str] | None = None) -> Definitions:
    """The definitions of a domain, to be merged with those of another project (`Definitions.merge`).

    All names of its jobs, sensors, schedules and resources begin with `backfill_`, and it names no executor: its jobs
    run in one process each, whatever the project says.

    Args:
        domain: The module that declares DOMAIN, or that DOMAIN; the setting BACKFILL_DOMAIN by default.
        settings: Settings by their names, such as BACKFILL_HOME; the environment has the others.

    Raises:
        InvalidDeclaration: The domain cannot be loaded, or is not the DOMAIN of its package: a run is executed in
            another process, which loads it by name.
        Refused: A setting cannot be read, or there is none of that name.
    """
    require_settings(settings or {})
    named = domain.package if isinstance(domain, Domain) else domain
    given = {**os.environ, **(settings or {}), **({"BACKFILL_DOMAIN": named} if named else {})}
    if named and (settings or {}).get("BACKFILL_DOMAIN", named) != named:
        why = f"is {(settings or {})['BACKFILL_DOMAIN']} among the settings, and the definitions are those of {named}"
        raise InvalidSetting(setting="BACKFILL_DOMAIN", why=why)
    if isinstance(domain, Domain) and load_domain(domain.package) is not domain:
        why = f"its DOMAIN is not the domain {domain.name} that was given, and runs in other processes load DOMAIN"
        raise DomainNotLoaded(module=domain.package, why=why)
    return definitions_of(Settings.from_environment(given))


def definitions_of(settings: Settings) -> Definitions:
    """The definitions of the settings' domain."""
    workspace = Workspace.open(settings)
    return definitions_over(workspace, lambda: Session(workspace=Workspace.open(settings)), pool=SPARK_POOL)


def definitions_over(
    workspace: Workspace, open_session: Callable[[], Session], *, pool: str | None, over: DayRange | None = None
) -> Definitions:
    """The definitions over a workspace; arguments as of `table_definitions`."""
    loads, derived = load_jobs(workspace.domain), derived_jobs(workspace.domain)
    sensor_jobs = (dagster_job(each, pool=pool) for each in (*SENSOR_JOBS, DROP, LIVE))
    return Definitions.merge(
        table_definitions(workspace, open_session, jobs=[*loads, *derived], pool=pool, over=over),
        Definitions(
            jobs=[*acting_jobs(workspace, pool=pool), *sensor_jobs],
            sensors=[
                follow_sensor(derived),
                propose_sensor,
                fresh_sensor,
                *map(sensor_of, SENSOR_JOBS),
                drop_sensor,
            ],
            schedules=[live_schedule(workspace.settings.live_at)],
        ),
    )
