"""Basis: what accepted partitions of a table were computed from, as recorded in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.manifest_parts import PinnedReference

UNKNOWN_DIGEST = ""
"""The digest of an input that a run read and that was never accepted, or was undone. It equals no other digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisInput:
    """The partitions of one input that a run read, with the digests of their file sets.

    Attributes:
        edge: The input, with its window as the manifest agreed it.
        digests: By input partition; `UNKNOWN_DIGEST` for what is not known to be accepted.
        within: The accepted digests of the table, if the reader found that they contain all of `digests`. Then a
            comparison with this same mapping is not needed.
    """

    edge: TableInput
    digests: Mapping[date, str]
    within: Mapping[date, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What accepted partitions of a table depend on: a run that computed them, or that later found them equal.

    Attributes:
        partitions: The accepted partitions that it still applies to, in order.
        imports: For a source table, the landed files that they were built from.
        difference_accepted: Whether the run found other rows, and the owner of the table left the accepted ones.
    """

    run_id: str
    partitions: tuple[date, ...]
    transform: str
    transform_version: str
    code_digest: str
    configuration: Mapping[str, Any]
    references: tuple[PinnedReference, ...]
    inputs: tuple[BasisInput, ...]
    imports: frozenset[str]
    requested_at: datetime
    session_digest: str
    difference_accepted: bool = False

    @property
    def has_chosen_references(self) -> bool:
        """Whether a person chose the version of a reference that the rows were computed with."""
        return any(pinned.is_chosen for pinned in self.references)
