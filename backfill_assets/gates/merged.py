"""Merged changes: what the gate of a table that is fed by changes found in a partition, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPartition:
    """The changes whose rows belong to one partition.

    Attributes:
        changes: How many add or replace a row.
        deletes: How many delete one.
        undecided: How many lack a key, a version, or whether they delete.
        twice: How many share their key with another change.
        older: How many are older than the accepted row of their key.
        elsewhere: Partitions that the run does not compute, and in which accepted rows of these keys are.
        others_differ: Whether rows of keys that no change names are not exactly the accepted ones.
    """

    changes: int = 0
    deletes: int = 0
    undecided: int = 0
    twice: int = 0
    older: int = 0
    elsewhere: tuple[date, ...] = ()
    others_differ: bool = False

    @property
    def holds(self) -> bool:
        """Whether the staged rows are the accepted ones with exactly these changes."""
        return not (self.undecided or self.twice or self.older or self.elsewhere or self.others_differ)

    @property
    def observed(self) -> Mapping[str, int | bool | list[str]]:
        """As a verdict keeps it."""
        return {
            "changes": self.changes,
            "deletes": self.deletes,
            "undecided": self.undecided,
            "twice": self.twice,
            "older": self.older,
            "elsewhere": [day.isoformat() for day in self.elsewhere[:_MOST_NAMED]],
            "elsewhere_partitions": len(self.elsewhere),
            "others_differ": self.others_differ,
        }
