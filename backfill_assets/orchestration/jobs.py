"""Definitions of the domain's tables: their assets, the jobs that execute parts of a run, and their resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dagster import AssetKey, AssetSelection, Definitions, define_asset_job, in_process_executor

from backfill_assets.application.parts import Part
from backfill_assets.core.grouped import grouped
from backfill_assets.domain import DerivedTable, Domain, SourceTable, Table
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.assets import candidate_key, domain_assets, validation_key
from backfill_assets.orchestration.captured import captured_assets
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.fresh import fresh_checks, fresh_key
from backfill_assets.orchestration.partitions import offered_days, published_key, relied_upon
from backfill_assets.orchestration.resources import Session, run_resources
from backfill_assets.planning.partitions import DayRange
from backfill_assets.workspace import Workspace


def job_name(table: Table) -> str:
    """The job that executes the runs of a table."""
    if isinstance(table, SourceTable):
        return tags.prefixed("load")
    few = f"_every_{table.every}_days_since_{table.since:%Y%m%d}" if table.stretches else ""
    return tags.prefixed(f"{table.partition.grain}_tables{few}")


def table_jobs(domain: Domain) -> Sequence[AssetJob]:
    """All jobs that execute runs."""
    return [*load_jobs(domain), *derived_jobs(domain)]


def load_jobs(domain: Domain) -> Sequence[AssetJob]:
    """The one job of all source tables."""
    return _job(domain.sources, "Load landed files into source tables and publish them.")


def derived_jobs(domain: Domain) -> Sequence[AssetJob]:
    """One job per grain of derived tables, and per number of days between snapshots: Dagster's jobs have partitions of
    one kind.

    A launch chooses the assets that its run needs: those that stage and gate, the one that publishes, or all of them.
    """
    by_job = grouped((job_name(table), table) for table in domain.derived)
    return [
        made
        for _, tables in sorted(by_job.items())
        for made in _job(
            tables,
            f"Stage, gate and publish planned runs of {tables[0].partition.grain} tables"
            f"{f' with a snapshot every {tables[0].every} days' if tables[0].stretches else ''}, each as far as the "
            f"ledger lets it: for commands, for the jobs of people, and for what follows a publication.",
        )
    ]


def _job(tables: Sequence[Table], description: str) -> Sequence[AssetJob]:
    if not tables:
        return []
    keys = [key for table in tables for key in keys_of(table, tuple(Part))]
    return [
        define_asset_job(
            job_name(tables[0]),
            # Staleness is found out by a sensor, and not once more by every run.
            selection=AssetSelection.assets(*keys)
            - AssetSelection.checks(*(fresh_key(table) for table in tables if isinstance(table, DerivedTable))),
            description=description,
            # One process per run: a process per step would start a JVM per step.
            executor_def=in_process_executor,
        )
    ]


def keys_of(table: Table, parts: Sequence[Part]) -> Sequence[AssetKey]:
    """The assets that execute parts of a table's runs, in order."""
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
    over: DayRange | None = None,
) -> Definitions:
    """The assets and jobs of the tables of a workspace: all that executes a run.

    Args:
        jobs: Those of `table_jobs`.
        pool: The concurrency pool of assets that use Spark; None for runs that this process executes itself.
        over: The days of a run, which may be earlier or later than the data.
    """
    days = offered_days(workspace).with_all(over)
    with relied_upon():
        return Definitions(
            assets=[
                *captured_assets(workspace.domain),
                *domain_assets(workspace, days=days, pool=pool),
            ],
            asset_checks=fresh_checks(workspace.domain.derived, days=days),
            jobs=jobs,
            resources=run_resources(workspace.settings, workspace.domain, open_session),
        )
