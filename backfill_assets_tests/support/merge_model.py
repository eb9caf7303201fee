"""A model of merging in pandas: what the content of partitions is, and what is refused, without Spark and tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pandas as pd

COLUMNS = ["day", "account", "amount", "version"]
Rows = Collection[tuple[date, str, int, int]]


@dataclass(frozen=True, kw_only=True)
class MergedByHand:
    """What merging gives."""

    #: The new content of the run's partitions, in order; only meaningful if nothing is refused.
    rows: list[tuple[date, str, int, int]]
    taken_back: int  #: How many accepted rows of these partitions have a key that no change names.
    elsewhere: frozenset[date]  #: Partitions outside of the run on which the rows of its keys depend.
    twice: bool  #: Whether two changes share their key.
    older: bool  #: Whether a change is older than the accepted row of its key.

    @property
    def is_refused(self) -> bool:
        return bool(self.elsewhere) or self.twice or self.older


def merged_by_hand(
    accepted: Rows,
    held: Collection[date],
    changes: pd.DataFrame,
    run: Collection[date],
    *,
    on: Sequence[str],
    ignores: bool,
    keeps: bool = False,
) -> MergedByHand:
    """Merges changes with accepted rows, key by key.

    Args:
        accepted: Every accepted row of the table.
        held: The partitions that have an accepted version, also one without rows.
        changes: The changes whose rows are in partitions of the run, with the column `gone`.
        run: The partitions of the run.
        on: What identifies a row.
        ignores: Whether older changes are left out; otherwise they are refused.
        keeps: Whether accepted rows stay whose key no change names.
    """
    at = [COLUMNS.index(name) for name in on]
    moves = "day" not in on
    others = set(held) - set(run) if moves else set()
    rows: dict[Any, tuple[Any, ...]] = {tuple(row[place] for place in at): row for row in accepted}
    named: dict[Any, list[tuple[Any, ...]]] = {}
    for change in changes[[*COLUMNS, "gone"]].itertuples(index=False):
        named.setdefault(tuple(change[place] for place in at), []).append(tuple(change))
    older = False
    for key, some in list(named.items()):
        row = rows.get(key)
        newest = max(change[3] for change in some)
        if not ignores:
            older |= row is not None and any(change[3] < row[3] for change in some)
            continue
        named[key] = [change for change in some if change[3] == newest]
        if row is not None and newest < row[3] and (keeps or row[0] in others):
            del named[key]
    inside = {key: row for key, row in rows.items() if row[0] in set(run)}
    lost = [key for key in inside if key not in named]
    elsewhere = {row[0] for key, row in rows.items() if key in named and row[0] in others}
    if moves and not keeps and others:
        fell = [key for key, row in inside.items() if key in named and max(c[3] for c in named[key]) < row[3]]
        again = [key for key, some in named.items() if key not in rows and any(not c[4] and c[0] in held for c in some)]
        elsewhere |= others if lost or fell or again else set()
    new = [change[:4] for some in named.values() for change in some if not change[4]]
    stay = [inside[key] for key in lost] if keeps else []
    return MergedByHand(
        rows=sorted((row[0], row[1], int(row[2]), int(row[3])) for row in [*new, *stay]),
        taken_back=len(lost),
        elsewhere=frozenset(elsewhere),
        twice=any(len(some) > 1 for some in named.values()),
        older=older,
    )


def as_rows(frame: pd.DataFrame) -> list[tuple[date, str, int, int]]:
    """Rows in order, as plain values."""
    rows = frame[COLUMNS].astype({"amount": "int64", "version": "int64"}).itertuples(index=False)
    return sorted((row[0], row[1], int(row[2]), int(row[3])) for row in rows)
