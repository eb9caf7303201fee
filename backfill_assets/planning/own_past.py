"""Own past: from which earlier snapshot of its own table a run computes, and what it need not compute again.

A partition of a table that keeps state is a snapshot. It rests on every input day before its end, and can be computed
from any earlier snapshot that is up to date and the input days after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

from backfill_assets.calendar.partitions import Grain, days_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedReference


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHistory:
    """The accepted snapshots of a table, as far as they are known."""

    stale: Mapping[date, str]  #: The reasons why snapshots are not up to date, by partition.
    #: Accepted snapshots that are stale only because earlier ones may be, with the accepted one before each: from an
    #: equal one they are the same.
    settled: Mapping[date, date] = field(default_factory=dict)
    #: The reasons why snapshots that have expired are not there, by partition.
    expired: Mapping[date, str] = field(default_factory=dict)
    code_digest: str = ""  #: With which code and references this is so. For a run with others, none is valid.
    #: With which code and references this is so. For a run with others, none is valid.
    references: tuple[PinnedReference, ...] = ()

    def for_run(
        self, code_digest: str, references: tuple[PinnedReference, ...], accepted: Iterable[date]
    ) -> SnapshotHistory:
        """The part that a run with this code and these references can use."""
        if (code_digest, references) == (self.code_digest, self.references):
            return self
        stale = dict.fromkeys(accepted, "computed with another release or other references")
        return SnapshotHistory(stale=stale, expired=self.expired)


NO_PAST = SnapshotHistory(stale={})


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """Where a run over snapshots begins."""

    #: The accepted snapshots that it pins: the one that it begins with, and before it, where there is one, the one from
    #: which that is proven. Empty for a cold start from the first day.
    snapshots: tuple[date, ...] = ()
    #: Snapshots between the one it begins with and its first partition, accepted before or now, with the reasons.
    skipped: tuple[tuple[date, str], ...] = ()


def begins_with(first: date, accepted: Sequence[date], past: SnapshotHistory) -> StartingPoint:
    """The newest valid snapshot before a partition. A snapshot after a stale one is not trusted either.

    Args:
        past: What is known of them.
    """
    before = sorted(partition for partition in accepted if partition < first)
    broken = min((partition for partition in before if partition in past.stale), default=first)
    valid = [partition for partition in before if partition < broken]
    reason = past.stale.get(broken, "")
    skipped = {p: past.stale.get(p, f"{broken} before it is stale: {reason}") for p in before if p >= broken}
    since = valid[-1] if valid else date.min
    skipped |= {p: why for p, why in past.expired.items() if since < p < first}
    return StartingPoint(snapshots=tuple(valid[-2:]), skipped=tuple(sorted(skipped.items())))


def starts_from(manifest: Manifest) -> date | None:
    """The accepted snapshot that a run begins with; None for a cold start."""
    return manifest.base.partitions[-1].partition if manifest.base and manifest.base.partitions else None


def end_of(grain: Grain, snapshot: date) -> date:
    """The first day that a snapshot does not cover."""
    return days_of(grain, snapshot).end


def settled_in(
    partitions: Sequence[date], past: SnapshotHistory, grain: Grain, inputs: Iterable[PinnedInput]
) -> Sequence[tuple[date, date]]:
    """The settled snapshots of a run, each with the one before it.

    A snapshot is none where the run leaves the one before it out: it is then computed from an earlier one, and what has
    happened since that may have changed. Nor where a run of the same set computes input days since the one before it.
    """
    staged = {pin.partition for pinned in inputs for pin in pinned.partitions if pin.from_run is not None}
    return [
        (before, each)
        for before, each in pairwise(partitions)
        if past.settled.get(each) == before
        and not any(end_of(grain, before) <= day < end_of(grain, each) for day in staged)
    ]
