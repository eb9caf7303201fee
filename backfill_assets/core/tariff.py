"""Tariff: what computing costs, in core seconds or in money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal


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

    cores: int  #: How many cores are set aside where processor time is not measured; see `core.processor_time`.
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
