"""Which jobs does the UI offer, and which job does a step of a run belong to?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dagster import AssetKey, AssetSelection, define_asset_job

from backfill_assets.domain import Domain, SourceTable, Table
from backfill_assets.orchestration.assets import candidate_key, published_key, validation_key
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob

Steps = Literal["bronze", "candidate+validation", "published", "all"]


def job_name(table: Table, steps: Steps) -> str:
    """The job that runs these assets of a table."""
    suffix = {"bronze": "load", "candidate+validation": "restatement", "published": "publication", "all": "follow"}
    return f"{table.short_name}_{suffix[steps]}"


def table_jobs(domain: Domain) -> Sequence[AssetJob]:
    """Per source table a load; per derived table a restatement, a publication and both together."""
    return [
        *(_job(table, "bronze", f"Load landed files into {table.name} and publish them.") for table in domain.sources),
        *(
            job
            for table in domain.derived
            for job in (
                _job(table, "candidate+validation", f"Stage a run of {table.name} and measure its gates."),
                _job(table, "published", f"Publish a staged, passed and approved run of {table.name}."),
                _job(table, "all", f"Stage, gate and publish {table.name}: what follows a publication of its inputs."),
            )
        ),
    ]


def _job(table: Table, steps: Steps, description: str) -> AssetJob:
    return define_asset_job(
        job_name(table, steps),
        selection=AssetSelection.assets(*keys_of(table, steps)),
        description=description,
    )


def keys_of(table: Table, steps: Steps) -> Sequence[AssetKey]:
    """The assets that a job executes, in order."""
    if isinstance(table, SourceTable):
        return [published_key(table)]
    staged = [candidate_key(table), validation_key(table)]
    match steps:
        case "candidate+validation":
            return staged
        case "published":
            return [published_key(table)]
        case _:
            return [*staged, published_key(table)]
