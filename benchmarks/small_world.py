"""A made-up home of any size (`bench_domain`), for benchmarks that compute."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.clock import system_clock
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

BRONZE, SILVER = "bronze.counts", "silver.items"
FIRST_DAY = date(2015, 1, 1)


@dataclass(frozen=True, kw_only=True)
class World:
    """A folder with homes, each with its own ledger and lake, which share one Spark session."""

    folder: Path
    ws: Workspace

    @contextmanager
    def home(self, name: str, *, days: int, items: Callable[[int], int]) -> Iterator[Workspace]:
        """A home whose source has so many items on each day, by the number of the day."""
        ws = workspace(self.folder / name)
        try:
            _land(ws, days, items)
            yield ws
        finally:
            ws.close()


@contextmanager
def opened(folder: Path) -> Iterator[World]:
    """A world with a Spark session, which is stopped afterwards."""
    ws = workspace(folder / "session")
    try:
        ws.spark()
        yield World(folder=folder, ws=ws)
    finally:
        ws.close()
        ws.spark().stop()


def output(days: int) -> DayRange:
    """The days of the derived table: the first two only warm up."""
    return DayRange(FIRST_DAY + timedelta(days=2), FIRST_DAY + timedelta(days=2 + days))


def workspace(home: Path) -> Workspace:
    """A home of the made-up domain, made if there is none."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "bench_domain",
        "BACKFILL_FIRST_DAY": FIRST_DAY.isoformat(),
    }
    return Workspace.open(Settings.from_environment(environment), clock=system_clock)


def _land(ws: Workspace, days: int, items: Callable[[int], int]) -> None:
    path = ws.settings.home / "counts.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, day in enumerate(DayRange(FIRST_DAY, output(days).end)):
            record = {"count_id": f"count-{day}", "counted_at": f"{day}T12:00:00Z", "items": items(number)}
            file.write(json.dumps(record) + "\n")
    operations.land(ws, BRONZE, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="benchmark")
    assert load is not None
    operations.stage(ws, load.run_id, actor="ana")
    operations.gate(ws, load.run_id, actor="ana")
    operations.publish(ws, load.run_id, by="ana")
