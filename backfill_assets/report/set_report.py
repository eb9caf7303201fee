"""Report of a set: its totals by table first, then the report of each of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from backfill_assets.ledger.states import SetState
from backfill_assets.planning.partitions import Partitions
from backfill_assets.report.documents import INLINE
from backfill_assets.report.measured import MovesOfSome, total_moves
from backfill_assets.report.rejected import RejectedRecords, rejected_behind
from backfill_assets.report.report import Level, RunReport, run_report
from backfill_assets.report.sets import SetDocument, set_document
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTotals:
    """What the runs of a set would do to one table.

    Attributes:
        table: The table.
        restated: Its partitions that had accepted rows, together; null where there are none, or before the gates.
        new: Those that had none, or null.
    """

    table: str
    restated: MovesOfSome | None
    new: MovesOfSome | None

    @property
    def all(self) -> MovesOfSome | None:
        """Both together; None where there are not both."""
        return _together((self.restated, self.new)) if self.restated and self.new else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """A set, and the report of each of its runs.

    Attributes:
        set: The set.
        level: How it should be taken: the worst of its runs, and BAD when it was rolled back or cancelled.
        tables: What it would do, table by table.
        rejected: What was rejected of the landed files behind the source days that its runs build or read.
        reports: In the order of publication.
    """

    set: SetDocument = field(metadata=INLINE)
    level: Level
    tables: tuple[TableTotals, ...]
    rejected: tuple[RejectedRecords, ...] = ()
    reports: tuple[RunReport, ...]

    def title_of(self, report: RunReport) -> str:
        """What tells one of its runs from the others: its table, and of phases which one it is."""
        table, phases = report.run.record.table, self.set.record.manifest.phases
        return f"{table}, phase {self.reports.index(report) + 1} of {len(self.reports)}" if phases else table


def set_report(ws: Workspace, set_id: str) -> SetReport:
    """Where a set stands, what it does to each table, and everything that the ledger knows of its runs."""
    found = set_document(ws, set_id)
    reports = tuple(run_report(ws, member.run.record.run_id) for member in found.runs)
    is_over = found.record.state in (SetState.ROLLED_BACK, SetState.CANCELLED)
    level = Level.BAD if is_over else worst(report.level for report in reports)
    with ws.ledger.read() as tx:
        rejected = rejected_behind(ws, tx, [member.run.manifest for member in found.runs])
    return SetReport(set=found, level=level, tables=totals_by_table(reports), rejected=rejected, reports=reports)


def worst(levels: Iterable[Level]) -> Level:
    """The level of several runs together."""
    found = set(levels)
    return next((level for level in (Level.BAD, Level.ATTENTION, Level.PENDING) if level in found), Level.GOOD)


def totals_by_table(reports: Sequence[RunReport]) -> tuple[TableTotals, ...]:
    """What the runs of a set would do, table by table. Pure."""
    names = dict.fromkeys(report.run.record.table for report in reports)
    return tuple(
        TableTotals(
            table=name,
            restated=_together(report.restated for report in reports if report.run.record.table == name),
            new=_together(report.new for report in reports if report.run.record.table == name),
        )
        for name in names
    )


def _together(some: Iterable[MovesOfSome | None]) -> MovesOfSome | None:
    found = [each for each in some if each is not None]
    totals = total_moves(found)
    if totals is None:
        return None
    days = (day for one in found for day in one.partitions)
    return MovesOfSome(partitions=Partitions.of(found[0].partitions.grain, days), moves=totals)
