"""Does the memory of the driver grow with rows? The peaks of a run with so many rows a day, and with ten times as many.

    .venv/bin/python benchmarks/memory.py [--items 20000] [--times 1,10] [--here]

The computation is on a standalone master with two workers, so that what the driver holds is told from what executors
compute with; `--here` measures Spark on this machine, where both share one heap. The heap is what is still in use after
garbage was collected, which is asked for twice a second; of Python it is the resident memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from figures import Watch
from growth import DAYS, peak_mib
from pyspark.sql import SparkSession
from restatements import governed, planned
from small_world import SILVER, World, opened, output

from backfill_assets_tests.support.clusters import standalone

MIB = 1 << 20
PAUSE_S = 0.5


@dataclass(kw_only=True)
class Peaks:
    """The highest of what was seen, in MiB."""

    python: int = 0
    heap: int = 0
    samples: int = 0


@contextmanager
def watched(spark: SparkSession) -> Iterator[Peaks]:
    """Watches the memory of this process and of Spark's driver while a block runs; needs Linux."""
    peaks, ended = Peaks(), Event()
    assert spark._jvm is not None
    java = spark._jvm.java.lang

    def look() -> None:
        while True:
            is_last = ended.wait(PAUSE_S)
            java.System.gc()
            in_use = java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
            peaks.heap, peaks.samples = max(peaks.heap, in_use // MIB), peaks.samples + 1
            if is_last:
                return

    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    looking = Thread(target=look)
    looking.start()
    try:
        yield peaks
    finally:
        ended.set()
        looking.join()
        peaks.python = peak_mib(os.getpid())


def measure(world: World, *, items: int, times: Sequence[int]) -> Iterator[tuple[int, Peaks]]:
    """The rows of a restatement and its peaks, for each multiple of the rows; every row of it differs."""
    for factor in times:
        rows = items * factor
        with world.home(f"memory-{factor}", days=DAYS, items=lambda _, rows=rows: rows) as ws:
            governed(ws, Watch(), planned(ws, SILVER, output(DAYS), "1.0.0"), "first")
            with watched(ws.spark()) as peaks:
                governed(ws, Watch(), planned(ws, SILVER, output(DAYS), "3.0.0"), "restatement")
        yield rows * DAYS, peaks


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000, help="rows of a day, once")
    parser.add_argument("--times", default="1,10", help="by what they are multiplied")
    parser.add_argument("--here", action="store_true", help="no cluster: driver and executor are one process")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="backfill-memory-"))
    try:
        with ExitStack() as stack:
            if not asked.here:
                os.environ.update(stack.enter_context(standalone(home, ())))
            world = stack.enter_context(opened(home / "made-up"))
            found = list(measure(world, items=asked.items, times=[*map(int, asked.times.split(","))]))
    finally:
        shutil.rmtree(home)
    print("| rows | Python, resident | heap in use after garbage is collected | samples |\n|---:|---:|---:|---:|")
    for rows, peaks in found:
        print(f"| {rows:,} | {peaks.python:,} MiB | {peaks.heap:,} MiB | {peaks.samples} |")


if __name__ == "__main__":
    main()
