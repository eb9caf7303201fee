"""Sensors: what all sensors of Dagster's daemon share, and those without a job of their own: follow, propose, fresh.

The ledger decides what follows a publication (`application.follow`). What the sensor launches are manifests that the
ledger holds: a tag names one and grants nothing, and a run that is launched twice does nothing the second time. The
proposing sensor launches nothing: a draft waits for a person. Sensors with a job of their own are in `sensor_jobs`.
"""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dagster import (
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from backfill_assets.application.follow import Unfinished, plan_follow_ups, unfinished
from backfill_assets.application.freeze import frozen_text
from backfill_assets.application.propose import propose as propose_restatements
from backfill_assets.application.sensor_work import remember, stuck_text
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.people import FOLLOWER, Sensor
from backfill_assets.core.settings import Settings
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.attempts import MOST_ATTEMPTS, Attempts, attempts_of, end_abandoned_runs
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.fresh import report
from backfill_assets.orchestration.jobs import job_name, keys_of
from backfill_assets.orchestration.recorder import show_accepted
from backfill_assets.orchestration.resources import SESSION, session_of
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.command_line import explained
from backfill_assets.report.fresh import freshness
from backfill_assets.report.screens.proposals import propose_lines
from backfill_assets.report.values import text_of
from backfill_assets.workspace import Workspace

MOST_AT_ONCE = 10_000
"""After so many partitions, the tables that are left wait for the next tick of the sensor `fresh`."""

GOING_ON = RunsFilter(statuses=[DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED])

Tick = Callable[[SensorEvaluationContext, Workspace], SensorResult]
"""What a sensor does at a tick."""


def ticking(which: Sensor, **declared: Any) -> Callable[[Tick], SensorDefinition]:
    """Makes a sensor of what it does at a tick: left out by a setting it does nothing, and an error is a sentence.

    Args:
        **declared: As for `dagster.sensor`.
    """

    def made(looks: Tick) -> SensorDefinition:
        @sensor(name=tags.prefixed(which), required_resource_keys={SESSION}, **declared)
        def tick(context: SensorEvaluationContext) -> SensorResult:
            session = session_of(context)
            if off := switched_off(session.workspace.settings, which):
                return SensorResult(skip_reason=off)
            try:
                return looks(context, session.workspace)
            except BackfillError as error:
                # Shown as the reason of the tick; the next tick asks anew.
                return SensorResult(skip_reason=explained(error))

        return tick

    return made


def switched_off(settings: Settings, sensor: Sensor) -> str:
    """Why a sensor does nothing in this process, whatever its switch in Dagster says; empty when it may act."""
    if settings.sensors is None or sensor in settings.sensors:
        return ""
    return f"BACKFILL_SENSORS leaves the sensor {sensor} out."


def held_in(cursor: str | None) -> dict[str, str]:
    """The content of a sensor's cursor; nothing for one that was reset or edited."""
    try:
        found = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def follow_sensor(jobs: Sequence[AssetJob]) -> SensorDefinition:
    """Re-materializes what depends on a publication.

    Args:
        jobs: Those of derived tables; it loads nothing.
    """

    @ticking(
        Sensor.FOLLOW,
        jobs=jobs,
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Stages, gates and publishes the tables that depend on what was published, once for all inputs "
        "that were published together.",
    )
    def follow(context: SensorEvaluationContext, workspace: Workspace) -> SensorResult:
        unplanned = ""
        try:
            plan_follow_ups(workspace, by=FOLLOWER, tries=lambda entry: entry.attempts < MOST_ATTEMPTS)
        except BackfillError as error:
            # Such as a reference that cannot be read: what is planned already goes on.
            unplanned = explained(error)
            context.log.warning(unplanned)
        with workspace.ledger.read() as tx:
            forgiven = tx.stuck.forgiven(Sensor.FOLLOW)
            given_up = list(_unplanned(tx))
        found = []
        for each in unfinished(workspace):
            run = each.run
            named = {tags.RUN_ID: run.run_id}
            tried = attempts_of(context.instance, named, sensor=Sensor.FOLLOW, forgiven=forgiven.get(run.run_id, 0))
            if tried is None:
                continue
            if tried.counted >= MOST_ATTEMPTS:
                given_up.append(GivenUp(subject=run.run_id, why=run.note or str(run.state), attempts=tried.made))
            else:
                found.append(_run_request(workspace, each, tried))
        remember(workspace, Sensor.FOLLOW, given_up)
        if found:
            return SensorResult(run_requests=found)
        said = "\n".join(filter(None, (unplanned, frozen_text(workspace), stuck_text(workspace, Sensor.FOLLOW))))
        return SensorResult(skip_reason=said or "Every publication has been followed.")

    return follow


def _unplanned(tx: ReadTransaction) -> Iterator[GivenUp]:
    """Publications whose follow-ups could not be planned, which the ledger counts itself.

    They are known also when it cannot be determined what is asked; what asks for nothing any more is not open.
    """
    for entry in tx.outbox.entries(open_only=True):
        if entry.attempts >= MOST_ATTEMPTS:
            yield GivenUp(subject=entry.publication_id, why=entry.note, attempts=entry.attempts)


def _run_request(workspace: Workspace, each: Unfinished, tried: Attempts) -> RunRequest:
    run, table = each.run, workspace.domain.table(each.run.manifest.table)
    return RunRequest(
        run_key=f"{run.run_id}:{tried.made + 1}",
        job_name=job_name(table),
        asset_selection=list(keys_of(table, each.parts)),
        tags={**tags.partition_range(run.manifest.partitions), **tags.of_run(run, FOLLOWER)},
    )


@ticking(
    Sensor.PROPOSE,
    minimum_interval_seconds=60,
    default_status=DefaultSensorStatus.RUNNING,
    description="Plans a draft restatement set, once, for late and corrected data behind published output. A "
    "person approves it.",
)
def propose_sensor(_context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
    """Proposes the restatement of what late and corrected data have changed."""
    report = propose_restatements(ws, by="sensor")
    return SensorResult(skip_reason="\n".join(text_of(line) for line in propose_lines(report)))


@ticking(
    Sensor.FRESH,
    minimum_interval_seconds=300,
    default_status=DefaultSensorStatus.RUNNING,
    description="Shows which partitions no longer follow from the present, as the check `fresh` of their table.",
)
def fresh_sensor(context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
    """Reports what readers see of every table and what of it is stale, where that is not what its last tick reported.

    It completes what a process that was killed has not recorded.
    """
    # By table, what was reported last.
    known, told = held_in(context.cursor), 0
    end_abandoned_runs(context.instance)
    recording = {run.tags.get(tags.RUN_ID) for run in context.instance.get_runs(filters=GOING_ON)}
    with ws.ledger.read() as tx:
        waits = {run.manifest.table for run in tx.runs.named(filter(None, recording))}
    for found in tuple(freshness(ws, None)):
        # Of a table that a process records right now, the next tick reports what it has not.
        if known.get(found.table) == found.mark or found.table in waits or told >= MOST_AT_ONCE:
            continue
        show_accepted(ws, instance=context.instance, tables=[found.table])
        if isinstance(ws.domain.table(found.table), DerivedTable):
            report(ws, found, context.instance)
        known[found.table], told = found.mark, told + len(found.accepted)
    said = f"{count_of(told, 'partition')} reported." if told else "Nothing has changed."
    return SensorResult(skip_reason=said, cursor=json.dumps(known))
