"""Written: what a source declares about how its files are written, and the mistakes in it.

A dialect (`reads`), the names that files have for columns (`columns`), the forms of times (`formats`), times after the
landing (`ahead`, `planned`) and times that a clock shows twice (`repeated_hour`). Each decides which records a file
has: none of it is guessed, and all of it is part of how an import was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Protocol

from pyspark.sql import types as T

from backfill_assets.core.declaring import meant
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.declarations import Kind, wrong
from backfill_assets.domain.dialects import Dialect, Epoch, Form
from backfill_assets.domain.file_names import Named, is_file_name, mistakes_of_names
from backfill_assets.domain.forms import mistakes_of_forms

REPEATED_HOURS = ("", "first", "second", "reject", "both")
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_INSIDE = (
    "times inside of {outer!r} are read as in ISO 8601 alone: make the member a column of its own, such as "
    "columns={{'{outer}.at': 'at'}}, or a STRING"
)
_MOST_AHEAD = timedelta(seconds=1e9)
"""Of a clock that runs ahead. What is longer leads out of the calendar."""


class Written(Named, Protocol):
    """What the checks need of a source table."""

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
    for mistake in _mistakes(table):
        raise wrong(table, mistake)


def _mistakes(table: Written) -> Iterator[str]:
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
