"""Lateness: how late events of a source may come for a policy alone to restate what was computed without them."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.errors import InvalidDeclaration


@dataclass(frozen=True, slots=True)
class Lateness:
    """A number of days between the day of an event and the day on which it lands."""

    days: int


def days(count: int) -> Lateness:
    """A lateness of some days; none is the day of the events.

    Raises:
        InvalidDeclaration: It is not a number of days.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidDeclaration(f"days({count!r:.60}) is no lateness: write a number of days, such as days(3).")
    return Lateness(count)
