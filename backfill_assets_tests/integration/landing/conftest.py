"""Rooms to land files in, in an empty home."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets_tests.support.landing_examples import LandingRoom, Opened, landing_room


@pytest.fixture
def opened(spark: SparkSession, settings: Settings, clock: Clock) -> Opened:
    """Opens the room of a source."""
    return partial(landing_room, spark, settings, clock)


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    """The room of events."""
    with landing_room(spark, settings, clock) as room:
        yield room
