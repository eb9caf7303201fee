"""Moves: how staged rows differ from the accepted ones, as the gate that compares them records it.

What that gate observes is written and read here alone; the other gates observe counts that are only shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from backfill_assets.domain import ComparedWithAccepted
from backfill_assets.gates.state_moves import StateMove
from backfill_assets.ledger.records import GateResult

COMPARISON = ComparedWithAccepted().name


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """How new rows differ from the accepted rows that they were compared with, in rows.

    Attributes:
        rows: New rows.
        accepted_rows: Accepted rows.
        added: New rows whose key is not accepted.
        removed: Accepted rows whose key is not among the new ones.
        changed: Rows of the same key with another value in some column.
        unchanged: Rows that are equal.
    """

    rows: int
    accepted_rows: int
    added: int
    removed: int
    changed: int
    unchanged: int

    @property
    def differing(self) -> int:
        return self.added + self.removed + self.changed


def observed(
    moves: Moves, changed_columns: Mapping[str, int], state_moves: Iterable[StateMove] = (), **limits: int | None
) -> Mapping[str, Any]:
    """What the comparison observes in one partition, and its limits, as it is recorded."""
    states = [asdict(each) for each in state_moves]
    return {
        **asdict(moves),
        "changed_columns": dict(changed_columns),
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({"state_moves": states} if states else {}),
    }


def moves_in(result: GateResult) -> Moves | None:
    """What the comparison found in one partition; None for the result of another gate."""
    if result.gate != COMPARISON:
        return None
    return Moves(**{each.name: int(result.observed.get(each.name, 0)) for each in fields(Moves)})


def state_moves_in(result: GateResult) -> tuple[StateMove, ...]:
    """From which listed value to which rows have moved in one partition; none for the result of another gate."""
    found = result.observed.get("state_moves", ()) if result.gate == COMPARISON else ()
    return tuple(StateMove(**each) for each in found)


def changed_columns_in(result: GateResult) -> Mapping[str, int]:
    """By column, how many keys have another value than the accepted one; empty for the result of another gate."""
    found: Mapping[str, int] = result.observed.get("changed_columns", {}) if result.gate == COMPARISON else {}
    return found
