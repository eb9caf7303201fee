"""Matrices of states: rows that differ, by their value before and after, one matrix for each column. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backfill_assets.report.measured import StateMove

NOT_THERE = "no row"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """The rows that had one value.

    Attributes:
        before: The value; NOT_THERE for rows that are added.
        counts: How many have each value now, in the order of the columns.
    """

    before: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The rows that differ, by their values in one column.

    Attributes:
        column: The column.
        afters: The values after; NOT_THERE for rows that are removed.
        rows: One for each value before.
    """

    column: str
    afters: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    @property
    def totals(self) -> tuple[int, ...]:
        return tuple(sum(row.counts[place] for row in self.rows) for place in range(len(self.afters)))


def matrices(moves: Iterable[StateMove]) -> tuple[Matrix, ...]:
    """One matrix for each column, in order; values that no such row has are left out."""
    columns: dict[str, dict[tuple[str, str], int]] = {}
    for each in moves:
        pair = (each.before or NOT_THERE, each.after or NOT_THERE)
        columns.setdefault(each.column, {})[pair] = each.rows
    return tuple(_matrix(column, counts) for column, counts in columns.items())


def _matrix(column: str, counts: dict[tuple[str, str], int]) -> Matrix:
    befores, afters = (_ordered([pair[side] for pair in counts]) for side in (0, 1))
    rows = tuple(MatrixRow(before=b, counts=tuple(counts.get((b, a), 0) for a in afters)) for b in befores)
    return Matrix(column=column, afters=afters, rows=rows)


def _ordered(values: Sequence[str]) -> tuple[str, ...]:
    """In alphabetical order, and where there is no row last."""
    return tuple(sorted(set(values), key=lambda value: (value == NOT_THERE, value)))


def states_in_words(moves: Iterable[StateMove], *, most: int = 6) -> tuple[str, ...]:
    """The moves to another state, to new rows and from removed ones, those of the most rows first in every column.

    Args:
        most: How many are told.
    """
    told = [each for each in moves if each.before != each.after]
    words = [f"{m.column}: {m.before or NOT_THERE} \u2192 {m.after or NOT_THERE}: {m.rows:,}" for m in told[:most]]
    return (*words, f"and {len(told) - most:,} more") if len(told) > most else tuple(words)
