"""Reach: which partitions of other tables depend on what a run changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.errors import Refused
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.impact import dependents_of
from backfill_assets.planning.partitions import describe
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentMoves:
    """What a publication makes stale in one table downstream.

    Attributes:
        table: The table.
        partitions: How many of its partitions depend on what changes and have accepted rows.
        described: The same in words.
        sentence: All of it in words.
    """

    table: str
    partitions: int
    described: str
    sentence: str


def dependent_moves(
    ws: Workspace, tx: ReadTransaction, run: RunRecord, changed: Sequence[date]
) -> tuple[DependentMoves, ...]:
    """Table by table in order, what depends on the partitions that a run changes; nothing while references cannot be
    read, which `status` names as a problem."""
    table = run.manifest.table
    try:
        graph = ws.graph
        reached = dependents_of(graph, table, changed) if table in graph.tables else ()
    except Refused:
        return ()
    found = []
    for each in reached:
        there = sorted(tx.versions.claims(each.table, each.partitions).keys())
        if there:
            described = describe(each.grain, there)
            found.append(
                DependentMoves(
                    table=each.table,
                    partitions=len(there),
                    described=described,
                    sentence=f"{each.table}, {described}",
                )
            )
    return tuple(found)
