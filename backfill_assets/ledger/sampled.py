"""Values of a few rows, for the reviewers of a run. They are kept where they can be erased, and nowhere else."""

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
