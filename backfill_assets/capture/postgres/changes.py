"""Changes of a table of PostgreSQL: from the messages of pgoutput, with the columns that the table had when they were
made.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from struct import unpack_from

from backfill_assets.capture.errors import CannotBeCaptured, ChangesUnreadable

# Columns of a table of PostgreSQL over time: whether changes of before have the values of the columns of now.
#
# Changes name columns as they were called when they were made, and the catalog says how they are called now.
# Between two captures columns are renamed, dropped, added again and rewritten, which no change tells. So each
# capture pins what the catalog has of the columns, and what cannot be the same column is refused: nothing is
# taken as null for that.

_TEXTS = frozenset({25, 1043})
"""Types whose values are the same texts: text and varchar."""
_NUMERIC, _HEADER = 1700, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column as the catalog has it."""

    number: int  #: Its number in the table, which no other column gets, also after it was dropped.
    type_oid: int
    modifier: int  #: What else is said of the type, such as the digits of a number; -1 for nothing.
    row_of: str  #: The transaction that last wrote its row of the catalog.
    is_toastable: bool = False  #: True if its values can be stored out of line.
    is_generated: bool = False  #: True if its values are computed, so that changes do not have them.


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
        """The reason why earlier rows lack the present columns; None when they have them."""
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
        """The reason why changes with these columns lack the present ones; None when they have them."""
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


# pgoutput: from the messages of PostgreSQL's own logical decoding to the changes of one table.
#
# Protocol version 1: transactions are whole and in the order of their commits. Values are the texts that the
# server makes of them. Nothing here reads or writes.

Row = Mapping[str, str | None]

_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_BOOL, _BYTEA = 16, 17
_UNCHANGED = object()
"""A value that an update left where it is stored, out of line, and that its message does not have."""


def lsn_text(number: int) -> str:
    """A position in the write-ahead log as a text that sorts like it: both halves with all their digits."""
    return f"{number >> 32:08X}-{number & 0xFFFFFFFF:08X}"


def lsn_number(text: str) -> int:
    """A position in the write-ahead log, from our text or from the server's."""
    high, low = text.replace("/", "-").split("-")
    return int(high, 16) << 32 | int(low, 16)


