"""Sensors of Dagster's daemon: follow, propose and fresh, and those of which each has a job, because the ledger asks
for it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Any

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    Failure,
    JobDefinition,
    OpExecutionContext,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    in_process_executor,
    job,
    op,
    schedule,
    sensor,
)

from backfill_assets.application.drop import give_up, is_used, land_dropped, settled_sources, unchanged, waiting
from backfill_assets.application.follow import Unfinished, plan_follow_ups, unfinished
from backfill_assets.application.freeze import frozen_text
from backfill_assets.application.live import live
from backfill_assets.application.propose import propose as propose_restatements
from backfill_assets.application.recorder import Acting
from backfill_assets.application.recover import recover_document
from backfill_assets.application.requests import Restatement
from backfill_assets.application.sensor_work import approved, remember, stopped, stuck_text
from backfill_assets.calendar.partitions import count_of
from backfill_assets.capture.files.drop_folder import DroppedFile
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.people import FOLLOWER, PUBLISHER, Sensor
from backfill_assets.core.people import LIVE as BY
from backfill_assets.core.settings import Settings
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.assets import job_name, keys_of
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.freshness_checks import report
from backfill_assets.orchestration.recorder import acting_in, show_accepted
from backfill_assets.orchestration.resources import SESSION, session_of
from backfill_assets.orchestration.runs import refusals_as_failures
from backfill_assets.orchestration.tags import MOST_ATTEMPTS, Attempts, attempts_of, end_abandoned_runs, is_under_way
from backfill_assets.report.command_line import explained
from backfill_assets.report.proposals import propose_lines
from backfill_assets.report.stale import freshness
from backfill_assets.report.values import text_of
from backfill_assets.workspace import Workspace

# Sensors: what all sensors of Dagster's daemon share, and those without a job of their own: follow, propose,
# fresh.
#
# The ledger decides what follows a publication (`application.follow`). What the sensor launches are manifests
# that the ledger holds: a tag names one and grants nothing, and a run that is launched twice does nothing the
# second time. The proposing sensor launches nothing: a draft waits for a person. Sensors with a job of their own
# are in `sensor_jobs`.

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.


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


# Sensor jobs: what Dagster's daemon does because the ledger asks for it, each by a sensor and a job.
#
# The sensor asks the ledger what is to be done, and launches one Dagster run per subject. The job asks the ledger
# again and does what is still asked for; its tag can only narrow that to one subject. So nothing that is typed in
# a launch, no cursor and no repetition makes it do anything else: launched by hand, the job does what the sensor
# would have done. The LIVE path is such a job as well, and a schedule launches it. The sensor of the drop folder
# looks at files besides: its cursor holds what the tick before has seen, so that a file is taken when it is the
# same twice. Reset, or typed by a person, it costs a tick: what has landed is known by its content, and what was
# given up by the ledger.

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.


DIED = "its process stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorJob:
    """Work that the ledger asks for."""

    sensor: Sensor
    job: str
    description: str  #: What both do.
    nothing: str  #: What a tick says when nothing is asked for.
    asked: Callable[[Workspace], Sequence[str]]  #: What the ledger asks for now.
    does: Callable[[Workspace, Acting, str], str]
    by: str
    every_s: int = 30  #: The seconds between two ticks.
    uses_spark: bool = False  #: True if it waits for the pool of what uses Spark.
    freezes: bool = False  #: True if what it does waits for freezes, so that a tick names them.


def _publish(ws: Workspace, acting: Acting, subject: str) -> str:
    named = Restatement(ws, subject)
    named.publish(acting)
    return f"{subject} is {named.document().record.state}."


def _recover(ws: Workspace, acting: Acting, subject: str) -> str:
    report = recover_document(ws, acting, only=subject, now=False)
    for problem in report.problems:
        raise problem.error
    return "; ".join(f"{each.what} {each.id} {each.outcome}." for each in report.recovered) or "It had ended meanwhile."


PUBLISH = SensorJob(
    sensor=Sensor.PUBLISH,
    job=tags.prefixed("publish_approved"),
    description="Publishes the runs and sets that a person has approved; the ledger says which, and asks again at the "
    "swap whether that person may.",
    nothing="Nothing that is approved waits to be published.",
    asked=approved,
    does=_publish,
    by=PUBLISHER,
    freezes=True,
)
RECOVER = SensorJob(
    sensor=Sensor.RECOVER,
    job=tags.prefixed("recover_stopped"),
    description="Completes or undoes what a stopped process left unfinished, once its lease has ended.",
    nothing="Nothing was left unfinished.",
    asked=stopped,
    does=_recover,
    by=str(Sensor.RECOVER),
    every_s=60,
)
SENSOR_JOBS = (PUBLISH, RECOVER)


def sensor_of(work: SensorJob) -> SensorDefinition:
    """The sensor that launches the job for everything that the ledger asks for."""

    @ticking(
        work.sensor,
        job_name=work.job,
        minimum_interval_seconds=work.every_s,
        default_status=DefaultSensorStatus.STOPPED,
        description=work.description,
    )
    def tick(context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
        with ws.ledger.read() as tx:
            forgiven = tx.stuck.forgiven(work.sensor)
        found, given_up = [], []
        for subject in work.asked(ws):
            named = {tags.ON: subject}
            tried = attempts_of(context.instance, named, sensor=work.sensor, forgiven=forgiven.get(subject, 0))
            if tried is None:
                continue
            if tried.counted >= MOST_ATTEMPTS:
                why = why_failed(context.instance, named, work.sensor)
                given_up.append(GivenUp(subject=subject, why=why, attempts=tried.made))
            else:
                key = f"{work.sensor}:{subject}:{tried.made + 1}"
                found.append(RunRequest(run_key=key, tags={tags.ON: subject, tags.BY: work.by}))
        remember(ws, work.sensor, given_up)
        if found:
            return SensorResult(run_requests=found)
        said = filter(None, (frozen_text(ws) if work.freezes else "", stuck_text(ws, work.sensor)))
        return SensorResult(skip_reason="\n".join(said) or work.nothing)

    return tick


def why_failed(instance: DagsterInstance, named: Mapping[str, str], of: Sensor) -> str:
    """Why the last Dagster run of a sensor with these tags failed."""
    own = RunsFilter(tags={**named, tags.SENSOR: tags.prefixed(of)})
    last = instance.get_runs(filters=own, limit=1)
    return last[0].tags.get(tags.WHY, DIED) if last else DIED


def dagster_job(work: SensorJob, *, pool: str | None = None) -> JobDefinition:
    """The job that does what the ledger asks for, or the part of it that its tag names."""

    @op(
        name=f"{work.job}_now",
        description=work.description,
        required_resource_keys={SESSION},
        pool=pool if work.uses_spark else None,
    )
    def now(context: OpExecutionContext) -> None:
        session = session_of(context)
        ws, only = session.workspace, context.run.tags.get(tags.ON)
        if off := switched_off(ws.settings, work.sensor):
            context.log.info(off)
            return
        with refusals_as_failures(session, context):
            subjects = [subject for subject in work.asked(ws) if only in (None, subject)]
        if not subjects:
            context.log.info(f"{work.nothing if only is None else f'No work is requested for {only}.'}")
        failed = [said for subject in subjects if (said := _carried_out(work, context, ws, subject))]
        if failed:
            said = "\n".join(failed)
            context.instance.add_run_tags(context.run.run_id, {tags.WHY: said})
            raise Failure(description=said, allow_retries=False)

    @job(name=work.job, description=work.description, executor_def=in_process_executor)
    def carried_out() -> None:
        now()

    return carried_out


def _carried_out(work: SensorJob, context: OpExecutionContext, ws: Workspace, subject: str) -> str:
    """Does it for one subject; why it failed, or nothing."""
    try:
        context.log.info(work.does(ws, acting_in(context, ws, work.by), subject))
    except BackfillError as error:
        return explained(error)
    return ""


SUBJECT = "live"


def _live(ws: Workspace, acting: Acting, _subject: str) -> str:
    advanced = live(ws, acting)
    said = "\n".join(each.sentence for each in advanced)
    if any(each.failed for each in advanced):
        raise BackfillError(said)
    return said


LIVE = SensorJob(
    sensor=Sensor.LIVE,
    job=tags.prefixed("live"),
    description="Builds what has landed, and takes the newest days of every table to readers where its policy says so; "
    "else the run waits for a person.",
    nothing="Nothing is new.",
    asked=lambda _ws: (SUBJECT,),
    does=_live,
    by=BY,
    uses_spark=True,
)


def live_schedule(at: time) -> ScheduleDefinition:
    """The schedule of the LIVE path, every day at a time in UTC."""

    @schedule(
        name=tags.prefixed(Sensor.LIVE),
        cron_schedule=f"{at.minute} {at.hour} * * *",
        job_name=LIVE.job,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.STOPPED,
        description=LIVE.description,
    )
    def tick(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        given = {tags.ON: SUBJECT}
        if is_under_way(context.instance, given):
            return SkipReason("The LIVE path of an earlier tick has not ended.")
        return RunRequest(tags={**given, tags.BY: BY})

    return tick


MOST_WATCHED = 500
"""How many files the cursor holds: the oldest ones; the others are looked at when these have landed."""

DROP = SensorJob(
    sensor=Sensor.DROP,
    job=tags.prefixed("land_dropped"),
    description="Lands the files of the drop folder, by the one road in, in the name of BACKFILL_USER.",
    nothing="No file waits in the drop folder.",
    asked=settled_sources,
    does=land_dropped,
    by=str(Sensor.DROP),
    uses_spark=True,
)


@ticking(
    Sensor.DROP,
    job_name=DROP.job,
    minimum_interval_seconds=DROP.every_s,
    default_status=DefaultSensorStatus.STOPPED,
    description=DROP.description,
)
def drop_sensor(context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
    """The sensor that watches the drop folder."""
    if not is_used(ws):
        return SensorResult(skip_reason="BACKFILL_DROP names no folder to watch, and no source declares one.")
    away: list[BackfillError] = []
    found = waiting(ws, away)
    give_up(ws, [each for each in found if each.unfit])
    watched = [each for each in found if not each.unfit][:MOST_WATCHED]
    ready = unchanged(watched, held_in(context.cursor), ws.clock())
    first = {each.source: each for each in reversed(ready)}
    asked = [request for source in sorted(first) if (request := _request(context, ws, first[source]))]
    cursor = json.dumps({each.subject: each.mark for each in watched})
    if asked:
        return SensorResult(run_requests=asked, cursor=cursor)
    said = "\n".join(
        filter(None, (*map(explained, away), stuck_text(ws, Sensor.DROP), _what_is_going_on(watched, ready)))
    )
    return SensorResult(skip_reason=said or DROP.nothing, cursor=cursor)


def _what_is_going_on(watched: Sequence[DroppedFile], ready: Sequence[DroppedFile]) -> str:
    if ready:
        return f"Files of {', '.join(sorted({each.source for each in ready}))} are being landed."
    return f"{count_of(len(watched), 'file')} watched until no longer written." if watched else ""


def _request(context: SensorEvaluationContext, ws: Workspace, first: DroppedFile) -> RunRequest | None:
    """The run that lands the files of a source, unless one is under way; what stops it three times is given up."""
    if is_under_way(context.instance, {tags.ON: first.source}):
        return None
    named = {tags.FIRST_FILE: f"{first.subject}|{first.mark}"}
    with ws.ledger.read() as tx:
        forgiven = tx.stuck.forgiven(Sensor.DROP).get(first.subject, 0)
    tried = attempts_of(context.instance, named, sensor=Sensor.DROP, forgiven=forgiven)
    if tried is None:
        return None
    if tried.counted >= MOST_ATTEMPTS:
        give_up(ws, [first], why=why_failed(context.instance, named, Sensor.DROP), attempts=tried.made)
        return None
    given = {tags.ON: first.source, tags.BY: ws.settings.user, **named}
    return RunRequest(run_key=f"{Sensor.DROP}:{first.subject}:{first.mark}:{tried.made + 1}", tags=given)
