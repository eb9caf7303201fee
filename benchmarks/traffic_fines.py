"""What does governing cost? The restatement of a quarter of the traffic fines, measured against the bare script.

    .venv/bin/python benchmarks/traffic_fines.py PATH/TO/traffic_fines

Lands and loads the whole log, publishes July to September 2006 under 2.4.1, then in one warmed-up Spark session
measures the bare script (read the same files, call the same transform, overwrite a folder per day) and the governed run
(stage, gate, publish), in turns, several times. Absolute times vary from machine to machine; the ratio is the result.
Peak memory is read from /proc, so on Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from backfill_assets.clock import system_clock
from backfill_assets.domain import TransformContext
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.manifest_parts import Kind, Mode
from backfill_assets.planning.partitions import DayRange
from backfill_assets.planning.request import PlanRequest
from backfill_assets.settings import Settings
from backfill_assets.workspace import Workspace
from backfill_assets_tests import operations

BRONZE, SILVER = "bronze.case_events", "silver.case_sla_daily"
QUARTER = DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30))


class Watch:
    """Seconds by what was done."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Measures a block."""
        began = time.perf_counter()
        yield
        took = time.perf_counter() - began
        self.seconds.setdefault(what, []).append(took)
        print(f"{took:8.2f} s  {what}", flush=True)


def main() -> None:
    """Runs the benchmark and prints a summary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traffic_fines", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="backfill-benchmark-"))
    settings = Settings.from_environment(
        {
            **os.environ,
            "BACKFILL_HOME": str(home),
            "BACKFILL_REFERENCE": str(arguments.traffic_fines / "reference"),
        }
    )
    ws = Workspace.open(settings, clock=system_clock)
    try:
        print(json.dumps(measure(ws, arguments.traffic_fines, arguments.rounds), indent=2))
    finally:
        ws.close()
        ws.spark().stop()
        shutil.rmtree(home)


def measure(ws: Workspace, data: Path, rounds: int) -> dict[str, Any]:
    """Everything that is measured, in seconds and MiB."""
    watch = Watch()
    with watch.on("Spark session"):
        ws.spark()
    with watch.on("land 561,470 events"):
        operations.land(ws, BRONZE, data / "events.parquet", on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="benchmark")
    assert load is not None
    governed(ws, watch, load.run_id, "load 4,918 bronze days")
    after_load = peaks()
    governed(ws, watch, planned(ws, "2.4.1"), "first publication")
    bare(ws, watch, "bare script (warm-up)")
    for _ in range(rounds):
        bare(ws, watch, "bare script")
        run_id = planned(ws, "3.1.0")
        governed(ws, watch, run_id, "restatement")
        with watch.on("rollback"):
            operations.rollback(ws, run_id, by="ben", reason="next round")
    medians = {what: round(statistics.median(taken), 2) for what, taken in watch.seconds.items()}
    return {
        "median_seconds": medians,
        "governed_to_bare": round(medians["restatement: all"] / medians["bare script"], 2),
        "computing_to_bare": round(medians["restatement: stage"] / medians["bare script"], 2),
        "peak_mib_after_load": after_load,
        "peak_mib": peaks(),
    }


def planned(ws: Workspace, version: str) -> str:
    """An approved run over the quarter."""
    request = PlanRequest(table=SILVER, days=QUARTER, reason="benchmark", by="ana", transform_version=version)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.approve(ws, run_id, by="ben")
    return run_id


def governed(ws: Workspace, watch: Watch, run_id: str, what: str) -> None:
    """Stage, gate and publish a run."""
    steps: dict[str, Callable[[], object]] = {
        "stage": lambda: operations.stage(ws, run_id, actor="ana"),
        "gate": lambda: operations.gate(ws, run_id, actor="ana"),
        "publish": lambda: operations.publish(ws, run_id, by="ben"),
    }
    with watch.on(f"{what}: all"):
        for step, act in steps.items():
            with watch.on(f"{what}: {step}"):
                act()


def bare(ws: Workspace, watch: Watch, what: str) -> None:
    """The backfill without this package: read, compute, overwrite."""
    table = ws.domain.derived_table(SILVER)
    window = table.window_of("events", {name: loaded.value for name, loaded in ws.references.items()})
    days = window.around(QUARTER)
    with ws.ledger.read() as reader:
        versions = reader.versions.accepted(BRONZE, list(days))
    root = Path(str(ws.lake.place(BRONZE)))
    paths = [str(root / path) for version in versions.values() for path in version.files.paths]
    target = ws.settings.home / "bare"
    with watch.on(what):
        events: DataFrame = ws.spark().read.parquet(*paths)
        ctx = TransformContext(
            run_id="bare",
            kind=Kind.RESTATEMENT,
            mode=Mode.BACKFILL,
            transform_version="3.1.0",
            output=QUARTER,
            output_partitions=tuple(QUARTER),
            input_days={"events": days},
            references={name: loaded.value for name, loaded in ws.references.items()},
            spark=ws.spark(),
        )
        rows = table.release("3.1.0").function(events, ctx)
        rows.repartition("business_date").write.partitionBy("business_date").mode("overwrite").parquet(str(target))


def peaks() -> dict[str, int]:
    """The peak resident memory in MiB of this process and of Spark's JVM so far."""
    found = {"python": _peak(os.getpid())}
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text(encoding="utf-8", errors="replace")
        if "Name:\tjava" in text and f"PPid:\t{os.getpid()}\n" in text:
            found["jvm"] = _peak(int(status.parent.name))
    return found


def _peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


if __name__ == "__main__":
    main()
