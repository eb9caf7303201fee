"""Piloted partitions: what the gate of a run over a scope found in one, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotedPartition:
    """One partition of a run over a scope.

    Attributes:
        scope: The scope, as a person named it.
        rows: How many staged rows are in it.
        others_differ: Whether the rows outside of it are not exactly the accepted ones.
    """

    scope: str
    rows: int
    others_differ: bool

    @property
    def observed(self) -> Mapping[str, str | int | bool]:
        """As a verdict keeps it."""
        return asdict(self)
