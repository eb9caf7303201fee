"""What do publications ask of the tables that depend on them?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from backfill_assets.domain import SourceTable
from backfill_assets.ledger.claims import LedgerState
from backfill_assets.ledger.records import OutboxEntry
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.planning.partitions import Grain
from backfill_assets.planning.request import complete_partitions
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """A dependent that a publication asks to be computed again.

    Attributes:
        sequence: Its place in the outbox.
        partitions: What can be computed now.
        waiting: What cannot, because days it needs have never been built.
        followed_by: The run that followed already, if there is one.
    """

    sequence: int
    publication_id: str
    source: str
    table: str
    grain: Grain
    partitions: tuple[date, ...]
    waiting: tuple[date, ...]
    followed_by: str | None


def follow_ups(ws: Workspace) -> tuple[FollowUp, ...]:
    """What the undelivered publications ask of their direct dependents that follow on their own.

    Source tables are left out: what is derived from bronze is restated by decision, not because an event came in.
    """
    with ws.ledger.read() as reader:
        return tuple(
            follow_up for entry in reader.outbox(undelivered_only=True) for follow_up in _follow(ws, reader, entry)
        )


def built_with(reader: LedgerReader, run_id: str, table: str) -> set[date]:
    """The partitions of a table that the set of a run builds itself, so that nobody has to follow for them."""
    found = reader.set_of(run_id)
    members = found.manifest.members if found else ()
    of_table = reader.runs_named(member.run_id for member in members if member.table == table)
    return {partition for run in of_table for partition in run.manifest.partitions}


def _follow(ws: Workspace, reader: LedgerReader, entry: OutboxEntry) -> Iterable[FollowUp]:
    if isinstance(ws.domain.table(entry.table), SourceTable):
        return
    days = ws.graph.days(ws.clock().date())
    for node in ws.graph.dependents(entry.table):
        reached: set[date] = set()
        for edge in node.inputs:
            if edge.table == entry.table:
                reached.update(ws.graph.reached(edge, node, entry.partitions))
        reached -= built_with(reader, entry.run_id, node.name)
        possible = [partition for partition in reached if partition < days.end]
        ready, waiting = complete_partitions(node, ws.graph, possible, LedgerState(reader))
        earlier = [r.run_id for r in reader.runs(table=node.name) if r.manifest.because == entry.publication_id]
        yield FollowUp(
            sequence=entry.sequence,
            publication_id=entry.publication_id,
            source=entry.table,
            table=node.name,
            grain=node.grain,
            partitions=ready,
            waiting=waiting,
            followed_by=earlier[0] if earlier else None,
        )
