"""What does the planner see of the ledger? What is accepted, and what could still be published; it cannot write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.planning.estimates import Pace

OPEN_STATES = (
    RunState.PLANNED,
    RunState.STAGING,
    RunState.GATING,
    RunState.PASSED,
    RunState.BLOCKED,
    RunState.FAILED,
    RunState.PUBLISHING,
)
"""The states of runs that could still be published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedClaim:
    """A partition version as the planner needs it."""

    version: int
    digest: str
    rows: int
    file_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The planner's reader of state over an open ledger transaction."""

    reader: LedgerReader

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, AcceptedClaim]:
        """The accepted versions of these partitions."""
        return {p: _claim(version) for p, version in self.reader.accepted(table, partitions).items()}

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Runs over some of these partitions that could still be published."""
        wanted = set(partitions)
        runs = self.reader.runs(table=table, states=OPEN_STATES)
        return [run.run_id for run in runs if wanted & set(run.manifest.partitions)]

    def pace(self, table: str) -> Pace | None:
        """How fast the table's latest runs were staged."""
        return self.reader.pace(table)


def _claim(version: PartitionVersion) -> AcceptedClaim:
    return AcceptedClaim(
        version=version.version,
        digest=version.files.digest,
        rows=version.rows,
        file_count=len(version.files.files),
        size_bytes=version.files.size_bytes,
    )
