"""Reports for a reviewer and an auditor: of a run with the changes of its dependents, and of a set with its totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from backfill_assets.calendar.partitions import Partitions, TablePartitions
from backfill_assets.core.errors import Refused
from backfill_assets.core.session_settings import Versions, staged_versions
from backfill_assets.domain import Breakdown, DerivedTable
from backfill_assets.gates.measured import RowDiff
from backfill_assets.ledger.findings import (
    BreakdownCell,
    FailingKey,
    Finding,
    GateResult,
    SampledRow,
    UsualPoint,
    Values,
)
from backfill_assets.ledger.records import ApprovalGrounds, ChunkRecord, EventRecord, RunRecord
from backfill_assets.ledger.states import UNPUBLISHED, ApprovalState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import dependents_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED, ChangedReference, Mode, PinnedReference, RunPurpose
from backfill_assets.planning.stages import Agree, Stage, stages_of
from backfill_assets.report.alternatives import Alternative, instead_of_gated
from backfill_assets.report.code import CodeChange, ReferenceChange, code_changes, reference_changes
from backfill_assets.report.cost import CostDocument, bytes_read, cost_of
from backfill_assets.report.documents import INLINE
from backfill_assets.report.known_rows import KnownRowsGone, known_rows_gone
from backfill_assets.report.measured import (
    GateSummary,
    MovesOfSome,
    PartitionMoves,
    StateMove,
    changed_columns,
    gate_summaries,
    moves_of_some,
    partition_moves,
    state_moves,
    total_moves,
)
from backfill_assets.report.publications import Moment, PublicationDocument, publication_documents, timeline
from backfill_assets.report.releases import (
    CODE,
    LaterRelease,
    MixedReleaseBoundary,
    UnrelatedChange,
    brought_along,
    in_order,
    inputs_moved_on,
    later_than,
    left_behind,
    references_moved_on,
    references_read_by_gates,
    replaced_manifests,
    replaced_releases,
)
from backfill_assets.report.runs import RunSummary, SetDocument, run_summary, set_document
from backfill_assets.report.shown_rows import ShownKey, shown_keys
from backfill_assets.report.usual import BreakdownDocument, UsualSeries, breakdown_document, usual_series
from backfill_assets.report.waiting import NotKnownDocument, RejectedRecords, not_known_behind, rejected_behind
from backfill_assets.requests.authority import demand_of, open_comments
from backfill_assets.workspace import Workspace


class Level(StrEnum):
    """The level of a report: how much attention a reviewer should give it.

    PENDING: there is nothing to decide yet. GOOD: nothing speaks against it. ATTENTION: something has to be read first.
    BAD: it cannot be published, or is not what readers see.
    """

    PENDING = "PENDING"
    GOOD = "GOOD"
    ATTENTION = "ATTENTION"
    BAD = "BAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVersions:
    """The versions of `backfill_assets`, `pyspark` and `python` of a run; of `spark`, the server, once it is staged.
    `commit` and `tree` of the checkout, `distributions` and `image` are evidence, and make nothing stale.
    """

    planned: Versions  #: Those that it was planned with.
    staged: Versions | None  #: Those that it was staged with, or null.


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleErasure:
    """Reports that the sampled rows of a run were erased."""

    by: str  #: Who erased them.
    at: datetime  #: When.
    reason: str  #: Why.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything that the ledger knows of a run."""

    run: RunSummary = field(metadata=INLINE)  #: The run.
    #: How it should be taken: PENDING (nothing is measured yet), GOOD, ATTENTION (something has to be read before it is
    #: approved) or BAD (it cannot be published, or was taken back).
    level: Level
    #: What is done, step by step; nothing while references cannot be read, or for a table that is no longer declared.
    plan: tuple[Stage, ...]
    from_versions: tuple[str, ...]  #: The releases whose accepted rows it replaces.
    goes_back: tuple[LaterRelease, ...]  #: The later releases whose accepted rows it would replace, the latest first.
    #: The inputs that were published again or rolled back since it was planned; empty once it is published.
    moved_on: tuple[TablePartitions, ...]
    #: The references that have changed since it was planned, and would change its rows; empty once it is published.
    changed_references: tuple[ChangedReference, ...] = ()
    #: What its release computed with other code, under the same version; empty once it is published.
    other_code: tuple[UnrelatedChange, ...]
    code_changes: tuple[CodeChange, ...] = ()  #: How its code differs from that of the rows that it replaces.
    #: How its references differ from those of the rows that it replaces.
    reference_changes: tuple[ReferenceChange, ...] = ()
    #: The references that only its gates have read, in the versions that they met.
    gate_references: tuple[PinnedReference, ...] = ()
    #: What was rejected of the landed files behind the source days that it builds or reads.
    rejected: tuple[RejectedRecords, ...]
    not_known: tuple[NotKnownDocument, ...] = ()  #: The keys that are not known of these days.
    #: Partitions on its borders that have rows of another release now; empty once readers see none of its own.
    left_behind: tuple[MixedReleaseBoundary, ...]
    no_rows_of: str | None  #: The rows that a pilot is about, where its partitions have none of them; null otherwise.
    #: What could be done instead of publishing it; empty before its gates, and once it is decided.
    instead: tuple[Alternative, ...]
    #: Which known rows of gates are gone or changed, where the approver agrees to that as well; empty once it is
    #: published.
    known_rows_gone: tuple[KnownRowsGone, ...] = ()
    #: What the approver has to comment on and no standing approval has; empty when there is nothing.
    to_comment: tuple[GateResult, ...]
    comment: str | None  #: What the standing approval says in writing; null without one.
    #: Why the approver may approve; null without an approval, and where any person but the requester may.
    approved_for: ApprovalGrounds | None
    manifest: Mapping[str, Any]  #: The whole contract, as it is stored.
    versions: RunVersions  #: What it was planned and staged with.
    totals: RowDiff | None  #: How its rows differ from the accepted ones, over all partitions; null before the gates.
    restated: MovesOfSome | None  #: The same of partitions that had accepted rows; null where there are none.
    new: MovesOfSome | None  #: The same of partitions that had none, or null.
    partitions: tuple[PartitionMoves, ...]  #: The same by partition; empty before the gates.
    #: How many partitions equal the accepted rows and stay as they are; null before the gates.
    equal_partitions: int | None
    new_empty_partitions: int | None  #: How many have no accepted version and get no rows; null before the gates.
    #: Its measures by month and business dimensions, before and after; null where its table declares none, before the
    #: gates, and once it is erased.
    breakdown: BreakdownDocument | None
    changed_columns: Mapping[str, int]  #: Rows that differ, by column, the most changed column first.
    #: From which value to which the rows that differ have moved, in columns whose values a gate lists; of restated
    #: partitions.
    state_moves: tuple[StateMove, ...]
    gates: tuple[GateSummary, ...]  #: The result of each gate.
    #: What gates on the usual compared, by measure and group; empty without such a gate, and once it is erased.
    usual: tuple[UsualSeries, ...] = ()
    sample: tuple[SampledRow, ...]  #: Some rows that move; empty once they are erased.
    #: The rows of the keys that were asked for when it was planned; empty once they are erased; null before the gates,
    #: and where none were asked for.
    shown: tuple[ShownKey, ...] | None = None
    failing_keys: tuple[FailingKey, ...]  #: Keys of some rows that fail a gate; empty once they are erased.
    samples_erased: SampleErasure | None  #: Who erased these rows; null when they were not erased.
    dependents: tuple[DependentMoves, ...]  #: What its publication makes stale downstream, table by table.
    #: Dependents downstream and has no accepted rows yet, table by table; it follows where its inputs are complete.
    unpublished: tuple[TablePartitions, ...]
    cost: CostDocument  #: What it has cost so far.
    timeline: tuple[Moment, ...]  #: Its events, in order.
    chunks: tuple[ChunkRecord, ...]  #: What was computed at once, in order.
    publications: tuple[PublicationDocument, ...]  #: Every publication and rollback of it, in order.

    @property
    def noun(self) -> str:
        """The noun for one of its partitions: `day` or `month`."""
        return self.run.manifest.output.grain.noun

    @property
    def swapped(self) -> Sequence[date]:
        """The partitions in which the rows differ, or which are swapped in any case; empty before the gates."""
        return swapped(self.run.record.kind, self.partitions)

    @property
    def is_blocked(self) -> bool:
        return self.run.record.state is RunState.BLOCKED


