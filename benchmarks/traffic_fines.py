"""B1 on real data: the restatement of a quarter or a year of the traffic fines, measured against the bare script.

Lands and loads the whole log, publishes July to September 2006, or all of it, under 2.4.1, then in one warmed-up Spark
session measures the bare script (read the same files, call the same transform, overwrite a folder per day) and the
governed run (stage, gate, publish), in turns, several times; then the bare script and DuckDB (`by_hand`). Absolute
times vary from machine to machine; the ratio is the result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import by_hand
from figures import Figure, Watch
from restatements import bare, compared, governed, planned

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.clock import system_clock
from backfill_assets.core.settings import EXAMPLE_REFERENCE, Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

BRONZE, SILVER = "bronze.case_events", "silver.case_sla_daily"
SPANS = {
    "quarter": (DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30)), 1.5),
    "year": (DayRange.inclusive(date(2006, 1, 1), date(2006, 12, 31)), 1.35),
}
"""What is restated, and the goal."""


def settings_of(home: Path, log: Path) -> Settings:
    """The settings of a home with the reference files of the log, and with those who may approve in the example."""
    reference = home / "reference"
    reference.mkdir(parents=True)
    for path in (*(log / "reference").iterdir(), EXAMPLE_REFERENCE / "approvers.yaml"):
        (reference / path.name).write_bytes(path.read_bytes())
    return Settings.from_environment({**os.environ, "BACKFILL_HOME": str(home)})


def measure(home: Path, log: Path, *, rounds: int, span: str = "quarter") -> Sequence[Figure]:
    """The figures of a span of days, in a home that is made for it."""
    days, goal = SPANS[span]
    ws = Workspace.open(settings_of(home, log), clock=system_clock)
    watch = Watch()
    try:
        with watch.on("land 561,470 events"):
            operations.land(ws, BRONZE, log / "events.parquet", on_duplicate=OnDuplicate.IGNORE, by="ana")
        load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="benchmark")
        assert load is not None
        governed(ws, watch, load.run_id, "load 4,918 bronze days")
        governed(ws, watch, planned(ws, SILVER, days, "2.4.1"), "first publication")
        bare(ws, watch, SILVER, days, "3.1.0", "bare script (warm-up)")
        figures = compared(ws, SILVER, days, "3.1.0", f"a {span} of the traffic fines", rounds=rounds, goal=goal)
        return [*figures, *by_hand.measure(ws, SILVER, days, "3.1.0", rounds=rounds)]
    finally:
        ws.close()
