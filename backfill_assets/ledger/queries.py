"""Base of all ledger queries: a connection inside one transaction, and lists of any length in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, TypeVar, cast

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, func, select
from sqlalchemy.sql import Executable

from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger.errors import Damaged, NotInLedger

T = TypeVar("T")

BATCH = 2_000
"""How many values one IN list holds: far below the limits of both databases, and 5,000 days take three queries."""

PAGE = 1_000
"""How many rows of a long history are held at once."""


Unreadable = Callable[[str, BackfillError], None]
"""Called with what cannot be read and why, so that the rest can be."""


class Queries:
    """The queries of one aggregate within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _rows(self, statement: Executable) -> list[Row[Any]]:
        # Fetched at once: row by row, SQLAlchemy takes twice as long.
        return list(self._connection.execute(statement).all())

    def _rows_with(
        self, statement: Select[*tuple[Any, ...]], column: ColumnElement[Any], values: Iterable[Any] | None
    ) -> Iterator[Row[Any]]:
        """The rows whose column has one of these values, however many these are; all rows where None are named."""
        if values is None:
            yield from self._rows(statement)
        else:
            for batch in batches(values):
                yield from self._rows(statement.where(column.in_(batch)))

    def _ends(self, column: ColumnElement[date]) -> tuple[date, date] | None:
        """The least and the greatest value of a column; None of no rows."""
        (row,) = self._rows(select(func.min(column).label("first"), func.max(column).label("last")))
        return None if row.first is None else (row.first, row.last)

    def _named(
        self,
        statement: Select[*tuple[Any, ...]],
        key: Column[str],
        *,
        kind: str,
        name: str,
        also: Column[str] | None = None,
    ) -> Row[Any]:
        """The row of what has an id.

        Args:
            also: The ids of what a reader can mean as well, where only a part of an id was typed.

        Raises:
            NotInLedger: There is none; the error names the only one whose id begins like that, or has it elsewhere.
            Damaged: There is one, and rows that belong to it are not there any more.
        """
        row = self._row(statement.where(key == name))
        if row is None:
            if self._values(select(key).where(key == name)):
                what = f"rows of the {kind} {name} were removed from the ledger."
                raise Damaged(what=what, of={f"{kind.split()[-1]}_id": name})
            raise NotInLedger(kind=kind, name=name, near=self._meant(name, [key, *([] if also is None else [also])]))
        return row

    def _meant(self, name: str, keys: Sequence[Column[str]]) -> str:
        """The only id that begins with a text; where none does, the only one that has it elsewhere; else nothing."""
        for has in (ColumnElement.startswith, ColumnElement.contains) if name else ():
            found = [
                each
                for key in keys
                for each in self._values(select(key).where(has(key, name, autoescape=True)).limit(2))
            ]
            if found:
                return found[0] if len(found) == 1 else ""
        return ""

    def _highest(self, number: Column[int], *of: ColumnElement[bool]) -> int:
        """The highest number that was given so far; 0 before the first."""
        return int(self._values(select(func.coalesce(func.max(number), 0)).where(*of))[0])

    def _columns(self, statement: Executable) -> list[tuple[Any, ...]]:
        """Rows as plain tuples: by name, a hundred thousand of them take twice as long."""
        return cast("list[tuple[Any, ...]]", self._rows(statement))

    def _paged(self, statement: Select[*tuple[Any, ...]], key: Column[Any], *, after: object) -> Iterator[Row[Any]]:
        """Rows in the order of a unique column of theirs, a page at a time, so that a long history needs no memory.

        Pages and not an open cursor: a caller that stops reading half-way leaves nothing behind.
        """
        following = statement.order_by(key).limit(PAGE)
        page = self._rows(following.where(key > after))
        while page:
            yield from page
            page = self._rows(following.where(key > page[-1]._mapping[key])) if len(page) == PAGE else []

    def _streamed(self, statement: Select[*tuple[Any, ...]], page: int = PAGE) -> Iterator[Row[Any]]:
        """Rows in the order of a statement, a page at a time; the cursor is closed where a caller stops half-way."""
        with self._connection.execute(statement.execution_options(yield_per=page)) as found:
            yield from found

    def _row(self, statement: Executable) -> Row[Any] | None:
        return self._connection.execute(statement).first()

    def _values(self, statement: Executable) -> list[Any]:
        return list(self._connection.execute(statement).scalars())


def readable(
    found: Iterable[Row[Any]], read: Callable[[Row[Any]], T], *, name: str, unreadable: Unreadable | None
) -> Iterator[T]:
    """The records of rows.

    Args:
        name: The column that says what a row is of.
        unreadable: Called with rows that are refused; None to be refused as a whole.
    """
    for row in found:
        try:
            yield read(row)
        except BackfillError as error:
            if unreadable is None:
                raise
            unreadable(row._mapping[name], error)


def batches(values: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """The distinct values in order, cut into lists that fit into one statement."""
    chosen = list(dict.fromkeys(values))
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]
