"""Definitions of the domain's tables: their assets, the jobs that execute parts of a run, and their resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from dagster import AssetCheckKey, AssetKey, AssetSelection, Definitions, define_asset_job, in_process_executor

from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.domain import DerivedTable, Domain, SourceTable, Table
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.assets import candidate_key, domain_assets, validation_key
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.fresh import fresh_checks, fresh_key
from backfill_assets.orchestration.partitions import first_day_of_data, published_key, relied_upon
from backfill_assets.orchestration.resources import Session, run_resources
from backfill_assets.workspace import Workspace

PUBLICATION = (Part.PUBLISH,)
EVERYTHING = (Part.STAGE, Part.GATE, Part.PUBLISH)


def job_name(table: Table, parts: Sequence[Part]) -> str:
    """The job that executes these parts of a table's runs."""
    if isinstance(table, SourceTable):
        return tags.prefixed(f"{table.short_name}_load")
    suffix = {STAGED_AND_GATED: "restatement", PUBLICATION: "publication", EVERYTHING: "follow"}
    return tags.prefixed(f"{table.short_name}_{suffix[tuple(parts)]}")


def table_jobs(domain: Domain) -> Sequence[AssetJob]:
    """Per source table a load; per derived table a restatement, a publication and both together."""
    return [
        *(
            _job(table, EVERYTHING, f"Load landed files into {table.name} and publish them.")
            for table in domain.sources
        ),
        *(
            job
            for table in domain.derived
            for job in (
                _job(table, STAGED_AND_GATED, f"Stage a run of {table.name} and measure its gates."),
                _job(table, PUBLICATION, f"Publish a staged, passed and approved run of {table.name}."),
                _job(
                    table,
                    EVERYTHING,
                    f"Stage, gate and publish {table.name}: what follows a publication of its inputs.",
                ),
            )
        ),
    ]


def _job(table: Table, parts: Sequence[Part], description: str) -> AssetJob:
    return define_asset_job(
        job_name(table, parts),
        # Staleness is found out by a sensor, and not once more by every run.
        selection=AssetSelection.assets(*keys_of(table, parts)) - AssetSelection.checks(*_fresh(table, parts)),
        description=description,
        # One process per run: a process per step would start a JVM per step.
        executor_def=in_process_executor,
    )


def _fresh(table: Table, parts: Sequence[Part]) -> Sequence[AssetCheckKey]:
    return [fresh_key(table)] if isinstance(table, DerivedTable) and Part.PUBLISH in parts else []


def keys_of(table: Table, parts: Sequence[Part]) -> Sequence[AssetKey]:
    """The assets that a job executes, in order."""
    if isinstance(table, SourceTable):
        return [published_key(table)]
    assets = {
        Part.STAGE: candidate_key(table),
        Part.GATE: validation_key(table),
        Part.PUBLISH: published_key(table),
    }
    return [assets[part] for part in Part if part in parts]


def table_definitions(
    workspace: Workspace,
    open_session: Callable[[], Session],
    *,
    jobs: Sequence[AssetJob],
    pool: str | None,
    first_day: date | None = None,
) -> Definitions:
    """The assets and jobs of the tables of a workspace: all that executes a run.

    Args:
        jobs: Those of `table_jobs`.
        pool: The concurrency pool of assets that use Spark; None for runs that this process executes itself.
        first_day: Where the partitions start if it is earlier than the data, for a run of earlier partitions.
    """
    starts = first_day_of_data(workspace)
    starts = starts if first_day is None else min(starts, first_day)
    with relied_upon():
        return Definitions(
            assets=domain_assets(workspace.domain, workspace.graph, first_day=starts, pool=pool),
            asset_checks=fresh_checks(workspace.domain.derived, first_day=starts),
            jobs=jobs,
            resources=run_resources(workspace.settings, workspace.domain, open_session),
        )
