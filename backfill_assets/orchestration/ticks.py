"""Ticks: what all sensors of Dagster's daemon have in common, whatever they look for."""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

from collections.abc import Callable
from typing import Any

from dagster import SensorDefinition, SensorEvaluationContext, SensorResult, sensor

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.sensors import Sensor
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.orchestration.switches import switched_off
from backfill_assets.report.command_line import explained
from backfill_assets.workspace import Workspace

Tick = Callable[[SensorEvaluationContext, Workspace], SensorResult]
"""What a sensor does at a tick."""


def ticking(which: Sensor, **declared: Any) -> Callable[[Tick], SensorDefinition]:
    """Makes a sensor of what it does at a tick: left out by a setting it does nothing, and an error is a sentence.

    Args:
        which: The sensor.
        **declared: As for `dagster.sensor`.
    """

    def made(looks: Tick) -> SensorDefinition:
        @sensor(name=str(which), required_resource_keys={SESSION}, **declared)
        def tick(context: SensorEvaluationContext) -> SensorResult:
            session: Session = context.resources.session
            if off := switched_off(session.workspace.settings, which):
                return SensorResult(skip_reason=off)
            try:
                return looks(context, session.workspace)
            except BackfillError as error:
                # Shown as the reason of the tick; the next tick asks anew.
                return SensorResult(skip_reason=explained(error))

        return tick

    return made
