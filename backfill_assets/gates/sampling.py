"""Sampling: which partitions and which kinds of rows are shown to a reviewer. Pure: nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum

from backfill_assets.gates.measure import Measured


class RowKind(StrEnum):
    """How a row differs, in the order in which places are given out.

    STATE: on both sides, with another value of a dimension or of a column with few values. CHANGED: on both sides, with
    other values of other columns.
    """

    STATE = "STATE"
    ADDED = "ADDED"
    REMOVED = "REMOVED"
    CHANGED = "CHANGED"


def rows_of_kind(found: Measured, kind: RowKind) -> int:
    """How many rows of a partition differ in this way, as far as its gates list the values of its columns."""
    match kind:
        case RowKind.STATE:
            return sum(each.rows for each in found.state_moves if each.is_another_state)
        case RowKind.ADDED:
            return found.added
        case RowKind.REMOVED:
            return found.removed
        case RowKind.CHANGED:
            return found.changed


def most_moved(measured: Mapping[date, Measured], *, most: int = 3) -> tuple[date, ...]:
    """The partitions that rows are sampled from; none without changes.

    Args:
        measured: The measurements of partitions with accepted rows.
        most: How many partitions, unless more are needed to have the one with the most rows of every kind.
    """
    moved = {p: m.added + m.removed + m.changed for p, m in measured.items()}
    ranked = sorted((p for p, count in moved.items() if count), key=lambda p: (-moved[p], p))
    best = [
        max(ranked, key=lambda p: (rows_of_kind(measured[p], kind), moved[p], -p.toordinal()))
        for kind in RowKind
        if any(rows_of_kind(measured[p], kind) for p in ranked)
    ]
    chosen = list(dict.fromkeys([*best, *ranked]))
    return tuple(sorted(chosen[: max(most, len(set(best)))]))


def places(there: Mapping[RowKind, int], most: int) -> Mapping[RowKind, int]:
    """How many rows of each kind are shown: the same number of all, and what a kind cannot fill goes to the others.

    Args:
        there: How many rows of each kind there are.
        most: How many are shown together.
    """
    given = dict.fromkeys(RowKind, 0)
    while sum(given.values()) < most:
        wanting: Sequence[RowKind] = [kind for kind in RowKind if given[kind] < there.get(kind, 0)]
        if not wanting:
            break
        for kind in wanting[: most - sum(given.values())]:
            given[kind] += 1
    return given
