"""Sensors: the parts of the system that look for work at every tick, by the name that Dagster and the ledger have."""

from __future__ import annotations

from enum import StrEnum


class Sensor(StrEnum):
    """A part of the system that acts by itself."""

    FOLLOW = "follow"
    PROPOSE = "propose"
    PUBLISH = "publish"
    RECOVER = "recover"
    DROP = "drop"
    LIVE = "live"
