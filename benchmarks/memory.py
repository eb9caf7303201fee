"""B5, of the driver: whether its memory grows with rows.

The computation is on a standalone master with two workers, so that what the driver holds is told from what executors
compute with. The heap is what is still in use after
garbage was collected, which is asked for twice a second; of Python it is the resident memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from figures import Figure, Watch, peak_mib
from growth import DAYS
from pyspark.sql import SparkSession
from restatements import governed, planned
from small_world import SILVER, opened, output

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


def measure(folder: Path, *, items: int, times: Sequence[int]) -> Sequence[Figure]:
    """The peaks of a restatement of which every row differs, for each multiple of its rows, against the first."""
    found: dict[int, Peaks] = {}
    with standalone(folder, ()) as environment, _set(environment), opened(folder / "made-up") as world:
        for factor in times:
            rows = items * factor
            with world.home(f"memory-{factor}", days=DAYS, items=lambda _, rows=rows: rows) as ws:
                governed(ws, Watch(), planned(ws, SILVER, output(DAYS), "1.0.0"), "first")
                with watched(ws.spark()) as peaks:
                    governed(ws, Watch(), planned(ws, SILVER, output(DAYS), "3.0.0"), "restatement")
            found[rows * DAYS] = peaks
    (first, base), *_ = found.items()
    figures: list[Figure] = []
    for rows, peaks in found.items():
        for name, value, of_first in (
            ("Python's memory", peaks.python, base.python),
            ("Java's heap in use after garbage was collected", peaks.heap, base.heap),
        ):
            what = f"driver, {rows:,} rows: {name}"
            figures.append(Figure(name="B5", what=what, measured=[value], unit="MiB"))
            if rows != first:
                against = f"{first:,} rows"
                figures.append(
                    Figure(name="B5", what=what, against=against, measured=[value], base=[of_first], goal=1.3)
                )
    return figures


@contextmanager
def _set(environment: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
