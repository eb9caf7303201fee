"""Switches of sensors: Dagster's own, which pages show, and a setting that can only leave sensors out."""

from __future__ import annotations

from backfill_assets.core.sensors import Sensor
from backfill_assets.core.settings import Settings


def switched_off(settings: Settings, sensor: Sensor) -> str:
    """Why a sensor does nothing in this process, whatever its switch in Dagster says; empty when it may act."""
    if settings.sensors is None or sensor in settings.sensors:
        return ""
    return f"BACKFILL_SENSORS leaves the sensor {sensor} out."
