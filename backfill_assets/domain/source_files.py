"""Source files: how an author declares what they are written in, the forms of their dates and times, and their names
of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import combinations
from typing import Literal, Protocol
from zoneinfo import ZoneInfo

from pyspark.sql import types as T

from backfill_assets.calendar.patterns import NoPattern, Pattern, patterns_of
from backfill_assets.core.declaring import declared, meant
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.wording import visible
from backfill_assets.domain.declarations import Declared, Kind, wrong

# Dialects: how an author declares what the files of a source are written in. Nothing of it is guessed at landing.
#
# Without a dialect files are JSON lines, plain CSV or Parquet, by the suffix of their name.

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
"""The form of a time: a pattern of Spark's, such as `M/d/yyyy HH:mm`, or a number since 1970."""


def _mistakes_of_encoding(encoding: str) -> Iterator[str]:
    try:
        is_text = bool("a".encode(encoding))
    except (LookupError, UnicodeError, ValueError, TypeError):
        is_text = False
    if not is_text:
        yield f"encoding of its Csv is {encoding!r:.60}, which Python does not know: write one such as 'latin-1'"


# Forms: how the dates and times of a column are written, and the mistakes in what is declared of that.
#
# Several forms of a column are tried in order, so no text may be another time in a later one. That is found by
# construction: each form writes many times, and the others read what it wrote.

Reader = Pattern | Epoch

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (of UTC, as everything that is compared here)
_NUMBER = re.compile("[+-]?[0-9]{1,19}")


def forms_of(declared: Form | tuple[Form, ...]) -> tuple[Form, ...]:
    """The forms of a column, in the order in which they are tried."""
    return declared if isinstance(declared, tuple) else (declared,)


def readers_of(declared: Form | tuple[Form, ...]) -> tuple[Reader, ...]:
    """The readers of a column's texts, in order: a pattern with brackets is several.

    Raises:
        NoPattern: A form is no pattern.
    """
    found: list[Reader] = []
    for form in forms_of(declared):
        found += [form] if isinstance(form, Epoch) else patterns_of(form)
    return tuple(found)


def named(form: Reader | Form) -> str:
    """A form as a sentence names it: as it is declared."""
    if isinstance(form, Epoch):
        return f"Epoch({form.unit!r})"
    return repr(form.text if isinstance(form, Pattern) else form)


def mistakes_of_forms(column: str, declared: Form | tuple[Form, ...], kind: T.DataType, zone: str) -> Iterator[str]:
    """The mistakes in the forms of a column, as what follows the name of its table.

    Args:
        kind: The type of the column.
        zone: The time zone that its source declares; empty without one.
    """
    readers: list[Reader] = []
    for form in forms_of(declared):
        try:
            readers += readers_of(form)
        except NoPattern as error:
            yield f"formats has {named(form)} for {column!r}, and {error}"
            return
    for reader in readers:
        why = _mistake_of_epoch(reader, kind) if isinstance(reader, Epoch) else _mistake_of_type(reader, kind, zone)
        if why:
            yield f"formats has {named(reader)} for {column!r}, and {why}"
            return
    for one, other in combinations(dict.fromkeys(readers), 2):
        if text := read_differently(one, other):
            yield (
                f"formats has {named(one)} and {named(other)} for {column!r}, of which each reads {text!r} as "
                "another time: declare the one that the source writes"
            )
            return


def _mistake_of_epoch(epoch: Epoch, kind: T.DataType) -> str:
    if isinstance(kind, T.TimestampNTZType):
        return "an epoch is an instant: make the column a TIMESTAMP"
    if isinstance(kind, T.TimestampType) and epoch.unit == "d":
        return "days have no time of day: make the column a DATE"
    return ""


def _mistake_of_type(pattern: Pattern, kind: T.DataType, zone: str) -> str:
    if isinstance(kind, T.DateType):
        return ""
    if not pattern.has_time:
        return "it has no time of day: make the column a DATE"
    if isinstance(kind, T.TimestampNTZType) and pattern.has_offset:
        return "it has an offset: make the column a TIMESTAMP"
    if isinstance(kind, T.TimestampType) and not (pattern.has_offset or zone):
        return "it has no offset: declare the timezone of the source, such as timezone='UTC'"
    return ""


