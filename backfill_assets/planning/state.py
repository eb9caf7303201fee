"""State: the protocols through which planning reads the ledger. It cannot write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol

from backfill_assets.planning.estimates import Pace


class Claim(Protocol):
    """What the planner needs to know of an accepted partition version."""

    @property
    def version(self) -> int: ...
    @property
    def run_id(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def file_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


class ClaimReader(Protocol):
    """What is accepted."""

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, Claim]:
        """The accepted versions of these partitions; partitions without one are absent."""
        ...


class StateReader(ClaimReader, Protocol):
    """The planner's read-only view of the ledger."""

    def every_claim(self, table: str) -> Mapping[date, Claim]: ...

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Ids of runs over some of these partitions that could still be published."""
        ...

    def pace(self, table: str) -> Pace | None:
        """How fast the table's latest runs were staged; None when there was none."""
        ...
