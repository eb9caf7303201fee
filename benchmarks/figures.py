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
from importlib.metadata import version
from pathlib import Path
from typing import Any


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


def peak_mib(pid: int) -> int:
    """The peak resident memory of a process since it began its program; read from /proc, so on Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the results."""

    name: str  #: Such as `B1`.
    what: str  #: What was measured.
    #: What it is divided by, which was measured in the same run, in turns with it; empty for plain values.
    against: str = ""
    measured: Sequence[float]  #: Of what was measured, one for each round.
    base: Sequence[float] = ()  #: Of the other.
    #: The greatest median that is aimed at, or the least one where it is `at_least`; None without a goal.
    goal: float | None = None
    at_least: bool = False  #: Whether more is better.
    unit: str = "s"  #: Of plain values.

    @property
    def values(self) -> Sequence[float]:
        """The ratios of the pairs, or the plain values."""
        return [a / b for a, b in zip(self.measured, self.base, strict=True)] if self.against else self.measured

    @property
    def document(self) -> Mapping[str, Any]:
        """The figure as plain values."""
        return {
            "name": self.name,
            "what": self.what,
            "against": self.against or None,
            "unit": "" if self.against else self.unit,
            "minimum": round(min(self.values), 6),
            "median": round(statistics.median(self.values), 6),
            "maximum": round(max(self.values), 6),
            "goal": self.goal,
            "at_least": self.at_least,
            "measured": [round(value, 6) for value in self.measured],
            "base": [round(value, 6) for value in self.base],
        }


def ratio(name: str, watch: Watch, what: str, against: str, *, goal: float | None = None, leave_out: int = 0) -> Figure:
    """What a watch measured of two acts, as a figure; the first pairs can be left out, which warm up."""
    measured, base = watch.seconds[what][leave_out:], watch.seconds[against][leave_out:]
    return Figure(name=name, what=what, against=against, measured=measured, base=base, goal=goal)


def processor_ratio(
    name: str, watch: Watch, what: str, against: str, *, goal: float | None = None, leave_out: int = 0
) -> Figure:
    """The same of processor seconds, which other work on the machine changes less."""
    measured, base = watch.processor[what][leave_out:], watch.processor[against][leave_out:]
    return Figure(name=name, what=f"{what}: processors", against=against, measured=measured, base=base, goal=goal)


def in_turns(rounds: int, *acts: Callable[[], None]) -> None:
    """Does things one after the other, several times: what else the machine does hits all of them."""
    for _ in range(rounds):
        for act in acts:
            act()


def results(figures: Sequence[Figure], *, size: str, rounds: int) -> Mapping[str, Any]:
    """What one benchmark has found, with the machine, the versions and the time."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "size": size,
        "rounds": rounds,
        "machine": {
            "cpus": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "architecture": platform.machine(),
            "load_at_the_end": [round(value, 1) for value in os.getloadavg()],
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("backfill-assets", "pyspark")},
        },
        "figures": [figure.document for figure in figures],
    }


def kept(folder: Path) -> dict[str, Any]:
    """What was found before, by benchmark."""
    path = folder / "results.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write(found: Mapping[str, Mapping[str, Any]], folder: Path, titles: Mapping[str, str]) -> None:
    """Writes the newest results of every benchmark as JSON and as a page."""
    folder.mkdir(parents=True, exist_ok=True)
    in_order = {name: found[name] for name in titles if name in found}
    (folder / "results.json").write_text(json.dumps(in_order, indent=2) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(as_page(in_order, titles), encoding="utf-8")


def as_page(found: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    """The results as a Markdown page: what has a goal, then every benchmark."""
    lines = [
        "# Results of the benchmarks",
        "",
        "Written by `make bench`, never by hand. A ratio is of pairs that were measured in turns in one run, so it "
        "says more than seconds do, and processor seconds say more than those of a clock where other work runs beside. "
        "Why goals are not reached is in [PROFILES.md](PROFILES.md).",
        "",
        "| | measured | against | goal | median | |",
        "|---|---|---|---:|---:|---|",
    ]
    for result in found.values():
        for each in result["figures"]:
            if each["goal"] is not None:
                lines.append(
                    f"| {each['name']} | {each['what']} | {each['against'] or ''} | "
                    f"{'at least ' if each['at_least'] else ''}{_value(each, 'goal')} | {_value(each, 'median')} | "
                    f"{'reached' if _is_reached(each) else '**not reached**'} |"
                )
    for name, result in found.items():
        lines += ["", f"## {name}: {titles[name]}", "", _circumstances(result), "", *as_table(result["figures"])]
    return "\n".join([*lines, ""])


def as_table(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Figures as a table of Markdown; the parts of a run, a line each run, below it."""
    parts: dict[str, list[str]] = {}
    lines = ["| measured | against | minimum | median | maximum |", "|---|---|---:|---:|---:|"]
    for each in figures:
        if each["name"] == "B6":
            run, _, part = each["what"].partition(": ")
            parts.setdefault(run, []).append(f"{part} {each['median']:.1%}")
            continue
        values = " | ".join(_value(each, name) for name in ("minimum", "median", "maximum"))
        lines.append(f"| {each['what']} | {each['against'] or ''} | {values} |")
    for run, shares in parts.items():
        lines += ["", f"Where the time of *{run}* goes (B6): {', '.join(shares)}."]
    return lines


def _value(each: Mapping[str, Any], name: str) -> str:
    unit = f" {each['unit']}" if each["unit"] else ""
    value = each[name]
    return f"{value:,.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}"


def _is_reached(each: Mapping[str, Any]) -> bool:
    return bool(each["median"] >= each["goal"] if each["at_least"] else each["median"] <= each["goal"])


def _circumstances(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    versions = ", ".join(f"{name} {each}" for name, each in result["versions"].items())
    rounds = f"{result['rounds']} round{'s' if result['rounds'] > 1 else ''}"
    return (
        f"`SIZE={result['size']}`, {rounds}, {result['measured_at']}; {machine['cpus']} CPUs "
        f"({machine['architecture']}), {machine['memory_gib']} GiB; {versions}; load averages at the end "
        f"{', '.join(map(str, machine['load_at_the_end']))}."
    )