def run_report(ws: Workspace, run_id: str) -> RunReport:
    """Everything that the ledger knows of a run."""
    with ws.ledger.read() as tx:
        return _report(ws, tx, tx.runs.get(run_id))


def _stages(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> tuple[Stage, ...]:
    try:
        return stages_of([run.manifest], ws.graph, demand=demand_of(ws, tx, run))
    except Refused:
        return ()


def _report(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> RunReport:
    results = tx.candidates.gate_results(run.run_id)
    publications = publication_documents(ws, tx, tx.publications.headers(run_id=run.run_id)[::-1])
    headers = [each.header for each in publications]
    events = tuple(tx.events.entries(entity_id=run.run_id))
    approvals = [event for event in events if is_approval(event)]
    approved = approvals[-1] if approvals and run.approval is ApprovalState.APPROVED else None
    erased, sampled = tx.samples.erased(run.run_id), tx.samples.latest(run.run_id, SampledRow)
    staged = tx.candidates.of_run(run.run_id)
    chunks = tx.candidates.chunks(run.run_id)
    partitions = partition_moves(results, staged)
    releases = replaced_releases(tx, run.manifest, staged)
    replaced = replaced_manifests(tx, run.manifest, staged)
    cells = tx.samples.latest(run.run_id, BreakdownCell)
    grain, gates = run.manifest.grain, gate_summaries(run.manifest, results)
    changed = swapped(run.manifest.kind, partitions) if partitions else run.manifest.partitions
    reached = reached_by(ws, run, changed)
    plan = _stages(ws, tx, run)
    report = RunReport(
        run=_summary(run_summary(ws, tx, run), publications),
        level=Level.PENDING,
        plan=plan,
        from_versions=in_order(releases),
        goes_back=later_than(run.manifest.transform_version, grain, releases),
        moved_on=inputs_moved_on(ws.graph, tx, run),
        changed_references=references_moved_on(ws, run),
        other_code=_other_code(tx, run),
        code_changes=code_changes(ws, run.manifest, replaced),
        reference_changes=reference_changes(ws, run.manifest, replaced),
        gate_references=references_read_by_gates(tx, run.run_id),
        rejected=rejected_behind(ws, tx, [run.manifest]),
        not_known=not_known_behind(ws, tx, [run.manifest]),
        left_behind=left_behind(ws.graph, tx, run, releases),
        no_rows_of=_no_rows_of(run.manifest, results, partitions),
        instead=instead_of_gated(ws, tx, run) if changed else (),
        known_rows_gone=tuple(
            gone
            for stage in plan
            if isinstance(stage, Agree) and run.state in UNPUBLISHED
            for gone in known_rows_gone(ws, tx, run, stage.demand)
        ),
        to_comment=tuple(open_comments(tx, run)),
        comment=(approved.payload["note"] or None) if approved else None,
        approved_for=ApprovalGrounds.parse(approved.payload) if approved else None,
        manifest=run.manifest.document,
        versions=run_versions(run, events),
        totals=total_moves(partitions),
        restated=moves_of_some(grain, [part for part in partitions if not part.new]),
        new=moves_of_some(grain, [part for part in partitions if part.new]),
        partitions=partitions,
        equal_partitions=sum(part.equal for part in partitions) if partitions else None,
        new_empty_partitions=sum(part.new_empty for part in partitions) if partitions else None,
        breakdown=breakdown_document(cells, breakdown_of(ws, run.manifest.table)),
        changed_columns=changed_columns(results),
        state_moves=state_moves(results, {part.partition for part in partitions if part.new}),
        gates=gates,
        usual=usual_series(tx.samples.latest(run.run_id, UsualPoint), results),
        sample=tuple(row for row in sampled if not row.is_asked),
        shown=shown_keys(run.manifest, sampled) if run.manifest.shown and partitions else None,
        failing_keys=tx.samples.latest(run.run_id, FailingKey),
        samples_erased=SampleErasure(by=erased.actor, at=erased.at, reason=erased.payload["reason"])
        if erased
        else None,
        dependents=dependent_moves(ws, tx, reached, run, changed, cells),
        unpublished=unpublished(tx, reached),
        cost=cost_of(
            chunks, staged.values(), events, headers, read_bytes=bytes_read(tx, run), tariff=ws.settings.tariff
        ),
        timeline=timeline(events, headers),
        chunks=tuple(chunks),
        publications=publications,
    )
    return replace(report, level=level_of(report))


def _no_rows_of(manifest: Manifest, results: Iterable[GateResult], partitions: Iterable[PartitionMoves]) -> str | None:
    inside = [result.observed["rows"] for result in results if result.finding is Finding.PILOTED]
    is_nothing = bool(inside) and not any(inside) and all(part.equal for part in partitions)
    return str(manifest.change.scope) if is_nothing else None


def _other_code(tx: ReadTransaction, run: RunRecord) -> tuple[UnrelatedChange, ...]:
    if run.state not in UNPUBLISHED:
        return ()
    return tuple(each for each in brought_along(tx, run.manifest) if each.what == CODE)


def swapped(kind: RunPurpose, partitions: Iterable[PartitionMoves]) -> Sequence[date]:
    """The partitions in which rows differ, or which are swapped in any case."""
    always = kind in ALWAYS_SWAPPED
    return [part.partition for part in partitions if always or not (part.equal or part.new_empty)]


def level_of(report: RunReport) -> Level:
    """The level of a report. Pure."""
    if report.run.record.state in (RunState.BLOCKED, RunState.ROLLED_BACK, RunState.CANCELLED, RunState.FAILED):
        return Level.BAD
    if report.totals is None:
        return Level.PENDING
    informing = any(gate.failed and not gate.blocking for gate in report.gates)
    changed = (report.moved_on, report.changed_references, report.other_code)
    read_first = (report.goes_back, *changed, report.left_behind, report.to_comment)
    if informing or report.no_rows_of or report.run.in_the_way or any(read_first):
        return Level.ATTENTION
    is_drift = report.run.record.mode is Mode.RECONCILIATION and report.swapped
    return Level.ATTENTION if is_drift else Level.GOOD


def _summary(summary: RunSummary, publications: Sequence[PublicationDocument]) -> RunSummary:
    """The run, with nothing to undo where its publication found everything equal."""
    standing = [each.extent for each in publications if each.header.state is PublicationState.PUBLISHED]
    changed_nothing = standing and all(extent.changes_nothing for extent in standing)
    return replace(summary, next_step=None) if changed_nothing and summary.record.is_alone else summary


def run_versions(run: RunRecord, events: Iterable[EventRecord]) -> RunVersions:
    """The versions with which a run was planned and staged."""
    staged = staged_versions(event.payload for event in events)
    return RunVersions(planned=run.manifest.versions, staged=staged)


def is_approval(event: EventRecord) -> bool:
    """True if an event is an approval; a rollback withdraws it, but not the fact that it was given."""
    return event.entity == "approval" and event.action == "approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTotals:
    """The changes that the runs of a set would make to one table."""

    table: str  #: The table.
    #: Its partitions that had accepted rows, together; null where there are none, or before the gates.
    restated: MovesOfSome | None
    new: MovesOfSome | None  #: Those that had none, or null.

    @property
    def all(self) -> MovesOfSome | None:
        """Both together; None where there are not both."""
        return _together((self.restated, self.new)) if self.restated and self.new else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """A set, and the report of each of its runs."""

    set: SetDocument = field(metadata=INLINE)  #: The set.
    level: Level  #: How it should be taken: the worst of its runs, and BAD when it was rolled back or cancelled.
    tables: tuple[TableTotals, ...]  #: What it would do, table by table.
    #: What was rejected of the landed files behind the source days that its runs build or read.
    rejected: tuple[RejectedRecords, ...] = ()
    not_known: tuple[NotKnownDocument, ...] = ()  #: The keys that are not known of these days.
    reports: tuple[RunReport, ...]  #: In the order of publication.

    def title_of(self, report: RunReport) -> str:
        """The title that distinguishes one of its runs from the others: its table, and for phases which one it is."""
        table, phases = report.run.record.table, self.set.record.manifest.phases
        return f"{table}, phase {self.reports.index(report) + 1} of {len(self.reports)}" if phases else table


def set_report(ws: Workspace, set_id: str) -> SetReport:
    """Where a set stands, what it does to each table, and everything that the ledger knows of its runs."""
    found = set_document(ws, set_id)
    reports = tuple(run_report(ws, member.run.record.run_id) for member in found.runs)
    is_over = found.record.state in (SetState.ROLLED_BACK, SetState.CANCELLED)
    level = Level.BAD if is_over else worst(report.level for report in reports)
    with ws.ledger.read() as tx:
        manifests = [member.run.manifest for member in found.runs]
        rejected, unknown = rejected_behind(ws, tx, manifests), not_known_behind(ws, tx, manifests)
    return SetReport(
        set=found,
        level=level,
        tables=totals_by_table(reports),
        rejected=rejected,
        not_known=unknown,
        reports=reports,
    )


def worst(levels: Iterable[Level]) -> Level:
    """The level of several runs together."""
    found = set(levels)
    return next((level for level in (Level.BAD, Level.ATTENTION, Level.PENDING) if level in found), Level.GOOD)


def totals_by_table(reports: Sequence[RunReport]) -> tuple[TableTotals, ...]:
    """The changes that the runs of a set would make, table by table. Pure."""
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


MOST_COMBINATIONS = 100
"""More combinations of dimensions than these are not followed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentCell:
    """The rows of a dependent table that can move for one combination of business dimensions."""

    by: Values  #: The dimensions as text.
    partitions: Partitions  #: In which partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentMoves:
    """The partitions of one table downstream that a publication makes stale."""

    table: str  #: The table.
    partitions: Partitions  #: Its partitions that read the run's and have accepted rows.
    #: The same by the dimensions that both tables declare; empty where they share none, or the changes are not known by
    #: them.
    cells: tuple[DependentCell, ...]


def breakdown_of(ws: Workspace, table: str) -> Breakdown | None:
    """The breakdown that a table declares now; None for a source table and one that is no longer declared."""
    declared = ws.domain.tables.get(table)
    return declared.breakdown if isinstance(declared, DerivedTable) else None


def reached_by(ws: Workspace, run: RunRecord, changed: Sequence[date]) -> tuple[TablePartitions, ...]:
    """Every partition downstream that depends on rows that a run changes, table by table in order; nothing while
    references cannot be read, which `status` names as a problem."""
    table, computed = run.manifest.table, set(run.manifest.computed).intersection(changed)
    try:
        graph = ws.graph
        return dependents_of(graph, table, sorted(computed)) if table in graph.tables else ()
    except Refused:
        return ()


def unpublished(tx: ReadTransaction, reached: Sequence[TablePartitions]) -> tuple[TablePartitions, ...]:
    """Those of some partitions that have no accepted rows."""
    found = [
        replace(each, partitions=tuple(p for p in each.partitions if p not in there))
        for each in reached
        for there in [tx.versions.claims(each.table, each.partitions)]
    ]
    return tuple(each for each in found if each.partitions)


def dependent_moves(
    ws: Workspace,
    tx: ReadTransaction,
    reached: Sequence[TablePartitions],
    run: RunRecord,
    changed: Sequence[date],
    cells: Sequence[BreakdownCell],
) -> tuple[DependentMoves, ...]:
    """Table by table in order, what depends on the partitions that a run changes and has accepted rows."""
    table = run.manifest.table
    found = []
    for each in reached:
        there = frozenset(tx.versions.claims(each.table, each.partitions).keys())
        if there:
            own = breakdown_of(ws, each.table)
            found.append(
                DependentMoves(
                    table=each.table,
                    partitions=Partitions.of(each.grain, there),
                    cells=_cells(ws.graph, table, changed, cells, each, there, own) if own else (),
                )
            )
    return tuple(found)


def _cells(
    graph: Graph,
    table: str,
    changed: Sequence[date],
    cells: Sequence[BreakdownCell],
    dependent: TablePartitions,
    there: frozenset[date],
    own: Breakdown,
) -> tuple[DependentCell, ...]:
    months: dict[tuple[tuple[str, str | None], ...], set[date]] = {}
    for cell in cells:
        if cell.differs and own.by and all(name in cell.by for name in own.by):
            months.setdefault(tuple((name, cell.by[name]) for name in own.by), set()).add(cell.month)
    if len(months) > MOST_COMBINATIONS:
        return ()
    found = []
    known: dict[frozenset[date], frozenset[date]] = {}
    for by, moved in months.items():
        of = frozenset(moved)
        if of not in known:
            known[of] = _reached(graph, table, [p for p in changed if p.replace(day=1) in of], dependent.table) & there
        if known[of]:
            found.append(DependentCell(by=dict(by), partitions=Partitions.of(dependent.grain, known[of])))
    return tuple(found)


def _reached(graph: Graph, table: str, changed: Sequence[date], dependent: str) -> frozenset[date]:
    return frozenset(
        p for each in dependents_of(graph, table, changed) if each.table == dependent for p in each.partitions
    )
