"""Load: days of a source table are built from landed files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.identity import plain
from backfill_assets.core.next_steps import Invocation
from backfill_assets.planning.kinds.change import Change
from backfill_assets.planning.next_steps import loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Change):
    """Days are built from landed files, all in chunks of the same size, and have no window to prove."""

    kind: ClassVar[str] = "LOAD"

    imports: tuple[str, ...] = ()  #: The ids of the landed files.
    declared_empty: tuple[date, ...] = ()  #: Days on which nothing happened, as the requester states.

    @property
    def document(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "imports": list(self.imports), "declared_empty": plain(self.declared_empty)}

    def planned_again(self, table: str, grain: Grain, partitions: Sequence[date]) -> Sequence[Invocation]:
        """Days that were declared empty are declared so again."""
        declared = set(self.declared_empty)
        landed, empty = ([day for day in partitions if (day in declared) is wanted] for wanted in (False, True))
        return [*loads(table, landed), *loads(table, empty, empty=True)]


LOAD = Load()
"""The change of every source table; that of a run names its files."""
