"""Propose sensor: plans the draft sets that changed sources ask for, as the command `propose` does.

It launches nothing: a draft waits for a person, and what follows by policy is launched by the sensor `follow`.
"""

from __future__ import annotations

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SensorResult, sensor

from backfill_assets.application.command_line import explained, words_of
from backfill_assets.application.propose import propose as propose_restatements
from backfill_assets.errors import BackfillError
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.orchestration.switches import switched_off
from backfill_assets.sensors import Sensor

SENSOR = "sensor"


def propose_sensor() -> SensorDefinition:
    """Proposes the restatement of what late and corrected data have changed."""

    @sensor(
        name=str(Sensor.PROPOSE),
        required_resource_keys={SESSION},
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING,
        description="Plans a draft restatement set, once, for late and corrected data behind published output. A "
        "person approves it.",
    )
    def propose(context: SensorEvaluationContext) -> SensorResult:
        session: Session = context.resources.session
        if off := switched_off(session.workspace.settings, Sensor.PROPOSE):
            return SensorResult(skip_reason=off)
        try:
            report = propose_restatements(session.workspace, by=SENSOR)
        except BackfillError as error:
            # Shown as the reason of the tick; the next tick decides anew.
            return SensorResult(skip_reason=explained(error))
        return SensorResult(skip_reason="\n".join(words_of(sentence) for sentence in report.sentences))

    return propose