def value_of(text: str | None, type_oid: int) -> str | None:
    """A value as landing reads it, from the text that the server makes of it."""
    if text is None or type_oid not in (_BOOL, _BYTEA):
        return text
    if type_oid == _BOOL:
        return "true" if text == "t" else "false"
    return base64.b64encode(bytes.fromhex(text.removeprefix("\\x"))).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the table."""

    operation: str  #: `insert`, `update`, `delete` or `truncate`.
    lsn: int  #: Where the commit of its transaction is in the write-ahead log.
    position: int  #: Its number among the changes of its transaction, from 1.
    committed_at: datetime
    row: Row  #: The values by column; of a delete those that the server tells.


@dataclass(frozen=True, slots=True)
class _Relation:
    """The table as it was when a change was made."""

    columns: tuple[NamedThen, ...]  #: Its columns in their order.
    has_all: bool  #: True if changes have the whole old row.
    complaint: str | None  #: Why its changes do not have the columns of now; null when they have.


@dataclass(slots=True, kw_only=True)
class Decoder:
    """Reads messages in their order."""

    name: str  #: What errors call the table.
    oid: int  #: The object that it is in its database.
    key: Sequence[str]  #: The columns of the source's key.
    columns: Sequence[str]  #: The columns that are wanted.
    over_time: Columns | None = None  #: Those of the table, of now and of the capture before; null where any are taken.
    base: Mapping[int, int] = field(default_factory=dict)  #: The types that domains are of, by type.
    #: Where the last snapshot was taken. Changes of before that cannot be read are left out, because it has what became
    #: of them.
    covered_to: int = 0
    _relation: _Relation | None = field(default=None, init=False)

    def changes(self, messages: Iterable[bytes]) -> Iterator[Change]:
        """The changes of the table, in the order of their commits and then as they were made."""
        lsn, position, committed_at = 0, 0, _BEGINNING
        for message in messages:
            match message[:1]:
                case b"B":
                    lsn, microseconds = unpack_from("!Qq", message, 1)
                    position, committed_at = 0, _BEGINNING + timedelta(microseconds=microseconds)
                    continue
                case b"R" if self._is_mine(message):
                    self._relation = self._relation_of(message)
                    continue
                case b"I" | b"U" | b"D" if self._is_mine(message):
                    try:
                        found = list(self._of_row(message, lsn))
                    except (CannotBeCaptured, ChangesUnreadable):
                        if lsn >= self.covered_to:
                            raise
                        continue
                case b"T" if self.oid in unpack_from(f"!{unpack_from('!I', message, 1)[0]}I", message, 6):
                    found = [("truncate", {})]
                case _:
                    continue
            for operation, row in found:
                position += 1
                yield Change(operation=operation, lsn=lsn, position=position, committed_at=committed_at, row=row)

    def _is_mine(self, message: bytes) -> bool:
        return bool(unpack_from("!I", message, 1)[0] == self.oid)

    def _of_row(self, message: bytes, lsn: int) -> Iterator[tuple[str, Row]]:
        """An update of the key is a delete of the old one and an insert of the new one."""
        relation = self._relation
        assert relation is not None, "the server describes a table before its changes"
        if relation.complaint is not None:
            raise ChangesUnreadable(name=self.name, why=relation.complaint)
        kind, at = message[5:6], 6
        old: dict[str, object] = {}
        if kind != b"N":
            old, at = self._tuple(message, at, relation, all_columns=kind == b"O")
            kind, at = message[at : at + 1], at + 1
        if message[:1] != b"I":
            self._require_key(relation)
        if message[:1] == b"D":
            yield "delete", self._wanted(old, lsn)
            return
        new, _ = self._tuple(message, at, relation, all_columns=True)
        row = self._wanted(
            {name: old.get(name, value) if value is _UNCHANGED else value for name, value in new.items()}, lsn
        )
        if message[:1] == b"I":
            yield "insert", row
        elif old and any(old[name] != row[name] for name in self.key):
            yield "delete", self._wanted(old, lsn)
            yield "insert", row
        else:
            yield "update", row

    def _require_key(self, relation: _Relation) -> None:
        identifying = {each.name for each in relation.columns if each.identifies}
        if lacking := [name for name in self.key if name not in identifying and not relation.has_all]:
            raise CannotBeCaptured(
                name=self.name, why=f"its replica identity has no {lacking[0]}, which is its key here"
            )

    def _wanted(self, values: Mapping[str, object], lsn: int) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name in self.columns:
            value = values.get(name)
            if value is _UNCHANGED:
                why = f"one at {lsn_text(lsn)} left {name} as it was, and does not say what that is"
                raise ChangesUnreadable(name=self.name, why=why)
            if name in values:
                found[name] = None if value is None else str(value)
        return found

    def _relation_of(self, message: bytes) -> _Relation:
        at = 5
        for _ in ("schema", "name"):
            at = message.index(b"\0", at) + 1
        (identity, many), at = unpack_from("!cH", message, at), at + 3
        columns = []
        for _ in range(many):
            end = message.index(b"\0", at + 1)
            type_oid, modifier = unpack_from("!Ii", message, end + 1)
            name, identifies = message[at + 1 : end].decode(), bool(message[at] & 1)
            columns.append(NamedThen(name=name, type_oid=type_oid, modifier=modifier, identifies=identifies))
            at = end + 9
        complaint = None if self.over_time is None else self.over_time.complaint_about(columns)
        return _Relation(columns=tuple(columns), has_all=identity == b"f", complaint=complaint)

    def _tuple(
        self, message: bytes, at: int, relation: _Relation, *, all_columns: bool
    ) -> tuple[dict[str, object], int]:
        """The values of a row by column, and where the message goes on. Of an old row that has only what identifies it,
        the other columns are not null: they are not told."""
        (many,), at = unpack_from("!H", message, at), at + 2
        found: dict[str, object] = {}
        for column in relation.columns[:many]:
            kind, at = message[at : at + 1], at + 1
            value: object = None
            if kind == b"u":
                value = _UNCHANGED
            elif kind == b"t":
                (size,), at = unpack_from("!I", message, at), at + 4
                type_oid = self.base.get(column.type_oid, column.type_oid)
                value = value_of(message[at : at + size].decode(), type_oid)
                at += size
            if all_columns or column.identifies:
                found[column.name] = value
        return found, at
