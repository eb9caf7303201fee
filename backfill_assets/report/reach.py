"""Reach: which partitions of other tables depend on what a run changes, down to the cells of their breakdowns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.errors import Refused
from backfill_assets.domain import Breakdown, DerivedTable
from backfill_assets.ledger.findings import BreakdownCell, Values
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import TablePartitions, dependents_of
from backfill_assets.planning.partitions import Partitions
from backfill_assets.workspace import Workspace

MOST_COMBINATIONS = 100
"""More combinations of dimensions than these are not followed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentCell:
    """The rows of a dependent table that can move for one combination of business dimensions.

    Attributes:
        by: The dimensions as text.
        partitions: In which partitions.
    """

    by: Values
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentMoves:
    """What a publication makes stale in one table downstream.

    Attributes:
        table: The table.
        partitions: Its partitions that depend on what changes and have accepted rows.
        cells: The same by the dimensions that both tables declare; empty where they share none, or the changes are not
            known by them.
    """

    table: str
    partitions: Partitions
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
