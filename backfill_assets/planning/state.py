"""State: what planning reads of the ledger, and the protocols through which it does. It cannot write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from backfill_assets.planning.estimates import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An accepted partition version as planning needs it: measures of its file set, and not the set."""

    version: int
    run_id: str
    digest: str
    rows: int
    file_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A snapshot that has expired: it is not accepted any more, and neither missing nor stale.

    Attributes:
        run_id: The run that let it expire.
        digest: The digest of its files.
    """

    run_id: str
    digest: str


class ClaimReader(Protocol):
    """What is accepted."""

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, Claim]:
        """The accepted versions of these partitions, or of all; partitions without one are absent."""
        ...


class StateReader(ClaimReader, Protocol):
    """The planner's read-only view of the ledger."""

    def expired(self, table: str) -> Mapping[date, Expired]: ...

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Ids of runs over some of these partitions that could still be published."""
        ...

    def pace(self, table: str) -> Pace | None:
        """How fast the table's latest runs were staged; None when there was none."""
        ...
