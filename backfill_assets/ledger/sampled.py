"""Values of a few rows, and of dimensions, for the reviewers of a run. They are kept only where they can be erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

Values = Mapping[str, str | None]
"""Columns of a row as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRow:
    """A row that moves.

    Attributes:
        partition: The partition it is in.
        key: The columns that identify it, the partition first, as text.
        before: Its other columns as text in the accepted rows; null for an added row.
        after: The same in the new rows; null for a removed row.
    """

    partition: date
    key: Values
    before: Values | None
    after: Values | None

    def document(self) -> Mapping[str, Any]:
        """The row as the ledger keeps it."""
        return {
            "partition": self.partition.isoformat(),
            "key": dict(self.key),
            "before": None if self.before is None else dict(self.before),
            "after": None if self.after is None else dict(self.after),
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> SampledRow:
        """The row that the ledger kept; `parse(row.document()) == row`."""
        return SampledRow(**{**document, "partition": date.fromisoformat(document["partition"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingKey:
    """A row that fails a gate.

    Attributes:
        gate: The gate.
        partition: The partition it is in.
        key: The columns that identify it, the partition first, as text.
    """

    gate: str
    partition: date
    key: Values

    def document(self) -> Mapping[str, Any]:
        """The key as the ledger keeps it."""
        return {"gate": self.gate, "partition": self.partition.isoformat(), "key": dict(self.key)}

    @staticmethod
    def parse(document: Mapping[str, Any]) -> FailingKey:
        """The key that the ledger kept; `parse(found.document()) == found`.

        An upgrade from revision 0002 kept the other columns of the row with it; they are left out.
        """
        partition = date.fromisoformat(document["partition"])
        return FailingKey(gate=document["gate"], partition=partition, key=document["key"])


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownCell:
    """The measures of one month and one combination of business dimensions, before and after.

    Attributes:
        month: Its first day.
        is_new: Whether it counts the partitions without accepted rows, or those with.
        by: The dimensions as text; empty when there were too many combinations of them.
        before: The measures of the accepted rows by name, as text.
        after: The same of the new rows.
        differs: Whether any of these rows differ, even where the measures are the same.
    """

    month: date
    is_new: bool
    by: Values
    before: Mapping[str, str]
    after: Mapping[str, str]
    differs: bool

    def document(self) -> Mapping[str, Any]:
        """The cell as the ledger keeps it."""
        return {
            "month": self.month.isoformat(),
            "is_new": self.is_new,
            "by": dict(self.by),
            "before": dict(self.before),
            "after": dict(self.after),
            "differs": self.differs,
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> BreakdownCell:
        """The cell that the ledger kept; `parse(cell.document()) == cell`."""
        return BreakdownCell(**{**document, "month": date.fromisoformat(document["month"])})
