"""The usual: how an author declares that a measure of new partitions is held against the accepted ones before them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from backfill_assets.core.declaring import declared
from backfill_assets.domain.breakdown import DAYS_OF_A_WEEK, ROWS
from backfill_assets.domain.gates import Then, Usual
from backfill_assets.domain.sources import Lateness


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The past with which partitions are compared, in days or months. Written with `weeks(...)` or `months(...)`."""

    days: int = 0
    months: int = 0


@declared
def weeks(count: int) -> Past:
    """The weeks before a partition.

    Args:
        count: How many.
    """
    return Past(days=DAYS_OF_A_WEEK * count)


@declared
def months(count: int) -> Past:
    """The months before a partition.

    Args:
        count: How many.
    """
    return Past(months=count)


def rows() -> str:
    """The measure that every table has: how many rows there are."""
    return ROWS


@declared
def usual(
    measure: str,
    *,
    by: Iterable[str] = (),
    against: Past | Lateness = Past(days=8 * DAYS_OF_A_WEEK),
    same: Literal["weekday"] | None = "weekday",
    most: float = 4.0,
    then: Then = "comment",
    at_least: int = 0,
    fewest: int = 5,
    name: str = "",
) -> Usual:
    """The measure of each partition is about what it was in the accepted partitions before it.

    What is usual is the median of the last three of them. How far they usually are from that is taken from how far each
    was from those before it, and is never less than chance alone moves a count. Partitions that the run restates, and
    accepted ones that were far from the usual themselves, are not compared with.

    Args:
        measure: `rows()`, or the name of a measure of the table's breakdown.
        by: Dimensions of the breakdown by which it is compared; none for the whole partition.
        against: How far back: `weeks(8)`, `days(56)`, or `months(12)`, as a monthly table needs.
        same: "weekday" compares a day with the same days of the weeks before; None with all days. Of a monthly table
            None.
        most: How many times the usual distance a partition may be away from the usual value.
        then: What becomes of a run with a partition that is further away: "comment" asks the approver for a comment,
            also where a policy would publish it, "block" blocks it, and "warn" only shows it.
        at_least: Distances from the usual value below this amount do not count.
        fewest: With fewer accepted partitions than these to compare with, the gate passes, and says so.
        name: The name of the gate; by default `usual_` and the measure, and `by` with the dimensions.
    """
    back = against if isinstance(against, Past) else Past(days=against.days)
    return Usual(
        measure=measure,
        by=tuple(by),
        days=back.days,
        months=back.months,
        same=same,
        most=float(most),
        then=then,
        at_least=at_least,
        fewest=fewest,
        name=name,
    )
