"""Drop sensor: launches the landing of files that were put into the drop folder and are no longer written.

Its cursor holds what the tick before has seen, so that a file is taken when it is the same twice. Reset, or typed by
somebody, it costs a tick: what has landed is known by its content, and what was given up by the ledger.
"""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from dagster import DefaultSensorStatus, RunRequest, SensorDefinition, SensorEvaluationContext, SensorResult

from backfill_assets.application.drop import give_up, land_dropped, settled_sources, unchanged, waiting
from backfill_assets.application.sensor_work import stuck_text
from backfill_assets.core.people import Sensor
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.attempts import MOST_ATTEMPTS, attempts_of, is_under_way
from backfill_assets.orchestration.sensor_jobs import SensorJob, why_failed
from backfill_assets.orchestration.sensors import ticking
from backfill_assets.planning.partitions import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_assets.capture.drop_folder import DroppedFile
    from backfill_assets.workspace import Workspace

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


def drop_sensor() -> SensorDefinition:
    """The sensor that watches the drop folder."""

    @ticking(
        Sensor.DROP,
        job_name=DROP.job,
        minimum_interval_seconds=DROP.every_s,
        default_status=DefaultSensorStatus.STOPPED,
        description=DROP.description,
    )
    def tick(context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
        if ws.settings.drop is None:
            return SensorResult(skip_reason="BACKFILL_DROP names no folder to watch.")
        found = waiting(ws)
        give_up(ws, [each for each in found if each.unfit])
        watched = [each for each in found if not each.unfit][:MOST_WATCHED]
        ready = unchanged(watched, _seen(context.cursor), ws.clock())
        asked = [request for _, own in _by_source(ready) if (request := _request(context, ws, own[0]))]
        cursor = json.dumps({each.subject: each.mark for each in watched})
        if asked:
            return SensorResult(run_requests=asked, cursor=cursor)
        said = "\n".join(filter(None, (stuck_text(ws, Sensor.DROP), _what_is_going_on(watched, ready))))
        return SensorResult(skip_reason=said or DROP.nothing, cursor=cursor)

    return tick


def _what_is_going_on(watched: Sequence[DroppedFile], ready: Sequence[DroppedFile]) -> str:
    if ready:
        return f"Files of {', '.join(sorted({each.source for each in ready}))} are being landed."
    return f"{count_of(len(watched), 'file')} watched until no longer written." if watched else ""


def _seen(cursor: str | None) -> dict[str, str]:
    try:
        held = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _by_source(files: list[DroppedFile]) -> list[tuple[str, list[DroppedFile]]]:
    ordered = sorted(files, key=attrgetter("source"))
    return [(source, list(own)) for source, own in groupby(ordered, key=attrgetter("source"))]


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
