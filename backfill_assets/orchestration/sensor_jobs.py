"""Errands: what Dagster's daemon does because the ledger asks for it, each by a sensor and a job of the same subjects.

The sensor asks the ledger what is to be done, and launches one Dagster run per subject. The job asks the ledger again
and does what is still asked for; its tag can only narrow that to one subject. So nothing that is typed in a launch, no
cursor and no repetition makes it do anything else: launched by hand, the job does what the sensor would have done.
"""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from dagster import (
    DagsterInstance,
    DefaultSensorStatus,
    Failure,
    JobDefinition,
    OpExecutionContext,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    job,
    op,
)

from backfill_assets.application.approved import approved
from backfill_assets.application.recorder import Acting
from backfill_assets.application.recover import recover_document
from backfill_assets.application.stopped import stopped
from backfill_assets.application.stuck import GivenUp, remember, stuck_text
from backfill_assets.application.subjects import subject_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.people import PUBLISHER
from backfill_assets.core.progress import Progress
from backfill_assets.core.sensors import Sensor
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.attempts import MOST_ATTEMPTS, attempts_of
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.orchestration.runs import refusals_as_failures
from backfill_assets.orchestration.switches import switched_off
from backfill_assets.orchestration.ticks import ticking
from backfill_assets.report.command_line import explained
from backfill_assets.workspace import Workspace

DIED = "its process stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """Work that the ledger asks for.

    Attributes:
        sensor: Its sensor.
        job: The name of its job.
        description: What both do.
        nothing: What a tick says when nothing is asked for.
        asked: What the ledger asks for now.
        does: Does it for one subject.
        by: In whose name.
        every_s: The seconds between two ticks.
        uses_spark: Whether it waits for the pool of what uses Spark.
    """

    sensor: Sensor
    job: str
    description: str
    nothing: str
    asked: Callable[[Workspace], Sequence[str]]
    does: Callable[[Workspace, Acting, str], str]
    by: str
    every_s: int = 30
    uses_spark: bool = False


def _publish(ws: Workspace, acting: Acting, subject: str) -> str:
    document = subject_of(ws, subject).publish(acting)
    return f"{subject} is {getattr(document, 'state', 'published')}."


def _recover(ws: Workspace, acting: Acting, subject: str) -> str:
    report = recover_document(ws, acting, only=subject, now=False)
    for problem in report.problems:
        raise problem.error
    return "; ".join(f"{each.what} {each.id} {each.outcome}." for each in report.recovered) or "It had ended meanwhile."


PUBLISH = Errand(
    sensor=Sensor.PUBLISH,
    job="publish_approved",
    description="Publishes the runs and sets that a person has approved; the ledger says which, and asks again at the "
    "swap whether that person may.",
    nothing="Nothing that is approved waits to be published.",
    asked=approved,
    does=_publish,
    by=PUBLISHER,
)
RECOVER = Errand(
    sensor=Sensor.RECOVER,
    job="recover_stopped",
    description="Completes or undoes what a stopped process left unfinished, once its lease has ended.",
    nothing="Nothing was left unfinished.",
    asked=stopped,
    does=_recover,
    by=str(Sensor.RECOVER),
    every_s=60,
)
ERRANDS = (PUBLISH, RECOVER)


def errand_sensor(errand: Errand) -> SensorDefinition:
    """The sensor that launches the job of an errand for everything that the ledger asks for."""

    @ticking(
        errand.sensor,
        job_name=errand.job,
        minimum_interval_seconds=errand.every_s,
        default_status=DefaultSensorStatus.STOPPED,
        description=errand.description,
    )
    def tick(context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
        with ws.ledger.read() as tx:
            forgiven = tx.stuck.forgiven(errand.sensor)
        found, given_up = [], []
        for subject in errand.asked(ws):
            named = {tags.ON: subject}
            tried = attempts_of(context.instance, named, sensor=errand.sensor, forgiven=forgiven.get(subject, 0))
            if tried is None:
                continue
            if tried.counted >= MOST_ATTEMPTS:
                why = why_failed(context.instance, named, errand.sensor)
                given_up.append(GivenUp(subject=subject, why=why, attempts=tried.made))
            else:
                key = f"{errand.sensor}:{subject}:{tried.made + 1}"
                found.append(RunRequest(run_key=key, tags={tags.ON: subject, tags.BY: errand.by}))
        remember(ws, errand.sensor, given_up)
        if found:
            return SensorResult(run_requests=found)
        return SensorResult(skip_reason=stuck_text(ws, errand.sensor) or errand.nothing)

    return tick


def why_failed(instance: DagsterInstance, named: Mapping[str, str], of: Sensor) -> str:
    """Why the last Dagster run of a sensor with these tags failed."""
    own = RunsFilter(tags={**named, tags.SENSOR: str(of)})
    last = instance.get_runs(filters=own, limit=1)
    return last[0].tags.get(tags.WHY, DIED) if last else DIED


def errand_job(errand: Errand, *, pool: str | None = None) -> JobDefinition:
    """The job that does what the ledger asks for, or the part of it that its tag names.

    Args:
        errand: The errand.
        pool: The concurrency pool of what uses Spark.
    """

    @op(
        name=f"{errand.job}_now",
        description=errand.description,
        required_resource_keys={SESSION},
        pool=pool if errand.uses_spark else None,
    )
    def now(context: OpExecutionContext) -> None:
        session: Session = context.resources.session
        ws, only = session.workspace, context.run.tags.get(tags.ON)
        if off := switched_off(ws.settings, errand.sensor):
            context.log.info(off)
            return
        with refusals_as_failures(session, context):
            subjects = [subject for subject in errand.asked(ws) if only in (None, subject)]
        if not subjects:
            context.log.info(f"{errand.nothing if only is None else f'Nothing is asked for {only} (any more).'}")
        failed = [said for subject in subjects if (said := _carried_out(errand, context, ws, subject))]
        if failed:
            said = "\n".join(failed)
            context.instance.add_run_tags(context.run.run_id, {tags.WHY: said})
            raise Failure(description=said, allow_retries=False)

    @job(name=errand.job, description=errand.description)
    def carried_out() -> None:
        now()

    return carried_out


def _carried_out(errand: Errand, context: OpExecutionContext, ws: Workspace, subject: str) -> str:
    """Does it for one subject; why it failed, or nothing."""
    # Imported here, because the recorder executes the definitions that this module is part of.
    from backfill_assets.orchestration.recorder import DagsterRecorder

    def listen(progress: Progress) -> None:
        context.log.info(progress.line)

    try:
        with ExitStack() as opened:
            recorder = DagsterRecorder(ws.settings, opened, context.instance)
            context.log.info(errand.does(ws, Acting(by=errand.by, recorder=recorder, listener=listen), subject))
    except BackfillError as error:
        return explained(error)
    return ""
