"""Launch: a command executes assets in its own process, and the UI shows the run like any other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import uuid4

from dagster import AssetKey, DagsterInstance, Failure

from backfill_assets.application.parts import Part
from backfill_assets.application.subjects import Run
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.lease import this_process
from backfill_assets.core.progress import Listener, no_listener
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.records import RunRecord
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.attempts import end_abandoned_runs
from backfill_assets.orchestration.dagster_internals import NoOpComputeLogManager, origin_of
from backfill_assets.orchestration.jobs import job_name, keys_of, table_definitions, table_jobs
from backfill_assets.orchestration.resources import Session
from backfill_assets.orchestration.storage import dagster_folder, storage_below
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import compress
from backfill_assets.workspace import Workspace

TEMPLATE = "dagster.yaml"
MAX_RETRIES = "dagster/max_retries"
QUIET = {"compute_logs": {"module": NoOpComputeLogManager.__module__, "class": NoOpComputeLogManager.__name__}}
"""Compute logs are made by redirecting the process's output, which belongs to the command."""


SILENT = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The command shows its own progress; the events are in the record of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagsterOutcome:
    """The result of a run that this process executed.

    Attributes:
        dagster_run_id: For links into the UI.
        succeeded: Whether every step did.
        run: The manifest's run as the ledger has it now.
        error: What stopped it, as the operations raised it; None when it succeeded, or a gate blocked.
    """

    dagster_run_id: str
    table: str
    succeeded: bool
    run: RunRecord
    error: BackfillError | None


@contextmanager
def open_instance(settings: Settings) -> Iterator[DagsterInstance]:
    """Dagster's record of runs: that of `DAGSTER_HOME`, else `<BACKFILL_HOME>/dagster`, made when it is not there.

    Args:
        settings: Where the home is.
    """
    given = os.environ.get("DAGSTER_HOME")
    folder = Path(given).expanduser().resolve() if given else _own_folder(settings)
    # Without DAGSTER_HOME the settings say where; with it, its `dagster.yaml` and the environment do.
    overrides: Any = QUIET if given else {**QUIET, "storage": storage_below(settings)}
    # It is not temporary: this is how Dagster opens a folder that need not be DAGSTER_HOME.
    with DagsterInstance.local_temp(str(folder), overrides=overrides) as instance:
        yield instance


def _own_folder(settings: Settings) -> Path:
    folder = dagster_folder(settings)
    if not (folder / TEMPLATE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = resources.files("backfill_assets.orchestration").joinpath(TEMPLATE).read_text(encoding="utf-8")
        (folder / TEMPLATE).write_text(text, encoding="utf-8")
    return folder


def run_in_process(
    workspace: Workspace,
    run_id: str,
    parts: Sequence[Part],
    *,
    instance: DagsterInstance,
    by: str,
    progress: Listener = no_listener,
) -> DagsterOutcome:
    """Executes assets of a run's table over the run's partitions, recorded like a run of the UI.

    Args:
        workspace: Its settings, domain and ledger are used, and its Spark session when it has one.
        run_id: The run to execute.
        parts: Which parts of it; each is an asset of its table, all of them the one asset of a source table.
        instance: Where Dagster records the run.
        by: Who asked.
        progress: Notified of the progress of every stage.

    Returns:
        What became of it; refusals are in `error`, not raised.
    """
    run = Run(workspace, run_id).record
    table = workspace.domain.table(run.manifest.table)
    end_abandoned_runs(instance, {tags.RUN_ID: run_id})
    given = {
        **tags.partition_range(run.manifest.partitions),
        **tags.of_run(run, by),
        tags.PROCESS: this_process(),
        # A command that died is run again by a person; Dagster's daemon starts its own runs again.
        MAX_RETRIES: "0",
    }
    for keys in _together(run.manifest, keys_of(table, parts)):
        dagster_run_id, succeeded, errors = _execute(
            workspace, job_name(table, parts), given, instance, progress, only=keys
        )
        if not succeeded:
            break
    return DagsterOutcome(
        dagster_run_id=dagster_run_id,
        table=table.name,
        succeeded=succeeded,
        run=Run(workspace, run_id).record,
        error=errors[-1] if errors else None,
    )


def _together(manifest: Manifest, keys: Sequence[AssetKey]) -> Sequence[Sequence[AssetKey]]:
    """Which assets one Dagster run executes: all, or each by itself where the partitions have gaps."""
    has_gaps = len(compress(manifest.grain, manifest.partitions)) > 1
    return [[key] for key in keys] if has_gaps else [keys]


def _execute(
    workspace: Workspace,
    job: str,
    run_tags: Mapping[str, str],
    instance: DagsterInstance,
    progress: Listener,
    *,
    only: Sequence[AssetKey] | None = None,
) -> tuple[str, bool, Sequence[BackfillError]]:
    session = Session(workspace=workspace, progress=progress, acts_as=run_tags[tags.BY])
    earliest = date.fromisoformat(run_tags[tags.RANGE_START])
    jobs = table_jobs(workspace.domain)
    definitions = table_definitions(workspace, lambda: session, jobs=jobs, pool=None, first_day=earliest)
    dagster_run_id = str(uuid4())
    try:
        with _in_the_code_location(instance, job):
            definitions.resolve_job_def(job).execute_in_process(
                instance=instance, tags=dict(run_tags), run_config=SILENT, run_id=dagster_run_id, asset_selection=only
            )
    except Failure:
        # An intentional failure of an asset. Any other error is a defect of this project, and is raised.
        return dagster_run_id, False, session.errors
    return dagster_run_id, True, session.errors


@contextmanager
def _in_the_code_location(instance: DagsterInstance, job: str) -> Iterator[None]:
    """Runs that are created inside belong to the code location: Timeline and the pages of jobs show no others.

    Dagster's `execute_in_process` has no argument for it.
    """
    created = instance.create_run_for_job
    instance.create_run_for_job = partial(created, remote_job_origin=origin_of(job))  # type: ignore[method-assign]
    try:
        yield
    finally:
        del instance.create_run_for_job
