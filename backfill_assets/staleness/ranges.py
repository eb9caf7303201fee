"""Stale ranges: which partitions of a table are out of date, and for which reasons."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.manifest_parts import ReferenceSemantics
from backfill_assets.planning.partitions import DayRange, Grain


class Cause(StrEnum):
    """Why a partition is stale, the most pressing first."""

    CODE_CHANGED = "CODE_CHANGED"
    SESSION_CHANGED = "SESSION_CHANGED"
    VERSION_CHANGED = "VERSION_CHANGED"
    CONFIGURATION_CHANGED = "CONFIGURATION_CHANGED"
    PILOTED = "PILOTED"
    REFERENCE_CHANGED = "REFERENCE_CHANGED"
    REFERENCE_KEPT = "REFERENCE_KEPT"
    DIFFERENCE_ACCEPTED = "DIFFERENCE_ACCEPTED"
    INPUT_CHANGED = "INPUT_CHANGED"
    NEVER_BUILT = "NEVER_BUILT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a range of partitions is stale.

    Attributes:
        cause: What changed. CODE_CHANGED: the code, while the version is the same, an error to be confirmed;
            SESSION_CHANGED: the Spark settings that a later release fixes; PILOTED: the last run computed only some of
            the rows; REFERENCE_KEPT: a person chose the version of a reference; DIFFERENCE_ACCEPTED: an owner
            left the rows as they are, although a run found others.
        name: The input table, the reference, the version whose code changed, or the rows of a pilot; empty for the
            other causes.
        was: The version, digest or setting then.
        now: The same now.
        days: The input days that changed and that the range reads, or the days whose facts changed; None if the cause
            has no days, or any day may be affected.
        files: For a source table, the landed files that the range was built without.
        semantics: Of a reference whose version was chosen: which truth it gives.
        run_id: The run for which it was chosen, the pilot, or the run whose difference was accepted.
    """

    cause: Cause
    name: str = ""
    was: str = ""
    now: str = ""
    days: tuple[DayRange, ...] | None = None
    files: tuple[str, ...] = ()
    semantics: ReferenceSemantics | None = None
    run_id: str = ""


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
