"""State moves: from which declared value to which the rows that differ have moved, in columns with few values.

The values are those that an author lists in `accepted(...)`, so that nothing of the rows themselves is kept. They are
counted with the keys, as small numbers, without another pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.domain import AcceptedValues, Table

NONE_OF_THESE = "(no accepted value)"
"""Stands for null and for every value that is not listed."""

MOST_PAIRS = 100
"""Columns whose values have more pairs than these, together with the columns before them, are not counted."""

_BEFORE = 8
_AFTER_BITS = (1 << _BEFORE) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMove:
    """How many rows that differ had one value and have another, or still have the same.

    Attributes:
        column: The column.
        before: Its accepted value; null for rows that are added.
        after: Its new value; null for rows that are removed.
        rows: How many rows.
    """

    column: str
    before: str | None
    after: str | None
    rows: int

    @property
    def is_another_state(self) -> bool:
        """Whether the row is on both sides, with another value."""
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """A column whose values are counted: each has a number from 1, the last one stands for all that are not listed."""

    column: str
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the number is called beside the key of a row."""
        return f"_state_{self.column}"

    def number(self, *, is_accepted: bool) -> Column:
        """The number of a row's value; in other bits for an accepted row, so that a sum holds those of both sides."""
        listed = enumerate(self.values[:-1], start=1)
        code = reduce(
            lambda cases, each: cases.when(F.col(self.column) == each[1], F.lit(each[0])),
            listed,
            F.when(F.lit(False), F.lit(0)),
        ).otherwise(F.lit(len(self.values)))
        return F.shiftleft(code.cast("bigint"), _BEFORE if is_accepted else 0).alias(self.name)

    def pairs(self, changed: Column) -> Iterator[tuple[str, Column]]:
        """Whether a key has moved from one value to another, by a name of the pair: for keys that are on one side or,
        where `changed`, on both."""
        for before, after in self._pairs():
            of_pair = F.col(self.name) == F.lit((before << _BEFORE) + after)
            yield f"{self.name}_{before}_{after}", of_pair & changed if before and after else of_pair

    def found(self, row: Mapping[str, int]) -> Iterator[StateMove]:
        """What the counts of `pairs` found, without the pairs of no rows."""
        for before, after in self._pairs():
            if rows := row.get(f"{self.name}_{before}_{after}", 0):
                yield StateMove(
                    column=self.column,
                    before=self.values[before - 1] if before else None,
                    after=self.values[after - 1] if after else None,
                    rows=rows,
                )

    def _pairs(self) -> Iterator[tuple[int, int]]:
        sides = range(len(self.values) + 1)
        return ((before, after) for before in sides for after in sides if before or after)


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
            found.append(Coded(column=column, values=(*values, NONE_OF_THESE)))
    return tuple(found)


def added_up(moves: Iterable[StateMove]) -> tuple[StateMove, ...]:
    """The same pairs of values of several partitions together, the most rows first within each column."""
    total: dict[tuple[str, str | None, str | None], int] = {}
    for each in moves:
        pair = (each.column, each.before, each.after)
        total[pair] = total.get(pair, 0) + each.rows
    order = {column: place for place, column in enumerate(dict.fromkeys(column for column, _, _ in total))}
    ranked = sorted(total.items(), key=lambda item: (order[item[0][0]], -item[1], str(item[0])))
    return tuple(StateMove(column=c, before=b, after=a, rows=rows) for (c, b, a), rows in ranked)
