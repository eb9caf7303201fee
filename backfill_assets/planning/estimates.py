"""Estimates of how much a run writes, how long it takes and what it costs, from accepted rows and earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from statistics import median

from backfill_assets.planning.errors import CostUnknown, TooCostly


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast earlier runs of a table were staged.

    Attributes:
        runs: How many runs it is taken from.
        rows: Rows that they wrote.
        partitions: How many partitions these belong to.
        seconds: How long their chunks took, waiting between chunks left out.
        fastest, slowest: Seconds per row of the run that took the least and the most; 0 where no run wrote a row.
    """

    runs: int
    partitions: int
    rows: int
    seconds: float
    fastest: float = 0.0
    slowest: float = 0.0


class Basis(StrEnum):
    """Where the numbers of an estimate come from: rows that readers see, earlier runs, or rows of the inputs."""

    ACCEPTED_ROWS = "ACCEPTED_ROWS"
    EARLIER_RUNS = "EARLIER_RUNS"
    INPUT_ROWS = "INPUT_ROWS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run is expected to write.

    Attributes:
        rows: By output partition.
        size_bytes: Of all data files; None when no rows of the table are known.
        seconds: To stage it; None when there is no earlier run.
        between: The seconds that it would take at the pace of the fastest and of the slowest of these runs; None where
            there are not two of them, so that nothing is known of how sure `seconds` is.
        based_on: Where the numbers come from.
        runs: Of how many earlier runs the pace is known.
    """

    rows: Mapping[date, int]
    size_bytes: int | None
    seconds: float | None
    based_on: Basis
    runs: int = 0
    between: tuple[float, float] | None = None

    @property
    def total_rows(self) -> int:
        """Of all output partitions."""
        return sum(self.rows.values())


def estimate(
    partitions: Sequence[date],
    accepted_rows: Mapping[date, int],
    *,
    accepted_bytes: int,
    own_rows: Mapping[date, int],
    pace: Pace | None,
) -> Estimate:
    """What a run over these partitions is expected to write.

    Args:
        accepted_rows: Rows that readers see now, by partition; partitions that were never built are absent.
        accepted_bytes: The size of those rows' files.
        own_rows: Rows that the inputs have on the days of each output partition, without its window, because windows of
            neighbouring partitions overlap.
        pace: How fast earlier runs were; None when there was none.
    """
    usual: Mapping[date, int]
    if accepted_rows:
        usual = dict.fromkeys(partitions, int(median(accepted_rows.values())))
        based_on = Basis.ACCEPTED_ROWS
    elif pace is not None and pace.partitions:
        usual = dict.fromkeys(partitions, pace.rows // pace.partitions)
        based_on = Basis.EARLIER_RUNS
    else:
        usual = own_rows
        based_on = Basis.INPUT_ROWS
    rows = {partition: accepted_rows.get(partition, usual[partition]) for partition in partitions}
    total, known = sum(rows.values()), sum(accepted_rows.values())
    seconds = between = None
    if pace is not None and pace.rows:
        seconds = total * pace.seconds / pace.rows
        between = (total * pace.fastest, total * pace.slowest) if pace.runs > 1 and pace.slowest else None
    return Estimate(
        rows=rows,
        size_bytes=total * accepted_bytes // known if known else None,
        seconds=seconds,
        between=between,
        based_on=based_on,
        runs=pace.runs if pace else 0,
    )


def require_affordable(
    expected: Mapping[str, Estimate], most: Decimal | None, *, cores: int, price: Decimal | None
) -> None:
    """Refuses what is expected to cost more than the requester allows, and what nothing is known of.

    Args:
        expected: What is planned, by table.
        most: What the requester allows; None for any cost.
        cores: How many cores compute at once.
        price: Of a core hour, or None.

    Raises:
        Refused: Nothing has been planned.
    """
    if most is None:
        return
    unknown = sorted(table for table, estimate in expected.items() if estimate.seconds is None)
    if unknown:
        raise CostUnknown(table=unknown[0], most=_worded(most, price))
    cost = sum((Decimal(str(estimate.seconds or 0)) * cores for estimate in expected.values()), Decimal(0))
    if price is not None:
        cost = cost * price / 3600
    if cost > most:
        raise TooCostly(cost=_worded(cost, price), most=_worded(most, price))


def _worded(cost: Decimal, price: Decimal | None) -> str:
    return f"{cost:,.0f} core seconds" if price is None else f"{cost:,.2f} (at {price} per core hour)"
