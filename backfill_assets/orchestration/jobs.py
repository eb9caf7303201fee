"""Jobs of the UI, and the job that executes given parts of a run."""

from __future__ import annotations

from collections.abc import Sequence

from dagster import AssetKey, AssetSelection, define_asset_job

from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.domain import Domain, SourceTable, Table
from backfill_assets.orchestration.assets import candidate_key, published_key, validation_key
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob

PUBLICATION = (Part.PUBLISH,)
EVERYTHING = (Part.STAGE, Part.GATE, Part.PUBLISH)


def job_name(table: Table, parts: Sequence[Part]) -> str:
    """The job that executes these parts of a table's runs."""
    if isinstance(table, SourceTable):
        return f"{table.short_name}_load"
    suffix = {STAGED_AND_GATED: "restatement", PUBLICATION: "publication", EVERYTHING: "follow"}
    return f"{table.short_name}_{suffix[tuple(parts)]}"


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
        selection=AssetSelection.assets(*keys_of(table, parts)),
        description=description,
    )


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
