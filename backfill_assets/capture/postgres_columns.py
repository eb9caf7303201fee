"""Columns of a table of PostgreSQL over time: whether changes of before have the values of the columns of now.

Changes name columns as they were called when they were made, and the catalog says how they are called now. Between two
captures columns are renamed, dropped, added again and rewritten, which no change tells. So each capture pins what the
catalog has of the columns, and what cannot be the same column is refused: nothing is taken as null for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_TEXTS = frozenset({25, 1043})
"""Types whose values are the same texts: text and varchar."""
_NUMERIC, _HEADER = 1700, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column as the catalog has it."""

    number: int  #: Its number in the table, which no other column gets, also after it was dropped.
    type_oid: int  #: Its type.
    modifier: int  #: What else is said of the type, such as the digits of a number; -1 for nothing.
    row_of: str  #: The transaction that last wrote its row of the catalog.
    is_toastable: bool = False  #: Whether its values can be stored out of line.
    is_generated: bool = False  #: Whether its values are computed, so that changes do not have them.


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedColumns:
    """The columns at a capture, by name, and the file that the server kept the rows in."""

    columns: Mapping[str, TableColumn]
    stored_as: str

    @classmethod
    def read(cls, pinned: Mapping[str, str]) -> PinnedColumns | None:
        """The columns that a capture pinned; null for one that pinned nothing."""
        if "columns" not in pinned:
            return None
        found = {
            name: TableColumn(number=number, type_oid=type_oid, modifier=modifier, row_of=row_of)
            for name, (number, type_oid, modifier, row_of) in json.loads(pinned["columns"]).items()
        }
        return cls(columns=found, stored_as=pinned["stored as"])

    @property
    def text(self) -> Mapping[str, str]:
        columns = {
            name: [each.number, each.type_oid, each.modifier, each.row_of]
            for name, each in self.columns.items()
            if not each.is_generated
        }
        return {"columns": json.dumps(columns, ensure_ascii=False), "stored as": self.stored_as}

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(each.number for each in self.columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedThen:
    """A column as a change names it."""

    name: str
    type_oid: int
    modifier: int
    identifies: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table now and at the capture before."""

    wanted: Sequence[str]  #: The columns of the contract.
    now: Mapping[str, TableColumn]  #: All columns that are not generated, by name.
    before: PinnedColumns | None  #: Those at the capture before; null where it did not pin them.
    stored_as: str  #: The file that the server keeps the rows in now.

    def complaint(self) -> str | None:
        """Why the rows of before do not have the columns of now; null when they have."""
        before = self.before
        if before is None:
            return None
        by_number = {each.number: each for each in before.columns.values()}
        for name in self.wanted:
            column = self.now[name]
            was = by_number.get(column.number)
            if name in before.columns and before.columns[name].number != column.number:
                return f"its column {name} was renamed or dropped since, and is another one now"
            if was is not None and not self._has_values_of(column, was.type_oid, was.modifier):
                return f"the type of its column {name} was changed since"
            if was is not None and self._is_rewritten and was.row_of != column.row_of:
                return f"its column {name} was changed and its rows were rewritten since"
        return None

    @property
    def _is_rewritten(self) -> bool:
        return self.before is not None and self.before.stored_as != self.stored_as

    def _has_values_of(self, now: TableColumn, type_oid: int, modifier: int) -> bool:
        """True if a column has the values of another type, which a change of the type has not rewritten."""
        if (now.type_oid, now.modifier) == (type_oid, modifier):
            return True
        if self._is_rewritten:
            return False
        if now.type_oid == type_oid == _NUMERIC:
            # More digits before the point, or any number of them, leave all values as they are.
            return now.modifier == -1 or _scale(now.modifier) == _scale(modifier)
        return {now.type_oid, type_oid} <= _TEXTS

    def complaint_about(self, then: Sequence[NamedThen]) -> str | None:
        """Why changes that name these columns do not have those of now under the same names; null when they have."""
        held = {each.name: each for each in then}
        if not self._are_those_of_now(then):
            return "its columns had other names or places when they were made"
        for name in self.wanted:
            column = self.now[name]
            if name not in held:
                if self.before is not None and column.number in self.before.numbers:
                    return f"it had no column {name} when they were made"
            elif not self._has_values_of(column, held[name].type_oid, held[name].modifier):
                return f"its column {name} had another type when they were made"
        return None

    def _are_those_of_now(self, then: Sequence[NamedThen]) -> bool:
        """True if each name is a present column of that name, or a column that was dropped since.

        Columns are named in the order of their numbers, and those that were added since have greater ones.
        """
        live, at = sorted(each.number for each in self.now.values()), 0
        dropped = self._dropped_since()
        gone = next(dropped, None)
        for each in then:
            column = self.now.get(each.name)
            if column is None:
                while gone is not None and gone <= at:
                    gone = next(dropped, None)
                number = gone
            else:
                number = column.number
            if number is None or number <= at or any(at < other < number for other in live):
                return False
            at = number
        return True

    def _dropped_since(self) -> Iterator[int]:
        """The numbers of columns that the capture before had or that were added after it, and that are gone."""
        live = {each.number for each in self.now.values()}
        known = self.before.numbers if self.before is not None else frozenset[int]()
        last = max(known, default=0)
        upper = max([last, *live]) + _MOST_COLUMNS
        return (number for number in range(1, upper) if number not in live and (number in known or number > last))


_MOST_COLUMNS = 1600
"""More a table of PostgreSQL cannot have."""


def _scale(modifier: int) -> int:
    return -1 if modifier < _HEADER else (modifier - _HEADER) & 0x7FF
