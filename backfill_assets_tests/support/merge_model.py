"""A model of merging in pandas: what the content of partitions is, and what is refused, without Spark and tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

import pandas as pd

COLUMNS = ["day", "account", "amount", "version"]


@dataclass(frozen=True, kw_only=True)
class MergedByHand:
    """What merging gives.

    Attributes:
        rows: The new content of the run's partitions, in order; only meaningful if nothing is refused.
        elsewhere: Partitions outside of the run that have accepted rows of changed keys.
        twice: Whether two changes share their key.
        older: Whether a change is older than the accepted row of its key.
    """

    rows: list[tuple[date, str, int, int]]
    elsewhere: frozenset[date]
    twice: bool
    older: bool

    @property
    def is_refused(self) -> bool:
        return bool(self.elsewhere) or self.twice or self.older


def merged_by_hand(
    accepted: pd.DataFrame, changes: pd.DataFrame, run: Collection[date], *, on: Sequence[str], ignores: bool
) -> MergedByHand:
    """Merges changes with accepted rows.

    Args:
        accepted: Every accepted row of the table.
        changes: The changes whose rows are in partitions of the run, with the column `gone`.
        run: The partitions of the run.
        on: What identifies a row.
        ignores: Whether older changes are left out; otherwise they are refused.
    """
    keys, kept = list(on), changes
    known = {tuple(row[:-1]): row[-1] for row in accepted[[*keys, "version"]].itertuples(index=False)}
    if ignores:
        kept = kept[kept["version"] == kept.groupby(keys)["version"].transform("max")]
    versions = [tuple(row) for row in kept[[*keys, "version"]].itertuples(index=False)]
    is_older = pd.Series([row[-1] < known.get(row[:-1], row[-1]) for row in versions], kept.index, dtype=bool)
    older = not ignores and bool(is_older.any())
    if ignores:
        kept = kept[~is_older]
    named = {tuple(row) for row in kept[keys].itertuples(index=False)}
    is_named = accepted[keys].apply(tuple, axis=1).isin(named) if len(accepted) else pd.Series(dtype=bool)
    inside = accepted["day"].isin(list(run))
    stays, new = accepted[inside & ~is_named.reindex(accepted.index, fill_value=False)], kept[~kept["gone"]]
    rows = pd.concat([stays[COLUMNS], new[COLUMNS]])
    elsewhere = accepted[~inside & is_named.reindex(accepted.index, fill_value=False)]["day"]
    return MergedByHand(
        rows=as_rows(rows),
        elsewhere=frozenset(elsewhere),
        twice=bool(kept.duplicated(keys).any()),
        older=older,
    )


def as_rows(frame: pd.DataFrame) -> list[tuple[date, str, int, int]]:
    """Rows in order, as plain values."""
    rows = frame[COLUMNS].astype({"amount": "int64", "version": "int64"}).itertuples(index=False)
    return sorted((row[0], row[1], int(row[2]), int(row[3])) for row in rows)


def frame_of(rows: Collection[tuple[date, str, int, int]]) -> pd.DataFrame:
    """A frame of rows, also of none."""
    return pd.DataFrame(sorted(rows), columns=COLUMNS)
