"""Ceiling: the most that what is planned may be expected to cost, in core seconds or by a price per core hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.errors import Refused
from backfill_assets.next_steps import Option, step
from backfill_assets.planning.estimates import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What a requester allows.

    Attributes:
        most: Core seconds or, with a price, money.
        cores: How many cores compute at once.
        price: Of a core hour; None where the settings name none.
    """

    most: Decimal
    cores: int
    price: Decimal | None = None

    def cost(self, seconds: float) -> Decimal:
        """What so many seconds cost."""
        core_seconds = Decimal(str(seconds)) * self.cores
        return core_seconds if self.price is None else core_seconds * self.price / 3600

    def worded(self, cost: Decimal) -> str:
        """A cost in words."""
        return f"{cost:,.0f} core seconds" if self.price is None else f"{cost:,.2f} (at {self.price} per core hour)"


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
    ceiling = Ceiling(most=most, cores=cores, price=price)
    unknown = sorted(table for table, estimate in expected.items() if estimate.seconds is None)
    if unknown:
        raise Refused(
            f"no run of {unknown[0]} was ever staged, so whether it costs at most {ceiling.worded(ceiling.most)} is "
            f"not known.",
            next_step=step("leave ", Option("max-cost"), " out for its first run"),
            table=unknown[0],
        )
    cost = sum((ceiling.cost(estimate.seconds or 0) for estimate in expected.values()), Decimal(0))
    if cost > ceiling.most:
        raise Refused(
            f"staging is expected to cost {ceiling.worded(cost)}, from the latest runs, and at most "
            f"{ceiling.worded(ceiling.most)} are allowed.",
            next_step=step("plan fewer days, or allow more with ", Option("max-cost")),
        )