@lru_cache(maxsize=4096)
def read_differently(one: Reader, other: Reader) -> str:
    """A text that two forms read as different times; empty when none was found."""
    for writing, reading in ((one, other), (other, one)):
        for at in _times():
            text = _write(writing, at)
            found = _read(reading, text)
            if found is not None and found != _read(writing, text):
                return text
    return ""


def written_in(declared: Form | tuple[Form, ...], kind: T.DataType, zone: str, at: datetime) -> str:
    """An instant as the first form of a column is read: its day in UTC, of a date.

    Args:
        kind: The type of the column.
        zone: The time zone that its source declares; empty without one.
    """
    form, local = readers_of(declared)[0], at.astimezone(UTC)
    if isinstance(kind, T.DateType):
        local = local.replace(hour=0, minute=0, second=0, microsecond=0)
    elif isinstance(form, Pattern) and not form.has_offset:
        local = local.astimezone(ZoneInfo(zone))
    return _write(form, local.replace(tzinfo=None))


def _write(form: Reader, at: datetime) -> str:
    if isinstance(form, Pattern):
        return form.write(at)
    since = at - _EPOCH
    return str(since.days if form.unit == "d" else since // _MICROSECOND * PER_SECOND[form.unit] // 1_000_000)


def _read(form: Reader, text: str) -> object:
    """The time of a text, in whatever is equal for equal times; None when it is not of the form."""
    if isinstance(form, Pattern):
        return form.read(text)
    if _NUMBER.fullmatch(text) is None:
        return None
    # As a number of days, or of parts of a second, whatever its size: years behind 9999 are compared as well.
    return (form.unit, int(text))


@lru_cache(maxsize=1)
def _times() -> Sequence[datetime]:
    """Times whose parts could be taken for one another: each is small, or as large as another part can be."""
    days = [
        _EPOCH.replace(year=year, month=month, day=day)
        for year in (2001, 2002, 2003, 2010, 2011, 2012, 2020, 1999, 1010, 1101, 1102, 1212)
        for month in (1, 2, 3, 10, 11, 12)
        for day in (1, 2, 3, 11, 12, 20)
    ]
    clocks = [(1, 2, 3, 4), (2, 1, 12, 123_456), (11, 12, 10, 0), (20, 10, 11, 120_000), (0, 0, 0, 0), (13, 59, 30, 1)]
    return [
        day.replace(hour=hour, minute=minute, second=second, microsecond=micros)
        for place, day in enumerate(days)
        for hour, minute, second, micros in (clocks[place % len(clocks)], clocks[place * 5 % 7 % len(clocks)])
    ]


# File names of columns: what the files of a source call the columns of its contract, and the mistakes in that.
#
# Where a file has them is looked up when it lands (`landing.names`).

Part = str | int | tuple[str, int]
"""One column of a file: its name or the path of a member, its position from 0, or the n-th column of a name, from 1."""

FileName = str | int | tuple[str | int, ...]
"""The name of a column in a file: a part, or several whose texts are joined by a blank."""

SCHEMA_VERSION = "schema_version"
"""The column of a file that names the version of its contract, also where the contract does not have it."""


MOST_NAMES = 6
"""Of a path at most. Each of its dots may be a part of a name, so that each name more doubles where a value may be."""


class Named(Declared, Protocol):
    """The part of a source table that the checks need."""

    @property
    def reads(self) -> Dialect | None: ...
    @property
    def columns(self) -> Mapping[FileName, str]: ...
    @property
    def earlier_columns(self) -> Mapping[int, Mapping[FileName, str]]: ...
    @property
    def earlier(self) -> Mapping[int, T.StructType]: ...
    @property
    def filled_columns(self) -> frozenset[str]: ...


def parts_of(name: FileName) -> tuple[Part, ...]:
    """The columns of a file that are one of the contract: several are joined."""
    match name:
        case str() | int():
            return (name,)
        case (str() as column, int() as number):
            return ((column, number),)
        case _:
            return name


def called(part: Part) -> str:
    """A column of a file as a sentence names it."""
    match part:
        case str():
            return repr(visible(part))
        case int():
            return f"position {part}"
        case (name, number):
            return f"column {number} of the name {visible(name)!r}"


def is_file_name(value: object) -> bool:
    """True if a value has the form of a file name."""
    if isinstance(value, tuple):
        return len(value) > 1 and all(is_file_name(each) and not isinstance(each, tuple) for each in value)
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def mistakes_of_names(table: Named) -> Iterator[str]:
    """The mistakes in the names that a table declares for its files, of this version of its contract and earlier."""
    yield from _mistakes_in_names(table, table.columns, table.schema, "columns")
    for version, names in table.earlier_columns.items():
        if version not in table.earlier:
            yield f"earlier_columns has version {version}, and earlier has {sorted(table.earlier) or 'none'}"
            return
        yield from _mistakes_in_names(table, names, table.earlier[version], f"earlier_columns[{version}]")


def _mistakes_in_names(table: Named, names: Mapping[FileName, str], schema: T.StructType, said: str) -> Iterator[str]:
    known = schema.fieldNames()
    for column in names.values():
        if column in table.filled_columns:
            yield f"{said} names {column!r}, which landing fills: no file has it"
        elif column not in known and not (column == SCHEMA_VERSION and table.earlier):
            yield f"{said} names {column!r}, which is not a column of its schema{meant(column, known)}"
    if twice := [column for column in dict.fromkeys(names.values()) if [*names.values()].count(column) > 1]:
        yield f"{said} names {twice[0]!r} twice: join several with a tuple, such as ('Date', 'Time')"
    for name, column in names.items():
        for part in parts_of(name):
            if isinstance(part, tuple) and part[1] < 1:
                yield f"{said} has {part!r} for {column!r}, and columns of one name are counted from 1"
        if deep := next(
            (part for part in parts_of(name) if isinstance(part, str) and part.count(".") >= MOST_NAMES), None
        ):
            yield f"{said} has {deep!r:.90} for {column!r}, a path of more than {MOST_NAMES} names"
        if isinstance(name, str) and name in known and name not in names.values():
            yield (
                f"{said} reads {column!r} from {name!r}, and {name!r} is a column of its schema too: name what files "
                f"call that one"
            )
    if not has_header(table.reads) and any(not isinstance(part, int) for name in names for part in parts_of(name)):
        yield f"its Csv has no header, so that {said} names columns by position, such as {{0: {known[0]!r}}}"


def has_header(reads: Dialect | None) -> bool:
    """True if files of a dialect name their columns."""
    return not isinstance(reads, Csv) or reads.header


def mistakes_of_members(columns: Mapping[FileName, str], single: Sequence[str], fixed: Sequence[str]) -> Iterator[str]:
    """The names that records of a stream cannot have: they name their columns, and some of these names are given.

    Args:
        single: Columns that a capture reads or writes itself, so that each is one member of a record.
        fixed: Columns whose names are the capture's or those of change events.
    """
    for name, column in columns.items():
        parts = parts_of(name)
        if column in fixed:
            yield f"columns names {column!r}, which records have under this name"
        if (other := next((part for part in parts if not isinstance(part, str)), None)) is not None:
            yield f"columns has {other!r} for {column!r}, and its records have members, which are known by their names"
        if column in single and len(parts) > 1:
            yield f"columns joins {column!r} of several, and it has to be one member of a record to be captured"


# Written: what a source declares about how its files are written, and the mistakes in it.
#
# A dialect (`reads`), the names that files have for columns (`columns`), the forms of times (`formats`), times
# after the landing (`ahead`, `planned`) and times that a clock shows twice (`repeated_hour`). Each decides which
# records a file has: none of it is guessed, and all of it is part of how an import was read.

REPEATED_HOURS = ("", "first", "second", "reject", "both")
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_INSIDE = (
    "times inside of {outer!r} are read as in ISO 8601 alone: make the member a column of its own, such as "
    "columns={{'{outer}.at': 'at'}}, or a STRING"
)
_MOST_AHEAD = timedelta(seconds=1e9)
"""Of a clock that runs ahead. What is longer leads out of the calendar."""


class Written(Named, Protocol):
    """The part of a source table that the checks need."""

    @property
    def event_time(self) -> str: ...
    @property
    def timezone(self) -> str: ...
    @property
    def formats(self) -> Mapping[str, Form | tuple[Form, ...]]: ...
    @property
    def ahead(self) -> timedelta: ...
    @property
    def planned(self) -> bool: ...
    @property
    def repeated_hour(self) -> str: ...


def _is_names(value: object) -> bool:
    return isinstance(value, Mapping) and all(is_file_name(k) and isinstance(v, str) for k, v in value.items())


def _is_form(value: object) -> bool:
    return isinstance(value, str | Epoch) and value != ""


_NAMES = "names of files by the name of a column, such as {'Last Update': 'last_update', 'properties.time': 'at'}"

WRITTEN = {
    "reads": Kind(
        words="Csv(...), Json(...), Avro(), Xlsx(...), Maxwell() or Canal(...)",
        test=lambda value: value is None or isinstance(value, Dialect),
    ),
    "columns": Kind(words=_NAMES, test=_is_names),
    "earlier_columns": Kind(
        words="names by version, such as {1: {'Last Update': 'last_update'}}",
        test=lambda value: (
            isinstance(value, Mapping) and all(type(k) is int and _is_names(v) for k, v in value.items())
        ),
    ),
    "formats": Kind(
        words="forms by column, such as {'at': 'M/d/yyyy HH:mm'} or {'at': Epoch('ms')}",
        test=lambda value: (
            isinstance(value, Mapping)
            and all(
                isinstance(name, str)
                and (_is_form(form) or (isinstance(form, tuple) and form != () and all(map(_is_form, form))))
                for name, form in value.items()
            )
        ),
    ),
    "ahead": Kind(
        words="a time such as seconds(60)",
        test=lambda value: isinstance(value, timedelta) and timedelta(0) <= value < _MOST_AHEAD,
    ),
    "planned": Kind(words="True or False", test=lambda value: isinstance(value, bool)),
    "repeated_hour": Kind(words="'first', 'second', 'reject' or 'both'", test=lambda value: value in REPEATED_HOURS),
}


def check_written(table: Written) -> None:
    """Refuses what could not be true of any file, and what is declared of columns that the table lacks."""
    for mistake in () if table.reads is None else table.reads.mistakes():
        raise wrong(table, mistake)
    for mistake in _mistakes_in_columns(table):
        raise wrong(table, mistake)


def _mistakes_in_columns(table: Written) -> Iterator[str]:
    yield from mistakes_of_names(table)
    known = table.schema.fieldNames()
    for column in table.formats:
        outer = column.partition(".")[0]
        if (
            column not in known
            and outer in known
            and isinstance(table.schema[outer].dataType, T.StructType | T.ArrayType)
        ):
            yield f"formats has {column!r}, and {_INSIDE.format(outer=outer)}"
        elif column not in known:
            yield f"formats has {column!r}, which is not a column of its schema{meant(column, known)}"
        elif isinstance(table.schema[column].dataType, T.StructType | T.ArrayType):
            yield f"formats has {column!r}, and {_INSIDE.format(outer=column)}"
        elif not isinstance(table.schema[column].dataType, _TIMES):
            yield f"formats has {column!r}, which is neither a date nor a timestamp"
        else:
            yield from mistakes_of_forms(column, table.formats[column], table.schema[column].dataType, table.timezone)
    if table.planned and table.ahead:
        yield "it is planned, so that its times may be ahead of the landing as far as they like: leave ahead out"
    times = [name for name in table.key if isinstance(table.schema[name].dataType, T.TimestampType)]
    if table.repeated_hour == "both" and not times:
        yield "repeated_hour='both' goes by the order of the records of a key, and no column of its key is a timestamp"
    if table.repeated_hour == "both" and len(times) > 1:
        yield (
            f"repeated_hour='both' goes by the order of the records of a key, and its key has {' and '.join(times)}: "
            "of two times the order does not tell which comes twice, so declare 'first', 'second' or 'reject'"
        )
    if table.repeated_hour and not table.timezone:
        yield "repeated_hour is of the clocks of a zone: declare its timezone"


def seconds(count: float) -> timedelta:
    """A time of some seconds.

    Args:
        count: How many.

    Raises:
        InvalidDeclaration: It is not a number of seconds.
    """
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count < _MOST_AHEAD.total_seconds():
        raise InvalidDeclaration(
            f"seconds({count!r:.60}) is not a time: write a number of seconds, such as seconds(60)."
        )
    return timedelta(seconds=count)
