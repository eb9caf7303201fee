"""Drafts that were proposed: the changed days that each is for, and whether it still is what would be proposed now.

Apart from `publication.proposals`, which decides what is proposed, so that a status stays quick.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import document_digest
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.impact import impact
from backfill_assets.planning.proposals import Area, Closure, SourceDay
from backfill_assets.workspace import Workspace


def days_of_proposal(record: SetRecord | None) -> frozenset[SourceDay]:
    """The changed days that a set was proposed for; none for what a person planned."""
    proposed = record.manifest.proposed if record else None
    return (
        frozenset((source, day) for source, days in proposed.days.items() for day in days) if proposed else frozenset()
    )


def closure_of(ws: Workspace, tx: ReadTransaction) -> Closure:
    """What has to be rebuilt because of days; nothing for those of tables that are not declared any more.

    Cost: the claims of every derived table.
    """
    derived = [node.name for node in ws.graph.tables.values() if not node.is_source]
    accepted = {name: tx.versions.claims(name).keys() for name in derived}

    def closure(days: AbstractSet[SourceDay]) -> Area:
        changed = {table: some for table, some in grouped(days).items() if table in ws.graph.tables}
        return {each.table: frozenset(each.partitions) for each in impact(ws.graph, changed, accepted)}

    return closure


def basis_of(tx: ReadTransaction, days: AbstractSet[SourceDay], area: Area) -> str:
    """A digest of what is accepted of changed days and of what is rebuilt for them: a draft over it stays current."""
    wanted = {table: set(partitions) for table, partitions in area.items()}
    for source, day in days:
        wanted.setdefault(source, set()).add(day)
    accepted = {table: tx.versions.claims(table, sorted(some)) for table, some in sorted(wanted.items())}
    return document_digest(
        {table: {str(day): claim.digest for day, claim in claims.items()} for table, claims in accepted.items()}
    )


def is_current(tx: ReadTransaction, record: SetRecord, closure: Closure) -> bool:
    """Whether a proposed set still reads and replaces what is accepted now."""
    assert record.manifest.proposed is not None
    days = days_of_proposal(record)
    return basis_of(tx, days, closure(days)) == record.manifest.proposed.basis
