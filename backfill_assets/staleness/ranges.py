"""Stale ranges: which partitions of a table are out of date, and for which reasons."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.partitions import Grain, Partitions
from backfill_assets.planning.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRange:
    """Consecutive partitions that are stale for the same reasons.

    Attributes:
        grain: Whether a partition is a day or a month.
        partitions: Which ones.
        reasons: Those of the last run that these rows followed by.
    """

    grain: Grain
    partitions: tuple[date, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedReference:
    """A reference that has changed since a run was planned with it.

    Attributes:
        table: The table of the run.
        name: The reference.
        was: The version that the run was planned with.
        now: The present version; the same where it has other content under it.
        partitions: The partitions of the run that it can change.
    """

    table: str
    name: str
    was: str
    now: str
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """What is stale of a table.

    Attributes:
        table: The table.
        grain: Whether a partition is a day or a month.
        accepted: How many accepted partitions were examined.
        ranges: Which partitions are stale, and why.
        waiting: Partitions that were never built and cannot be built yet, because an input does not exist.
        waits_for: The input partitions that these read and that do not exist, by input.
        blocked: Stale partitions that cannot be rebuilt, because an input has no accepted version any more.
        kept: Partitions that differ from the present in nothing but references whose version a person chose, or in
            what an owner accepted. They are not stale.
        on_purpose: Stale partitions that were computed with such a reference: only a person decides with which one they
            are computed again.
    """

    table: str
    grain: Grain
    accepted: int
    ranges: tuple[StaleRange, ...]
    waiting: tuple[date, ...] = ()
    waits_for: tuple[TablePartitions, ...] = ()
    blocked: tuple[date, ...] = ()
    kept: tuple[StaleRange, ...] = ()
    on_purpose: tuple[date, ...] = ()

    @property
    def partitions(self) -> tuple[date, ...]:
        return tuple(partition for stale in self.ranges for partition in stale.partitions)

    @property
    def reasons(self) -> dict[date, tuple[Reason, ...]]:
        """Why each stale partition is."""
        return {partition: stale.reasons for stale in self.ranges for partition in stale.partitions}
