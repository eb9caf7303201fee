"""State: what planning reads of the ledger, and the protocols through which it does. It cannot write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol

from backfill_assets.planning.estimates import Pace
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.manifest_parts import PinnedReference


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedPartition:
    """An accepted partition version as planning needs it: measures of its file set, and not the set."""

    version: int
    run_id: str
    digest: str
    rows: int
    file_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A snapshot that has expired: it is not accepted any more, and neither missing nor stale."""

    run_id: str  #: The run that let it expire.
    digest: str  #: The digest of its files.


UNKNOWN_DIGEST = ""
"""The digest of an input that a run read and that was never accepted, or was undone. It equals no other digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisInput:
    """The partitions of one input that a run read, with the digests of their file sets."""

    edge: TableInput  #: The input, with its window as the manifest agreed it.
    digests: Mapping[date, str]  #: By input partition; `UNKNOWN_DIGEST` for what is not known to be accepted.
    #: The accepted digests of the table, if the reader found that they contain all of `digests`. Then a comparison with
    #: this same mapping is not needed.
    within: Mapping[date, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The basis of accepted partitions of a table: a run that computed them, or that later found them equal."""

    run_id: str
    partitions: tuple[date, ...]  #: The accepted partitions that it still applies to, in order.
    transform: str
    transform_version: str
    code_digest: str
    configuration: Mapping[str, Any]
    references: tuple[PinnedReference, ...]
    inputs: tuple[BasisInput, ...]
    imports: frozenset[str]  #: For a source table, the landed files that they were built from.
    requested_at: datetime
    session_digest: str
    #: Whether the run found other rows, and the owner of the table left the accepted ones.
    difference_accepted: bool = False

    @property
    def has_chosen_references(self) -> bool:
        """True if a person chose the version of a reference with which the rows were computed."""
        return any(pinned.is_chosen for pinned in self.references)


class ClaimReader(Protocol):
    """A reader of accepted versions."""

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, AcceptedPartition]:
        """The accepted versions of these partitions; partitions without one are absent."""
        ...


class StateReader(ClaimReader, Protocol):
    """The planner's read-only view of the ledger. Without partitions, claims are all of a table."""

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]: ...

    def expired(self, table: str) -> Mapping[date, Expired]: ...

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Ids of runs over some of these partitions that could still be published."""
        ...

    def pace(self, table: str) -> Pace | None:
        """The speed at which the table's latest runs were staged; None when there was none."""
        ...
