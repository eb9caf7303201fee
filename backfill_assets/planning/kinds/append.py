"""Append: partitions are only added. One that has an accepted version, an empty one too, never changes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from backfill_assets.planning.kinds.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Change):
    """Partitions are only added."""

    kind: ClassVar[str] = "APPEND"

    def fixed(self, accepted: AbstractSet[date]) -> AbstractSet[date]:
        """All: accepted partitions stay as they were added."""
        return accepted


def append() -> Append:
    """Partitions are only added: one that has an accepted version, an empty one too, is never changed by a run.

    Such a table stays as it was published when its inputs, code or references change; `backfill stale` lists it. To
    correct it, roll back the publication that added the partitions and plan them again.
    """
    return Append()
