"""Expire: accepted snapshots expire that their table does not keep. Nothing is computed, and readers see no rows."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from backfill_assets.planning.kept import EXPIRE, RetentionRule
from backfill_assets.planning.kinds.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(Change):
    """Snapshots expire.

    The partitions of such a run are the snapshots that expire. It pins every accepted snapshot of the table: what
    stays, and what goes.
    """

    kind: ClassVar[str] = "EXPIRE"

    keep: RetentionRule  #: Which snapshots the table keeps.

    @property
    def document(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "keep": dict(self.keep.document)}

    @property
    def permits(self) -> AbstractSet[str]:
        """What the table declares about the snapshots that it keeps."""
        return frozenset({EXPIRE})

    def computed(self, partitions: tuple[date, ...]) -> tuple[date, ...]:
        """None: it removes rows."""
        return ()
