"""LIVE schedule: once a day, the newest days of every table, as far as policies let them go."""

from __future__ import annotations

from datetime import time

from dagster import (
    DefaultScheduleStatus,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.people import LIVE as BY
from backfill_assets.core.sensors import Sensor
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.attempts import is_under_way
from backfill_assets.orchestration.sensor_jobs import Errand
from backfill_assets.workspace import Workspace

SUBJECT = "live"


def _live(ws: Workspace, acting: Acting, _subject: str) -> str:
    advanced = live(ws, acting)
    said = "\n".join(each.sentence for each in advanced)
    if any(each.failed for each in advanced):
        raise BackfillError(said)
    return said


LIVE = Errand(
    sensor=Sensor.LIVE,
    job="live",
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
        name=str(Sensor.LIVE),
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
