"""Dagster partitions of a table, and the partition mapping of its windows.

Both are read off the planner's view, so that Dagster's lineage cannot disagree with what a run reads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TypedDict

import dagster as dg

from backfill_assets.calendar.partitions import ONE_DAY, DayRange, Grain, days_of, partition_of, partitions_over
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.planning.graph import TableInput
from backfill_assets.workspace import Workspace

KEY_FORMAT = "%Y-%m-%d"


class _End(TypedDict, total=False):
    end_offset: int
    end_date: str


CAPTURED = "captured"
"""The group of the assets of captures, and the beginning of their keys."""


ENDED_AFTER = timedelta(days=62)
"""Data that is older ended; what is younger goes on, although nothing may have landed lately."""

MOST_BEYOND = timedelta(days=5 * 366)
"""How far after today pages show partitions of what is planned."""

GAPS_AHEAD = timedelta(days=2 * 365)
"""How long a code location knows after it was loaded which days have no snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDays:
    """The days whose partitions pages of Dagster show."""

    first: date
    last: date | None = None  #: The last one; None for today, as it comes, and the days beyond it.
    beyond: timedelta = timedelta(0)  #: For how many days after today there are events.
    asked_on: date | None = None  #: The day on which this was asked; without it, the first one.

    def with_all(self, days: DayRange | None) -> OfferedDays:
        """These days together with those of a run, which may be none that pages show."""
        if days is None:
            return self
        last = None if self.last is None else max(self.last, days.last)
        beyond = self.beyond if last or self.asked_on is None else max(self.beyond, days.last - self.asked_on)
        return replace(self, first=min(self.first, days.start), last=last, beyond=beyond)


def offered_days(workspace: Workspace) -> OfferedDays:
    """From the month in which data starts to the one in which it ended, so that pages show no years without any.

    What a run may compute begins with the setting BACKFILL_FIRST_DAY, which is also the first day where nothing has
    landed, or no ledger can be asked, and it ends today, or with the last event that is ahead of today. A month, so
    that a late event seldom moves it. Data that came later than this was asked is shown when the code location is
    loaded again.
    """
    first_day, today = workspace.graph.first_day, workspace.clock().date()
    # The next date begins somewhere before the day of UTC does.
    begun = ONE_DAY if any(source.has_dates for source in workspace.domain.sources) else timedelta(0)
    nothing_known = OfferedDays(first=first_day, asked_on=today, beyond=begun)
    kind, _, file = workspace.settings.ledger_url.partition(":///")
    if kind == "sqlite" and not Path(file).exists():
        return nothing_known
    try:
        with workspace.ledger.read() as tx:
            known = [day for ends in (tx.imports.event_dates(), tx.versions.partitions_ever()) if ends for day in ends]
    except BackfillError:
        return nothing_known
    if not known:
        return nothing_known
    has_ended = max(known) < today - ENDED_AFTER
    last = days_of(Grain.MONTHLY, partition_of(Grain.MONTHLY, max(known))).last if has_ended else None
    beyond = min(MOST_BEYOND, max(begun, max(known) - today))
    return replace(nothing_known, first=max(first_day, min(known).replace(day=1)), last=last, beyond=beyond)


def table_partitions(table: Table, days: OfferedDays) -> dg.TimeWindowPartitionsDefinition:
    """Every partition of a table on these days; of one with a snapshot every few days, no day between two."""
    stretches = table.stretches if isinstance(table, DerivedTable) else None
    if stretches is None:
        return partitions_definition(table.partition.grain, days)
    until = max(days.last or days.first, (days.asked_on or days.first) + GAPS_AHEAD)
    every = DayRange.inclusive(days.first, until)
    between = set(every).difference(stretches.ends(every))
    return partitions_definition(Grain.DAILY, days, but=sorted(between))


def partitions_definition(
    grain: Grain, days: OfferedDays, *, but: Iterable[date] = ()
) -> dg.TimeWindowPartitionsDefinition:
    """Every partition of the days, named by the first day it covers.

    Args:
        but: Days that are none.
    """
    match grain:
        case Grain.DAILY:
            return dg.DailyPartitionsDefinition(
                start_date=days.first.isoformat(),
                timezone="UTC",
                fmt=KEY_FORMAT,
                exclusions=[datetime.combine(day, time(), tzinfo=UTC) for day in but] or None,
                **_end_of(grain, days),
            )
        case Grain.MONTHLY:
            # Dagster begins with the first whole month; ours is the one that the first day falls into.
            first = days.first.replace(day=1)
            return dg.MonthlyPartitionsDefinition(
                start_date=first.isoformat(), timezone="UTC", fmt=KEY_FORMAT, **_end_of(grain, days)
            )


def _end_of(grain: Grain, days: OfferedDays) -> _End:
    """Where partitions end, for Dagster: behind the one of a day, or with the one of today or as far beyond it."""
    if days.last is None:
        today = days.asked_on or days.first
        return {"end_offset": len(partitions_over(grain, DayRange.inclusive(today, today + days.beyond)))}
    return {"end_date": days_of(grain, partition_of(grain, days.last)).end.isoformat()}


def window_mapping(*edges: TableInput) -> dg.TimeWindowPartitionMapping:
    """From the partitions of a derived table to those of one table that it reads: its window.

    Days that an input cannot have are left out here. The planner decides whether they are missing, and refuses.

    Args:
        edges: The inputs that this table is, more than one where it is read by several arguments. Every window holds
            the partition itself, so that the longest on either side is all of them together.
    """
    back, ahead = zip(*(edge.window.counts for edge in edges), strict=True)
    with relied_upon():
        return dg.TimeWindowPartitionMapping(
            start_offset=-max(back),
            end_offset=max(ahead),
            allow_nonexistent_upstream_partitions=True,
        )


def published_key(table: Table) -> dg.AssetKey:
    """The asset that readers know: the table's name, split at the dot."""
    return dg.AssetKey(table.name.split("."))


def captured_key(source: SourceTable) -> dg.AssetKey:
    """The asset of a source's captures."""
    return dg.AssetKey([CAPTURED, source.short_name])


def key_of(partition: date) -> str:
    """The Dagster partition key of a partition."""
    return partition.isoformat()


@contextmanager
def relied_upon() -> Iterator[None]:
    """Definitions made inside do not warn about the preview and beta features of Dagster that this package uses.

    - `BackfillPolicy.single_run()`: one run over a range of partitions (beta).
    - `AssetCheckSpec(partitions_def=...)`: a check status per partition (preview).
    - `TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)`: windows at the edges of history (beta).

    Tests hold Dagster to each of them, so its warnings would only hide others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
