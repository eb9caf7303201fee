"""Dialects: how an author declares what the files of a source are written in. Nothing of it is guessed at landing.

Without a dialect files are JSON lines, plain CSV or Parquet, by the suffix of their name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from backfill_assets.core.declaring import declared

Unit = Literal["s", "ms", "us", "ns", "d"]
UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns", "d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Csv:
    """Rows of values with something between them, such as those of a spreadsheet.

    Args:
        delimiter: What is between two values, such as `;` or a tab; one or more characters.
        quote: What is around a value that holds a delimiter or a line break; empty where nothing is.
        escape: What is before a quote, or before itself, inside a quoted value, such as a backslash; empty where a
            quote is written twice. Without quotes it is what dumps of databases have before a delimiter, a line break,
            itself and `letters`.
        letters: Whether the escape makes another character of a letter, also inside a quoted value: `\\n` a line break,
            `\\t` a tab. Without quotes it does so in any case, and `\\N` alone is no value.
        encoding: What its characters are written in, by a name that Python knows, such as `latin-1`.
        decimal: What is before the fraction of a number.
        thousands: What is between groups of three digits of a number; empty where nothing is.
        null: Texts that stand for no value, in columns of every type, such as `NA`.
        true: Texts that stand for true.
        false: Texts that stand for false.
        skip: How many lines are before the header, or before the first row where there is none.
        comment: What lines begin with that are no rows; empty where there are none.
        trim: Whether blanks around a value that has no quotes are no part of it.
        header: Whether the first row names the columns. Without it `columns` names them by position, from 0.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    letters: bool = False
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    null: tuple[str, ...] = ()
    true: tuple[str, ...] = ("true",)
    false: tuple[str, ...] = ("false",)
    skip: int = 0
    comment: str = ""
    trim: bool = False
    header: bool = True

    def mistakes(self) -> Iterator[str]:
        if not self.delimiter:
            yield "the delimiter of its Csv is empty"
        for name in ("quote", "escape", "decimal", "thousands"):
            if len(value := getattr(self, name)) > 1:
                yield f"{name} of its Csv is {value!r:.60}, and has to be one character"
        if not self.decimal or self.decimal.isdigit():
            yield f"decimal of its Csv is {self.decimal!r:.60}, and has to be what is before the fraction of a number"
        if self.thousands and (self.thousands.isdigit() or self.thousands in (self.decimal, "+", "-")):
            yield f"thousands of its Csv is {self.thousands!r:.60}, which a number has otherwise"
        if self.quote and self.quote in self.delimiter:
            yield "the delimiter of its Csv has the quote in it"
        if self.escape and (self.escape.isalnum() or self.escape in self.delimiter):
            yield f"escape of its Csv is {self.escape!r:.60}, and has to be a sign that values are not made of"
        if self.letters and not self.escape:
            yield "its Csv has letters behind an escape, and names none"
        if any(end in text for text in (self.delimiter, self.quote, self.escape) for end in "\r\n"):
            yield "its Csv has a line break for something else than the end of a line"
        if self.skip < 0:
            yield f"skip of its Csv is {self.skip}, and has to be a number of lines"
        if both := sorted({*self.true} & {*self.false} | {*self.null} & {*self.true, *self.false}):
            yield f"{both[0]!r} stands for two things in its Csv"
        yield from _mistakes_of_encoding(self.encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Json:
    """Documents of JSON that are no lines of one object each: arrays, an object with a list, objects in a row.

    Args:
        records: Where a document has the list of its records, such as `features` or `result.items`; empty where each
            document is a record, or with `array` a list of records.
        array: Whether a document is the list of its records.
    """

    records: str = ""
    array: bool = False

    def mistakes(self) -> Iterator[str]:
        if self.records and self.array:
            yield "its Json has records at a path, and says that a document is the list of them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Avro:
    """Object container files of Avro, which have their schema with them."""

    def mistakes(self) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Xlsx:
    """Workbooks of a spreadsheet, of which a sheet is read.

    Args:
        sheet: The name of the sheet; empty for the only one.
        skip: How many rows are before the header.
    """

    sheet: str = ""
    skip: int = 0

    def mistakes(self) -> Iterator[str]:
        if self.skip < 0:
            yield f"skip of its Xlsx is {self.skip}, and has to be a number of rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maxwell:
    """Records as Maxwell writes them of changes of MySQL, with the position of each (`output_binlog_position`).

    They land from files of JSON lines and from topics, as change events:
    `envelope=Debezium(table="shop.orders", connector="mysql")`.
    """

    def mistakes(self) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Canal:
    """Flat messages as Canal writes them of changes of MySQL, and TiCDC as `canal-json`.

    They land from files of JSON lines and from topics, as change events:
    `envelope=Debezium(table="shop.orders", connector="mysql")`. Two changes of a key that are equal in what orders them
    are refused, unless the source declares `ties="arrival"`.

    Args:
        by: What orders the messages: "gtid", the set of transactions (`canal.instance.gtidon`); "commitTs" of TiCDC
            (`enable-tidb-extension`); or "es", the second in which a statement began. A file in which `es` goes back is
            refused.
    """

    by: Literal["gtid", "commitTs", "es"] = "gtid"

    def mistakes(self) -> Iterator[str]:
        if self.by not in ("gtid", "commitTs", "es"):
            yield f"by of its Canal is {self.by!r:.60}, and messages are ordered by 'gtid', 'commitTs' or 'es'"


Dialect = Csv | Json | Avro | Xlsx | Maxwell | Canal


@declared
@dataclass(frozen=True)
class Epoch:
    """The form of times that are written as a number since 1970 began in UTC, such as `Epoch("ms")`.

    Args:
        unit: What one is: "s", "ms", "us" or "ns"; "d" for days, of dates.
    """

    unit: Unit


Form = str | Epoch
"""How a time is written: a pattern of Spark's, such as `M/d/yyyy HH:mm`, or a number since 1970."""


def _mistakes_of_encoding(encoding: str) -> Iterator[str]:
    try:
        is_text = bool("a".encode(encoding))
    except (LookupError, UnicodeError, ValueError, TypeError):
        is_text = False
    if not is_text:
        yield f"encoding of its Csv is {encoding!r:.60}, which Python does not know: write one such as 'latin-1'"
