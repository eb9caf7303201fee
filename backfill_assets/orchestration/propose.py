"""Propose sensor: plans the draft sets that changed sources ask for, as the command `propose` does.

It launches nothing: a draft waits for a person, and what follows by policy is launched by the sensor `follow`.
"""

from __future__ import annotations

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SensorResult

from backfill_assets.application.propose import propose as propose_restatements
from backfill_assets.core.sensors import Sensor
from backfill_assets.orchestration.ticks import ticking
from backfill_assets.report.command_line import words_of
from backfill_assets.workspace import Workspace

SENSOR = "sensor"


def propose_sensor() -> SensorDefinition:
    """Proposes the restatement of what late and corrected data have changed."""

    @ticking(
        Sensor.PROPOSE,
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING,
        description="Plans a draft restatement set, once, for late and corrected data behind published output. A "
        "person approves it.",
    )
    def propose(_context: SensorEvaluationContext, ws: Workspace) -> SensorResult:
        report = propose_restatements(ws, by=SENSOR)
        return SensorResult(skip_reason="\n".join(words_of(sentence) for sentence in report.sentences))

    return propose
