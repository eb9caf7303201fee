"""Figures of a benchmark: seconds of two ways to do the same, measured in turns, and their ratio."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.session_settings import present_versions


@dataclass(kw_only=True)
class Watch:
    """Seconds by what was done, in the order of the measurements, and those of processors."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Measures a block."""
        began, before = time.perf_counter(), processor_seconds()
        yield
        took, used = time.perf_counter() - began, processor_seconds() - before
        self.seconds.setdefault(what, []).append(took)
        self.processor.setdefault(what, []).append(used)
        print(f"{took:8.2f} s {used:8.2f} s of processors  {what}", flush=True)


def processor_seconds() -> float:
    """What this process and those that it started, such as Java, have used of processors so far; on Linux."""
    used: dict[int, int] = {}
    started: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, of_process = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue  # It has ended since.
        fields = of_process.split()
        pid = int(stat.parent.name)
        started.setdefault(int(fields[1]), []).append(pid)
        # Of the process and of what it waited for, in user and in kernel mode.
        used[pid] = sum(map(int, fields[11:15]))
    ticks, family = 0, [os.getpid()]
    while family:
        pid = family.pop()
        ticks += used.get(pid, 0)
        family += started.get(pid, [])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the results.

    Attributes:
        name: Such as `B1`.
        what: What was measured.
        against: What it is divided by, which was measured in the same run, in turns with it; empty for plain seconds.
        seconds: Of what was measured.
        base: Of the other.
        goal: The greatest median that is aimed at: a ratio, or seconds where there is no other; None without a goal.
    """

    name: str
    what: str
    against: str = ""
    seconds: Sequence[float]
    base: Sequence[float] = ()
    goal: float | None = None

    @property
    def values(self) -> Sequence[float]:
        """The ratios of the pairs, or the seconds."""
        return [a / b for a, b in zip(self.seconds, self.base, strict=True)] if self.against else self.seconds

    @property
    def document(self) -> Mapping[str, Any]:
        """The figure as plain values."""
        return {
            "name": self.name,
            "what": self.what,
            "against": self.against or None,
            "unit": "ratio" if self.against else "seconds",
            "minimum": round(min(self.values), 3),
            "median": round(statistics.median(self.values), 3),
            "goal": self.goal,
            "seconds": [round(value, 3) for value in self.seconds],
            "base_seconds": [round(value, 3) for value in self.base],
        }


def ratio(name: str, watch: Watch, what: str, against: str, *, goal: float | None = None, leave_out: int = 0) -> Figure:
    """What a watch measured of two acts, as a figure; the first pairs can be left out, which warm up."""
    seconds, base = watch.seconds[what][leave_out:], watch.seconds[against][leave_out:]
    return Figure(name=name, what=what, against=against, seconds=seconds, base=base, goal=goal)


def processor_ratio(name: str, watch: Watch, what: str, against: str, *, leave_out: int = 0) -> Figure:
    """The same of processor seconds, which other work on the machine changes less."""
    seconds, base = watch.processor[what][leave_out:], watch.processor[against][leave_out:]
    return Figure(name=name, what=f"{what}: processors", against=against, seconds=seconds, base=base)


def in_turns(rounds: int, *acts: Callable[[], None]) -> None:
    """Does things one after the other, several times: what else the machine does hits all of them."""
    for _ in range(rounds):
        for act in acts:
            act()


def results(figures: Sequence[Figure], *, size: str, rounds: int, spark: Any) -> Mapping[str, Any]:
    """The results of a run, with the machine, the versions and the time."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": size,
        "rounds": rounds,
        "machine": {
            "cpus": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "architecture": platform.machine(),
            "load_at_the_end": [round(value, 1) for value in os.getloadavg()],
        },
        "versions": dict(present_versions(spark)),
        "figures": [figure.document for figure in figures],
    }


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Writes the results as JSON and as a table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(as_table(found), encoding="utf-8")


def as_table(found: Mapping[str, Any]) -> str:
    """The results as a Markdown page."""
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [
        "# Results of the benchmarks",
        "",
        f"Written by `make bench SIZE={found['size']}` with {found['rounds']} rounds at "
        f"{found['measured_at']}, on {machine['cpus']} CPUs ({machine['architecture']}) and {machine['memory_gib']} "
        f"GiB, with {versions}. The load averages were {', '.join(map(str, machine['load_at_the_end']))} at the end. "
        "Pairs are measured in turns, so the ratios say more than the seconds.",
        "",
        "| | measured | against | minimum | median | goal |",
        "|---|---|---|---:|---:|---:|",
    ]
    for each in found["figures"]:
        unit = "" if each["unit"] == "ratio" else " s"
        goal = "" if each["goal"] is None else f"{each['goal']:g}{unit}"
        lines.append(
            f"| {each['name']} | {each['what']} | {each['against'] or ''} | {each['minimum']:g}{unit} | "
            f"{each['median']:g}{unit} | {goal} |"
        )
    return "\n".join([*lines, ""])
