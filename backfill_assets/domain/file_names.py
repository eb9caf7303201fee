"""File names of columns: what the files of a source call the columns of its contract, and the mistakes in that.

Where a file has them is looked up when it lands (`landing.names`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from pyspark.sql import types as T

from backfill_assets.core.declaring import meant
from backfill_assets.core.wording import visible
from backfill_assets.domain.declarations import Declared
from backfill_assets.domain.dialects import Csv, Dialect

Part = str | int | tuple[str, int]
"""One column of a file: its name or the path of a member, its position from 0, or the n-th column of a name, from 1."""

FileName = str | int | tuple[str | int, ...]
"""What a file calls a column: a part, or several whose texts are joined by a blank."""

SCHEMA_VERSION = "schema_version"
"""The column of a file that names the version of its contract, also where the contract does not have it."""


MOST_NAMES = 6
"""Of a path at most. Each of its dots may be a part of a name, so that each name more doubles where a value may be."""


class Named(Declared, Protocol):
    """What the checks need of a source table."""

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
    yield from _mistakes(table, table.columns, table.schema, "columns")
    for version, names in table.earlier_columns.items():
        if version not in table.earlier:
            yield f"earlier_columns has version {version}, and earlier has {sorted(table.earlier) or 'none'}"
            return
        yield from _mistakes(table, names, table.earlier[version], f"earlier_columns[{version}]")


def _mistakes(table: Named, names: Mapping[FileName, str], schema: T.StructType, said: str) -> Iterator[str]:
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
