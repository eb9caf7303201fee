"""Moves: how staged rows differ from the accepted ones, as the gate that compares them records it.

Besides counts, which states rows moved between. What that gate observes is written and read here alone; the other gates
observe counts that are only shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from backfill_assets.core.identity import fields_of
from backfill_assets.domain import AcceptedValues, ComparedWithAccepted, Table
from backfill_assets.ledger.findings import GateResult

COMPARISON = ComparedWithAccepted().name


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDiff:
    """The differences between new rows and the accepted rows that they were compared with, in rows."""

    rows: int  #: New rows.
    accepted_rows: int  #: Accepted rows.
    added: int  #: New rows whose key is not accepted.
    removed: int  #: Accepted rows whose key is not among the new ones.
    changed: int  #: Rows of the same key with another value in some column.
    unchanged: int  #: Rows that are equal.

    @property
    def differing(self) -> int:
        return self.added + self.removed + self.changed


def observed(
    moves: RowDiff, changed_columns: Mapping[str, int], state_moves: Iterable[StateMove] = (), **limits: int | None
) -> Mapping[str, Any]:
    """The comparison's observations in one partition, and its limits, as they are recorded."""
    states = [fields_of(each) for each in state_moves]
    return {
        **fields_of(moves),
        "changed_columns": dict(changed_columns),
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({"state_moves": states} if states else {}),
    }


def moves_in(result: GateResult) -> RowDiff | None:
    """The moves that the comparison found in one partition; None for the result of another gate."""
    if result.gate != COMPARISON:
        return None
    return RowDiff(**{each.name: int(result.observed.get(each.name, 0)) for each in fields(RowDiff)})


def state_moves_in(result: GateResult) -> tuple[StateMove, ...]:
    """From which listed value to which rows have moved in one partition; none for the result of another gate."""
    found = result.observed.get("state_moves", ()) if result.gate == COMPARISON else ()
    return tuple(StateMove(**each) for each in found)


def changed_columns_in(result: GateResult) -> Mapping[str, int]:
    """By column, how many keys have another value than the accepted one; empty for the result of another gate."""
    found: Mapping[str, int] = result.observed.get("changed_columns", {}) if result.gate == COMPARISON else {}
    return found


NONE_OF_THESE = "(no accepted value)"
"""Stands for null and for every value that is not listed."""

MOST_PAIRS = 100
"""Columns whose values have more pairs than these, together with the columns before them, are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMove:
    """The number of differing rows that had one value and have another, or still have the same."""

    column: str  #: The column.
    before: str | None  #: Its accepted value; null for rows that are added.
    after: str | None  #: Its new value; null for rows that are removed.
    rows: int  #: How many rows.

    @property
    def is_another_state(self) -> bool:
        """True if the row is on both sides, with another value."""
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """A column whose values are listed, so that moves between them are counted."""

    column: str
    values: tuple[str, ...]


def coded_columns(table: Table, compared: Sequence[str]) -> tuple[Coded, ...]:
    """The columns of a table whose values its gates list, in the order of the gates, up to MOST_PAIRS.

    Args:
        table: The declaration.
        compared: The columns that are compared, without those of the key.
    """
    listed = {gate.column: gate.values for gate in table.gates if isinstance(gate, AcceptedValues)}
    found: list[Coded] = []
    pairs = 0
    for column, values in listed.items():
        pairs += (len(values) + 2) ** 2
        if column in compared and pairs <= MOST_PAIRS:
            found.append(Coded(column=column, values=values))
    return tuple(found)


def added_up(moves: Iterable[StateMove]) -> tuple[StateMove, ...]:
    """The pairs of values of several partitions added up, those with the most rows first within each column."""
    total: dict[tuple[str, str | None, str | None], int] = {}
    for each in moves:
        pair = (each.column, each.before, each.after)
        total[pair] = total.get(pair, 0) + each.rows
    order = {column: place for place, column in enumerate(dict.fromkeys(column for column, _, _ in total))}
    ranked = sorted(total.items(), key=lambda item: (order[item[0][0]], -item[1], str(item[0])))
    return tuple(StateMove(column=c, before=b, after=a, rows=rows) for (c, b, a), rows in ranked)
