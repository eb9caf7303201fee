"""Documents of gates on the usual: each measure over time, beside what was usual."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from backfill_assets.core.grouped import grouped
from backfill_assets.ledger.findings import GateResult, UsualPoint, Values
from backfill_assets.report.breakdown import Number, number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualNumber:
    """A measure of one partition."""

    partition: date  #: Its first day.
    value: Number  #: The measure; `NaN` where it is not a finite number.
    usual: Number | None  #: The usual value; null of accepted partitions before the run, and with little history.
    low: Number | None  #: The least that is not far from it, or null.
    high: Number | None  #: The most that is not far from it, or null.
    far: str  #: `low` or `high` where it is far from the usual, or was accepted although it was; else empty.
    compared: int  #: With how many accepted partitions it was compared.
    is_tested: bool  #: Whether it is a partition of the run; else it is one of those that are compared with.
    stays: bool  #: Whether the accepted rows that it would replace have the same measure.


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualSeries:
    """A measure over time: the accepted partitions that a run is compared with, and its own."""

    gate: str  #: The gate.
    measure: str  #: What is measured.
    by: Values  #: The dimensions of the group as text; empty for whole partitions.
    numbers: tuple[UsualNumber, ...]  #: In the order of partitions.

    @property
    def far(self) -> int:
        """The number of the run's partitions that are far from the usual."""
        return sum(number.is_tested and bool(number.far) for number in self.numbers)


def usual_series(points: Iterable[UsualPoint], results: Iterable[GateResult]) -> tuple[UsualSeries, ...]:
    """The recorded usual values, by gate and group, those with the most far partitions first.

    Args:
        results: What the gates found, for the names of measures.
    """
    measures = {result.gate: str(result.observed.get("measure", "")) for result in results}
    found = grouped(((point.gate, tuple(point.by.items())), point) for point in points)
    series = [
        UsualSeries(
            gate=gate,
            measure=measures.get(gate, ""),
            by=dict(by),
            numbers=tuple(sorted(map(_number, some), key=lambda number: number.partition)),
        )
        for (gate, by), some in found.items()
    ]
    return tuple(sorted(series, key=lambda each: -each.far))


def _number(point: UsualPoint) -> UsualNumber:
    usual, low, high = (
        None if text is None else number_of(Decimal(text)) for text in (point.usual, point.low, point.high)
    )
    return UsualNumber(
        partition=point.partition,
        value=number_of(Decimal(point.value)),
        usual=usual,
        low=low,
        high=high,
        far=point.far,
        compared=point.compared,
        is_tested=point.is_tested,
        stays=point.stays,
    )
