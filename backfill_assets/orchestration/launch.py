"""Launch: a command executes assets in its own process, and the UI shows the run like any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from uuid import uuid4

from dagster import AssetKey, DagsterInstance, Failure

from backfill_assets.application.execute import Executed, execute
from backfill_assets.application.parts import Part
from backfill_assets.application.requests import run_of
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.lease import this_process
from backfill_assets.core.progress import Listener, no_listener
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.assets import job_name, keys_of, table_definitions, table_jobs
from backfill_assets.orchestration.dagster_internals import origin_of
from backfill_assets.orchestration.event_log import gathering
from backfill_assets.orchestration.resources import Perform, Session
from backfill_assets.orchestration.tags import end_abandoned_runs
from backfill_assets.planning.manifest import has_gaps
from backfill_assets.workspace import Workspace

MAX_RETRIES = "dagster/max_retries"
SILENT = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The command shows its own progress; the events are in the record of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagsterOutcome:
    """The result of a run that this process executed."""

    dagster_run_id: str  #: For links into the UI.
    succeeded: bool  #: True if every step did.
    #: What stopped it, as the operations raised it; None when it succeeded, or a gate blocked.
    error: BackfillError | None


def run_in_process(
    workspace: Workspace,
    run_id: str,
    parts: Sequence[Part],
    *,
    instance: DagsterInstance,
    by: str,
    progress: Listener = no_listener,
    perform: Perform = execute,
) -> DagsterOutcome:
    """Executes assets of a run's table over the run's partitions, recorded like a run of the UI.

    Args:
        parts: Which parts of it; each is an asset of its table, all of them the one asset of a source table.
        instance: Where Dagster records the run.
        perform: How its assets execute parts; they may take over what another thread executes.

    Returns:
        What became of it; refusals are in `error`, not raised.
    """
    run = run_of(workspace, run_id)
    table = workspace.domain.table(run.manifest.table)
    end_abandoned_runs(instance, {tags.RUN_ID: run_id})
    given = {
        **tags.partition_range(run.manifest.partitions),
        **tags.of_run(run, by),
        tags.PROCESS: this_process(),
        # A command that died is run again by a person; Dagster's daemon starts its own runs again.
        MAX_RETRIES: "0",
    }
    every = keys_of(table, parts)
    # Partitions with gaps are no range of one Dagster run over several assets.
    for keys in [[key] for key in every] if has_gaps(run.manifest) else [every]:
        outcome = _execute(workspace, job_name(table), given, instance, progress, perform, keys)
        if not outcome.succeeded:
            break
    return outcome


def _execute(
    workspace: Workspace,
    job: str,
    run_tags: Mapping[str, str],
    instance: DagsterInstance,
    progress: Listener,
    perform: Perform,
    only: Sequence[AssetKey],
) -> DagsterOutcome:

    def apart(
        ws: Workspace, run_id: str, parts: Iterable[Part], /, *, actor: str, listener: Listener = no_listener
    ) -> Executed:
        with gathering(instance, False):
            return perform(ws, run_id, parts, actor=actor, listener=listener)

    session = Session(
        workspace=workspace,
        progress=progress,
        acts_as=run_tags[tags.BY],
        perform=apart,
        executes=perform is execute,
    )
    ends = (date.fromisoformat(run_tags[name]) for name in (tags.RANGE_START, tags.RANGE_END))
    jobs = table_jobs(workspace.domain)
    definitions = table_definitions(workspace, lambda: session, jobs=jobs, pool=None, over=DayRange.inclusive(*ends))
    dagster_run_id, succeeded = str(uuid4()), True
    try:
        with _in_the_code_location(instance, job), gathering(instance, True):
            definitions.resolve_job_def(job).execute_in_process(
                instance=instance, tags=dict(run_tags), run_config=SILENT, run_id=dagster_run_id, asset_selection=only
            )
    except Failure:
        # An intentional failure of an asset. Any other error is a defect of this project, and is raised.
        succeeded = False
    error = session.errors[-1] if session.errors else None
    return DagsterOutcome(dagster_run_id=dagster_run_id, succeeded=succeeded, error=error)


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
