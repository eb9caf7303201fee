"""Expire: accepted snapshots expire that their table does not keep. Nothing is computed, and readers see no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, ClassVar

from backfill_assets.calendar.partitions import Grain, days_of
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.next_steps import NAME, WHY, Command, Invocation, do
from backfill_assets.planning.kinds.change import Change, T

EXPIRE = "keep"
"""The safeguard that permits snapshots to expire."""

MONTHS = {"month": 1, "quarter": 3, "year": 12}
"""The calendar periods of which the last snapshot stays, in months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """A rule on which accepted snapshots of a table that keeps state stay; the others expire.

    A snapshot that has expired does not become one that stays when newer ones are accepted.

    Args:
        days: Snapshots that end at most so many days before the newest one stay.
        then: Of earlier ones the last accepted one of each calendar `month`, `quarter` or `year` stays.

    Raises:
        InvalidDeclaration: No number of days from 1 on, or another period.
    """

    days: int
    then: str = "month"

    def __post_init__(self) -> None:
        is_count = isinstance(self.days, int) and not isinstance(self.days, bool) and self.days >= 1
        if not is_count or not isinstance(self.then, str) or self.then not in MONTHS:
            raise InvalidDeclaration(
                f"snapshots are kept for a number of days from 1 on, and then one of each {', '.join(MONTHS)}: "
                f"RetentionRule(days={self.days!r:.60}, then={self.then!r:.60})."
            )

    @property
    def document(self) -> Mapping[str, int | str]:
        """The rule as manifests keep it."""
        return {"days": self.days, "then": self.then}

    def expired(self, grain: Grain, accepted: Iterable[date]) -> tuple[date, ...]:
        """Those of all accepted snapshots of a table that expire, in order."""
        ends = {partition: days_of(grain, partition).last for partition in sorted(accepted)}
        if not ends:
            return ()
        since = max(ends.values()) - timedelta(days=self.days)
        last_of = {self._period(end): partition for partition, end in ends.items()}
        return tuple(p for p, end in ends.items() if end < since and last_of[self._period(end)] != p)

    def _period(self, day: date) -> int:
        return (day.year * 12 + day.month - 1) // MONTHS[self.then]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(Change):
    """Snapshots expire.

    The partitions of such a run are the snapshots that expire. It pins every accepted snapshot of the table: what
    stays, and what goes.
    """

    kind: ClassVar[str] = "EXPIRE"

    keep: RetentionRule  #: Which snapshots the table keeps.

    @property
    def document(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "keep": dict(self.keep.document)}

    @property
    def permits(self) -> AbstractSet[str]:
        """What the table declares about the snapshots that it keeps."""
        return frozenset({EXPIRE})

    def computed(self, partitions: tuple[date, ...]) -> tuple[date, ...]:
        """None: it removes rows."""
        return ()

    def planned_again(self, table: str, grain: Grain, partitions: Sequence[date]) -> Sequence[Invocation]:
        """The snapshots that its table does not keep by then: no person names them."""
        return [do(Command.PLAN_EXPIRE, table, by=NAME, reason=WHY)]

    def gates(self, declared: tuple[T, ...], own: Mapping[str, T]) -> tuple[T, ...]:
        """Its own alone: it has no rows that others could measure."""
        return own["compared_with_accepted"], own["only_expired"]
