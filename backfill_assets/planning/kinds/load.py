"""Load: days of a source table are built from landed files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backfill_assets.planning.kinds.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Change):
    """Days are built from landed files, all in chunks of the same size, and have no window to prove."""

    kind: ClassVar[str] = "LOAD"


LOAD = Load()
