"""Drafts that were proposed: the changed days that each is for, and whether it still is what would be proposed now.

Apart from `requests.proposals`, which decides what is proposed, so that a status stays quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from backfill_assets.core.identity import document_digest
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.proposals import Area, SourceDay


def days_of_proposal(record: SetRecord | None) -> frozenset[SourceDay]:
    """The changed days that a set was proposed for; none for what a person planned."""
    proposed = record.manifest.proposed if record else None
    return (
        frozenset((source, day) for source, days in proposed.days.items() for day in days) if proposed else frozenset()
    )


def basis_of(tx: ReadTransaction, days: AbstractSet[SourceDay], area: Area) -> str:
    """A digest of what is accepted of changed days and of what is rebuilt for them: a draft over it stays current."""
    wanted = {table: set(partitions) for table, partitions in area.items()}
    for source, day in days:
        wanted.setdefault(source, set()).add(day)
    accepted = {table: tx.versions.claims(table, sorted(some)) for table, some in sorted(wanted.items())}
    return document_digest(
        {table: {str(day): claim.digest for day, claim in claims.items()} for table, claims in accepted.items()}
    )


def is_current(tx: ReadTransaction, record: SetRecord, runs: Iterable[RunRecord]) -> bool:
    """True if a proposed set still reads and replaces what is accepted now.

    Args:
        runs: Its members.
    """
    assert record.manifest.proposed is not None
    area = {run.manifest.table: frozenset(run.manifest.partitions) for run in runs}
    return basis_of(tx, days_of_proposal(record), area) == record.manifest.proposed.basis
