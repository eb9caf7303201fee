"""Ticks of the sensors of a home that is worked in by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.ticks import Ticks


@pytest.fixture
def ticks(hand: Hand) -> Iterator[Ticks]:
    found = Ticks(hand.ws)
    with open_record(hand.ws.settings) as instance, found.open(instance):
        yield found
