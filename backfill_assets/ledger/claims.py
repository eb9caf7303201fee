"""Claims: the planner's read-only view of the ledger, what is accepted and what could still be published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.records import AcceptedClaim
from backfill_assets.ledger.states import OPEN_STATES
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.estimates import Pace
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Mode

EVER_PUBLISHED = tuple(mode for mode in Mode if mode not in NEVER_PUBLISHED)


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The planner's reader of state over an open ledger transaction."""

    tx: ReadTransaction

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, AcceptedClaim]:
        """The accepted versions of these partitions."""
        return self.tx.versions.claims(table, partitions)

    def accepted(self, table: str, partitions: Sequence[date]) -> AbstractSet[date]:
        """Those of these partitions that have an accepted version."""
        return self.tx.versions.claims(table, partitions).keys()

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Runs over some of these partitions that could still be published."""
        wanted = set(partitions)
        runs = self.tx.runs.records(table=table, states=OPEN_STATES, modes=EVER_PUBLISHED, over=partitions)
        return [run.run_id for run in runs if not wanted.isdisjoint(run.manifest.partitions)]

    def pace(self, table: str) -> Pace | None:
        """How fast the table's latest runs were staged."""
        return self.tx.candidates.pace(table)
