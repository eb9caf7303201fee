"""B5: how the time and the memory of a run grow with its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, Watch, peak_mib
from restatements import governed, planned
from small_world import SILVER, World, output

DAYS = 10


def measure(world: World, *, items: int, times: Sequence[int]) -> Sequence[Figure]:
    """Seconds per million rows for each multiple of the rows, of a run that is not the first of its session."""
    figures: list[Figure] = []
    for factor in times:
        rows = items * factor
        watch = Watch()
        with world.home(f"growth-{factor}", days=DAYS, items=lambda _, rows=rows: rows) as ws:
            governed(ws, Watch(), planned(ws, SILVER, output(DAYS), "1.0.0"), "first")
            governed(ws, watch, planned(ws, SILVER, output(DAYS), "3.0.0"), "restatement")
        million = rows * DAYS / 1_000_000
        seconds = [taken / million for taken in watch.seconds["restatement"]]
        memory = ", ".join(f"{name} {peak:,} MiB" for name, peak in peaks().items())
        figures.append(
            Figure(name="B5", what=f"per million rows, of {rows * DAYS:,} (peak so far: {memory})", measured=seconds)
        )
    return figures


def peaks() -> dict[str, int]:
    """The peak resident memory in MiB of this process and of Spark's JVM so far; read from /proc, so on Linux only."""
    found = {"python": peak_mib(os.getpid())}
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text(encoding="utf-8", errors="replace")
        if "Name:\tjava" in text and f"PPid:\t{os.getpid()}\n" in text:
            found["jvm"] = peak_mib(int(status.parent.name))
    return found
