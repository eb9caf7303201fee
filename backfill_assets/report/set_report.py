"""Report of a set: its totals by table first, then the report of each of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from backfill_assets.gates.moves import Moves
from backfill_assets.ledger.states import SetState
from backfill_assets.planning.partitions import Partitions, count_of
from backfill_assets.report.documents import INLINE
from backfill_assets.report.measured import MovesOfSome
from backfill_assets.report.report import RunReport, run_report
from backfill_assets.report.review import Level, Review, moves_in_words, share_of_accepted, worst
from backfill_assets.report.sets import SetDocument, set_document
from backfill_assets.report.words.states import MEANING
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
        review: What its reviewer asks, answered in words.
        tables: What it would do, table by table.
        reports: In the order of publication.
    """

    set: SetDocument = field(metadata=INLINE)
    review: Review
    tables: tuple[TableTotals, ...]
    reports: tuple[RunReport, ...]


def set_report(ws: Workspace, set_id: str) -> SetReport:
    """Where a set stands, what it does to each table, and everything that the ledger knows of its runs.

    Raises:
        UnknownName: There is no such set.
    """
    found = set_document(ws, set_id)
    reports = tuple(run_report(ws, member.run.run_id) for member in found.runs)
    tables = totals_by_table(reports)
    return SetReport(set=found, review=review_of_set(found, reports, tables), tables=tables, reports=reports)


def totals_by_table(reports: Sequence[RunReport]) -> tuple[TableTotals, ...]:
    """What the runs of a set would do, table by table. Pure."""
    names = dict.fromkeys(report.run.table for report in reports)
    return tuple(
        TableTotals(
            table=name,
            restated=_together(report.restated for report in reports if report.run.table == name),
            new=_together(report.new for report in reports if report.run.table == name),
        )
        for name in names
    )


def _together(some: Iterable[MovesOfSome | None]) -> MovesOfSome | None:
    found = [each for each in some if each is not None]
    if not found:
        return None
    sums = {each.name: sum(getattr(one.moves, each.name) for one in found) for each in fields(Moves)}
    return MovesOfSome(
        partitions=Partitions.of(found[0].partitions.grain, (day for one in found for day in one.partitions)),
        moves=Moves(**sums),
    )


def review_of_set(found: SetDocument, reports: Sequence[RunReport], tables: Sequence[TableTotals]) -> Review:
    """The answers for the runs of a set together. Pure."""
    level = worst(report.review.level for report in reports)
    warnings = tuple(dict.fromkeys(f"{r.run.table}: {text}" for r in reports for text in r.review.warnings))
    inside = {report.run.table for report in reports}
    outside = dict.fromkeys(
        f"{each.table}, {each.partitions}" for r in reports for each in r.dependents if each.table not in inside
    )
    return Review(
        level=Level.BAD if found.state in (SetState.ROLLED_BACK, SetState.CANCELLED) else level,
        headline=_headline(found, reports, tables, warnings),
        what_changes=" ".join(report.review.what_changes for report in reports),
        why=f"Because {found.because}. Requested by {found.requested_by}: {found.reason}.",
        by_how_much=" ".join(_table_in_words(table) for table in tables),
        is_it_right=" ".join(f"{report.run.table}: {report.review.is_it_right}" for report in reports),
        on_yes=_on_yes(found, reports, tuple(outside)),
        warnings=warnings,
    )


def _headline(
    found: SetDocument, reports: Sequence[RunReport], tables: Sequence[TableTotals], warnings: Sequence[str]
) -> str:
    blocked = [report.run.table for report in reports if report.is_blocked]
    if blocked:
        return f"Blocked: a gate of {' and '.join(dict.fromkeys(blocked))} failed, so nothing of it can be published"
    with_warnings = f", with {count_of(len(warnings), 'warning')}" if warnings else ""
    if found.state is SetState.PLANNED:
        unmeasured = sum(report.totals is None for report in reports)
        if unmeasured:
            return f"{count_of(unmeasured, 'run')} of {len(reports):,} not measured yet{with_warnings}"
        waits = "ready to publish" if found.approved_by else "waits for an approval"
        concerned = _shares(tables, "of the accepted rows change or disappear")
        return f"Every blocking gate of every run passed: {waits}{concerned}{with_warnings}"
    is_published = found.state is SetState.PUBLISHED
    concerned = _shares(tables, "of the rows accepted before changed or disappeared") if is_published else ""
    return f"{found.state.replace('_', ' ').capitalize()}: {MEANING[found.state]}{concerned}{with_warnings}"


def _shares(tables: Sequence[TableTotals], verb: str) -> str:
    """What part of the accepted rows of each table is concerned, for a headline."""
    shares = [(table.table, share_of_accepted(table.restated.moves)) for table in tables if table.restated]
    words = [f"{share} of {table}" for table, share in shares if share]
    return f"; {verb} {' and '.join(words)}" if words else ""


def _table_in_words(table: TableTotals) -> str:
    parts = []
    if table.restated:
        parts.append(f"restated, {table.restated.partitions}: {moves_in_words(table.restated.moves)}")
    if table.new:
        parts.append(f"new, {table.new.partitions}: {count_of(table.new.moves.rows, 'row')}")
    return f"{table.table}: {'; '.join(parts) or 'not measured yet'}."


def _on_yes(found: SetDocument, reports: Sequence[RunReport], outside: Sequence[str]) -> str:
    order = ", then ".join(dict.fromkeys(report.run.table for report in reports))
    follow = f" Then the dependents follow: {'; '.join(outside)}." if outside else ""
    if found.state in (SetState.PUBLISHED, SetState.ROLLED_BACK, SetState.CANCELLED):
        return f"It is {found.state}: {MEANING[found.state]}.{follow}"
    return f"Its runs are published one after the other: {order}. A rollback of the set undoes all of them.{follow}"
