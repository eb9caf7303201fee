"""Tariff: what computing costs, in core seconds or in money, and the processor time that it took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

# Tariff: what computing costs, in core seconds or in money.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """An actual or expected cost."""

    core_seconds: float  #: Seconds of all cores together.
    amount: float | None  #: What these cost in money; null where a core hour has no price.
    currency: str  #: Of the amount; may be empty.


def sum_of(costs: Sequence[Cost]) -> Cost:
    """At least one cost, all by the same tariff, added up."""
    amounts = [cost.amount for cost in costs if cost.amount is not None]
    return Cost(
        core_seconds=round(sum(cost.core_seconds for cost in costs), 1),
        amount=round(sum(amounts), 6) if amounts else None,
        currency=costs[0].currency,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The price of computing. Costs are core seconds of processor time, or money where a core hour has a price."""

    cores: int  #: How many cores are set aside where processor time is not measured; see `core.tariff`.
    price: Decimal | None = None  #: Of a core hour; None to count core seconds.
    currency: str = ""  #: Of the price, such as `EUR`; may be empty.

    def cost(self, seconds: float) -> Decimal:
        """The cost of core seconds."""
        core_seconds = Decimal(str(seconds))
        return core_seconds if self.price is None else core_seconds * self.price / 3600

    def seconds(self, cost: Decimal) -> float | None:
        """The core seconds that a cost pays for; None where they are free."""
        price = Decimal(1) if self.price is None else self.price / 3600
        return float(cost / price) if price else None

    def spent(self, seconds: float) -> Cost:
        """The cost of core seconds, in both units."""
        amount = None if self.price is None else round(float(self.cost(seconds)), 6)
        return Cost(core_seconds=round(float(seconds), 1), amount=amount, currency=self.currency)

    def text(self, cost: Decimal, *, unlike: Decimal | None = None) -> str:
        """A cost as people read it.

        Args:
            unlike: A cost that is named beside it, and that is not written with the same digits.
        """
        digits = digits_of(cost, 0 if self.price is None else 2)
        while unlike is not None and unlike != cost and f"{cost:.{digits}f}" == f"{unlike:.{digits}f}":
            digits += 1
        if self.price is None:
            return core_seconds(cost, digits=digits)
        of = f" {self.currency}" if self.currency else ""
        return f"{cost:,.{digits}f}{of} (at {self.price}{of} per core hour)"


def core_seconds(cost: Decimal | float, *, digits: int = 0) -> str:
    """Such as `3,600 core seconds`."""
    number = f"{cost:,.{digits}f}"
    return f"{number} core second{'' if number == '1' else 's'}"


def digits_of(cost: Decimal, least: int) -> int:
    """The number of decimals of a cost: two significant ones, where it is less than 1."""
    return least if not cost or abs(cost) >= 1 else max(least, 1 - cost.adjusted())


ONE_CORE = Tariff(cores=1)


# Processor time: what computing costs, by the clocks of the processes that compute.
#
# Of this process and its children, among which are Spark's JVM and its Python processes, and of the Spark server
# of the home with its own: what others do on the machine is no part of it, and neither is waiting. Where Spark
# computes on other machines, or the system does not say, the cores that are set aside for it are paid for as long
# as it takes.

_PROCESSES = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

_PARENT, _FIRST_TIME, _AFTER_TIMES = 1, 11, 15
"""Their places in `/proc/PID/stat`, behind the name of the program: the parent, and the times of a process and of its
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
