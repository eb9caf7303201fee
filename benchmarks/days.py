"""B13: how time and storage grow with the number of days.

Homes whose source has one row a day are landed, built as bronze and as silver; and what Dagster keeps of three assets
over as many days, with ten gates, is recorded twice, and the first run pruned. That record is made up: it says what a
run costs in Dagster's storage, and nothing is computed for it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from figures import Figure, Watch
from restatements import governed, planned
from small_world import SILVER, World, output

from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.recorder import prune
from backfill_assets.orchestration.storage import open_instance
from backfill_assets_tests.support.dagster_history import days, gates, record_run, size_of

LINEAR = 1.3
"""The goal: what a day may cost among many, of what it costs among few."""

BRONZE_DAY, SILVER_DAY = "a day landed and published as bronze", "a day published as silver"
KEPT, PRUNED = "what Dagster keeps of a day and a run", "the same when the first of two runs is pruned"


def measure(world: World, *, counts: Sequence[int]) -> Sequence[Figure]:
    """What a day costs for each number of days, against the first of them."""
    found: dict[str, dict[int, float]] = {name: {} for name in (BRONZE_DAY, SILVER_DAY, KEPT, PRUNED)}
    with world.home("warm-up", days=10, items=lambda _: 1) as ws:
        governed(ws, Watch(), planned(ws, SILVER, output(10), "1.0.0"), "warm-up")
    for count in counts:
        watch = Watch()
        with ExitStack() as stack:
            with watch.on(BRONZE_DAY):
                ws = stack.enter_context(world.home(f"days-{count}", days=count, items=lambda _: 1))
            with watch.on(SILVER_DAY):
                governed(ws, Watch(), planned(ws, SILVER, output(count), "1.0.0"), "first")
        for name, taken in watch.processor.items():
            found[name][count] = taken[0] / count * 1000
        found[KEPT][count], found[PRUNED][count] = recorded(count)
    first = counts[0]
    figures: list[Figure] = []
    for name, of in found.items():
        unit = "KB" if name in (KEPT, PRUNED) else "ms of processors"
        for count, value in of.items():
            what = f"{name}, of {count:,} days"
            figures.append(Figure(name="B13", what=what, measured=[value], unit=unit))
            if count != first:
                against = f"of {first:,} days"
                figures.append(
                    Figure(name="B13", what=what, against=against, measured=[value], base=[of[first]], goal=LINEAR)
                )
    return figures


def recorded(count: int) -> tuple[float, float]:
    """The KB that Dagster's storage has for each day and run of two runs, and when the first of them is pruned."""
    before = os.environ.pop("DAGSTER_HOME", None)
    try:
        with tempfile.TemporaryDirectory(prefix="backfill-days-") as folder:
            settings = Settings.from_environment({"BACKFILL_HOME": folder})
            with open_instance(settings) as instance:
                for _ in range(2):
                    record_run(instance, days(count), gates(10))
                whole = size_of(Path(folder))
                prune(instance, days=90, as_of=datetime.now(UTC) + timedelta(days=91), dry_run=False)
                return whole / 1000 / count / 2, size_of(Path(folder)) / 1000 / count
    finally:
        if before is not None:
            os.environ["DAGSTER_HOME"] = before
