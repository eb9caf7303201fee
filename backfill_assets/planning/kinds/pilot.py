"""Pilot: only some rows of each partition change; all others stay as they are accepted. A plan asks for it, no table
declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.next_steps import Invocation
from backfill_assets.planning.kinds.change import CHANGE, Change, ReadClaims, Scope, T
from backfill_assets.planning.next_steps import plans

if TYPE_CHECKING:
    from backfill_assets.planning.kinds.merge import Merge
    from backfill_assets.planning.state import AcceptedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot(Change):
    """The rows of a scope change."""

    kind: ClassVar[str] = "PILOT"

    rows: Scope  #: The rows that change.

    @property
    def document(self) -> Mapping[str, Any]:
        where = [f"{column}={value}" for column, value in self.rows.where]
        return {"kind": self.kind, "where": where, "is_rest": self.rows.is_rest}

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The scope decides which rows are computed ones."""
        return {CHANGE: self.document}

    @property
    def scope(self) -> Scope:
        """The rows that change."""
        return self.rows

    @property
    def keeps_rows(self) -> bool:
        """Rows outside of the scope stay."""
        return True

    def claims_merged(self, claims: ReadClaims, partitions: Sequence[date]) -> Mapping[date, AcceptedPartition]:
        """Those of its partitions, whose other rows stay."""
        return claims(partitions)

    def merges_with(self, partition: date, accepted: Sequence[date]) -> Sequence[date]:
        """The partition itself."""
        return (partition,)

    def planned_again(self, table: str, grain: Grain, partitions: Sequence[date]) -> Sequence[Invocation]:
        """With the same scope."""
        return [plan.also(*self.rows.options) for plan in plans(table, grain, partitions)]

    def content(self, *, computed: Callable[[], T], merged: Callable[[Merge], T], piloted: Callable[[Scope], T]) -> T:
        """Computed rows of the scope beside the accepted ones."""
        return piloted(self.rows)

    def gates(self, declared: tuple[T, ...], own: Mapping[str, T]) -> tuple[T, ...]:
        """One more."""
        return *declared, own["outside_scope"]

    def constant_columns(self, lineage: Mapping[str, str]) -> Mapping[str, str]:
        """None: accepted rows that stay go on naming the runs that computed them."""
        return {}
