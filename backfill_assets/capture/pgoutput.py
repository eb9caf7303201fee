"""pgoutput: from the messages of PostgreSQL's own logical decoding to the changes of one table.

Protocol version 1: transactions are whole and in the order of their commits. Values are the texts that the server makes
of them. Nothing here reads or writes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from struct import unpack_from

from backfill_assets.capture.errors import CannotBeCaptured, ChangesUnreadable, UnknownValue
from backfill_assets.capture.postgres_columns import Columns, NamedThen

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
    committed_at: datetime  #: When that committed.
    row: Row  #: The values by column; of a delete those that the server tells.


@dataclass(frozen=True, slots=True)
class _Relation:
    """The table as it was when a change was made."""

    columns: tuple[NamedThen, ...]  #: Its columns in their order.
    has_all: bool  #: Whether changes have the whole old row.
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
                    except (CannotBeCaptured, ChangesUnreadable, UnknownValue):
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
                raise UnknownValue(name=self.name, column=name, position=lsn_text(lsn))
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
