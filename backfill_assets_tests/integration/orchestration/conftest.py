"""A home that is worked in by hand, and ticks of its sensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets_tests.support.by_hand import Hand, open_by_hand
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.ticks import Ticks


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    opened = open_by_hand(tmp_path / "home")
    yield opened
    opened.ws.close()


@pytest.fixture
def ticks(hand: Hand) -> Iterator[Ticks]:
    found = Ticks(hand.ws)
    with open_record(hand.ws.settings) as instance, found.open(instance):
        yield found
