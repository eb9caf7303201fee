"""Processor time: what computing costs, by the clocks of the processes that compute.

Of this process and its children, among which are Spark's JVM and its Python processes, and of the Spark server of the
home with its own: what others do on the machine is no part of it, and neither is waiting. Where Spark computes on other
machines, or the system does not say, the cores that are set aside for it are paid for as long as it takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PROCESSES = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

_PARENT, _FIRST_TIME, _AFTER_TIMES = 1, 11, 15
"""Where `/proc/PID/stat` has them, behind the name of the program: the parent, and the times of a process and of its
children that have ended, each for itself and in the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorClock:
    """The time that processors have spent since it was made."""

    roots: tuple[int, ...]  #: Processes that are measured with all below them; none where others compute.
    cores: int  #: How many cores are set aside, where the time is not measured.
    _began_s: float = field(init=False)
    _spent_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_began_s", time.monotonic())
        object.__setattr__(self, "_spent_s", processor_seconds(self.roots))

    def core_seconds(self) -> float:
        """The processor time so far, in seconds of one core."""
        now = processor_seconds(self.roots)
        if now is None or self._spent_s is None:
            return (time.monotonic() - self._began_s) * self.cores
        # A process that has left the tree takes its time along.
        return max(0.0, now - self._spent_s)


def processor_seconds(roots: Iterable[int]) -> float | None:
    """The processor time of processes and all below them, also of those that have ended; None where it is not known."""
    found = {pid: stat for pid, stat in _stats().items() if len(stat) >= _AFTER_TIMES}
    waiting = [pid for pid in roots if pid in found]
    if not waiting:
        return None
    below: dict[int, list[int]] = {}
    for pid, stat in found.items():
        below.setdefault(stat[_PARENT], []).append(pid)
    measured: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid not in measured:
            measured.add(pid)
            waiting += below.get(pid, ())
    return sum(sum(found[pid][_FIRST_TIME:_AFTER_TIMES]) for pid in measured) / _TICKS_A_SECOND


def _stats() -> Mapping[int, list[int]]:
    """The system's numbers of every process; its state, a letter, is 0."""
    found: dict[int, list[int]] = {}
    with suppress(OSError):
        for name in os.listdir(_PROCESSES):  # noqa: PTH208 - every name is a number, and there are hundreds
            if not name.isdigit():
                continue
            # One that ends meanwhile is measured by its parent.
            with suppress(OSError, ValueError):
                text = (_PROCESSES / name / "stat").read_text(encoding="utf-8", errors="replace")
                state, *numbers = text.rpartition(")")[2].split()[:_AFTER_TIMES]
                del state
                found[int(name)] = [0, *map(int, numbers)]
    return found
