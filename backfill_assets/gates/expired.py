"""Expiring snapshots: what the gate of a run that lets snapshots expire found about one, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringPartition:
    """One snapshot that is to expire.

    Attributes:
        others: The snapshots, this one or others, that were planned to expire and would not now, or the reverse.
        read_by: An open run that reads it; empty where there is none.
    """

    others: tuple[date, ...] = ()
    read_by: str = ""

    @property
    def holds(self) -> bool:
        """Whether exactly what was planned expires, and nothing reads this snapshot."""
        return not (self.others or self.read_by)

    @property
    def observed(self) -> Mapping[str, str | int | list[str]]:
        """As a verdict keeps it."""
        return {
            "others": [day.isoformat() for day in self.others[:_MOST_NAMED]],
            "other_partitions": len(self.others),
            "read_by": self.read_by,
        }
