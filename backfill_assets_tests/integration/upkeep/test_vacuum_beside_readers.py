"""Vacuum beside `report` and `reproduce`: what they say is right, or is a sentence that says what is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.application.requests import Restatement
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.progress import Progress
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import Shop, sale

SIXTH = date(2026, 1, 6)
LAST_SENTENCE = 5
"""Of six: each of three chunks says that it is rebuilt, and that it is equal."""


def superseded(shop: Shop) -> tuple[Shop, str, str]:
    """A run in chunks of three days and the one that replaced it and its input, after the horizons of both."""
    settings = replace(shop.ws.settings, chunk_partitions=3, rollback_days=1, reproduction_days=1)
    now = replace(shop, ws=replace(shop.ws, settings=settings))
    first = now.published(version="0.9.0")
    now.land("late.jsonl", [sale(day, amount=100, sale_id=f"late {day}") for day in (SIXTH, date(2026, 1, 9))])
    second = now.published(reason="late sales")
    late = replace(now.ws, clock=lambda: shop.ws.clock() + timedelta(days=400))
    return replace(now, ws=late), first, second


@pytest.mark.long
@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_reproduction_during_a_vacuum_says_what_retention_removed_or_is_right(shop: Shop, at: int) -> None:
    late, first, second = superseded(shop)
    said: list[str] = []

    def listen(progress: Progress) -> None:
        if len(said) == at:
            operations.vacuum(late.ws, by="vera")
        said.append(progress.line)

    if at < LAST_SENTENCE:
        with pytest.raises(MissingInput, match=f"run {first} reads version .* which retention removed at "):
            operations.reproduce(late.ws, first, by="rita", listener=listen)
    else:
        assert operations.reproduce(late.ws, first, by="rita", listener=listen).identical
    assert operations.reproduce(late.ws, second, by="rita").identical


@pytest.mark.long
def test_reports_are_the_same_at_every_place_of_a_vacuum(shop: Shop) -> None:
    late, first, second = superseded(shop)

    def reports() -> list[object]:
        return [Restatement(late.ws, run_id).report() for run_id in (first, second)]

    before, found = reports(), list[tuple[Point, list[object]]]()
    operations.vacuum(replace(late.ws, reached=lambda point: found.append((point, reports()))), by="vera")
    assert {point for point, _ in found} == {Point.VACUUM_PLANNED, Point.VACUUM_MARKED, Point.VACUUM_TABLE_DONE}
    assert [point for point, shown in found if shown != before] == []
    assert reports() == before
