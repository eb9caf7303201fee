"""Matrices of states: rows that differ, by their value before and after, one matrix for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backfill_assets.report.measured import StateMove
from backfill_assets.report.page import Table, Value, table

_NOT_THERE = "no row"


def matrices(moves: Iterable[StateMove]) -> Mapping[str, Table]:
    """The matrix of each column, in order; values that no such row has are left out."""
    columns: dict[str, dict[tuple[str, str], int]] = {}
    for each in moves:
        pair = (each.before or _NOT_THERE, each.after or _NOT_THERE)
        columns.setdefault(each.column, {})[pair] = each.rows
    return {column: _matrix(counts) for column, counts in columns.items()}


def _matrix(counts: Mapping[tuple[str, str], int]) -> Table:
    """A row for each value before, a column for each after, in alphabetical order; where there is no row comes last."""
    befores, afters = (
        sorted({pair[side] for pair in counts}, key=lambda value: (value == _NOT_THERE, value)) for side in (0, 1)
    )
    heads = [*afters, "all"]
    rows: list[tuple[Value, ...]] = []
    for before in befores:
        found = [counts.get((before, after), 0) for after in afters]
        rows.append((before, *(count or "\u00b7" for count in found), sum(found)))
    totals = [sum(counts.get((before, after), 0) for before in befores) for after in afters]
    return table(["before \u2193   after \u2192", *heads], rows, numbers=heads, total=["all", *totals, sum(totals)])


def states_in_words(moves: Iterable[StateMove], *, most: int = 6) -> tuple[str, ...]:
    """The moves to another state, to new rows and from removed ones, those of the most rows first in every column.

    Args:
        most: How many are told.
    """
    told = [each for each in moves if each.before != each.after]
    words = [f"{m.column}: {m.before or _NOT_THERE} \u2192 {m.after or _NOT_THERE}: {m.rows:,}" for m in told[:most]]
    return (*words, f"and {len(told) - most:,} more") if len(told) > most else tuple(words)
