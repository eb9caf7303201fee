"""Likely forms: the form, mark or header that a text probably has instead of the declared one, for the message about
it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.calendar.patterns import DAYS, MONTHS, SHORT
from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.core.wording import literal
from backfill_assets.domain import Csv
from backfill_assets.landing.json_text import bind_column

# CSV headers: which dialect a file is written in whose first row does not have the columns that it has to have.
#
# Nothing is read by what is found here: the file is refused, with the declaration that would read it.

_MOST_LINES = 20
"""So many lines are looked at for the header."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", ":": "colons"}
_SEP = re.compile(r'"?sep=(.+?)"?', re.IGNORECASE)
_LINE_END = re.compile("\r\n|\r|\n")


def declaration(dialect: Csv) -> str:
    """A dialect as its author writes it."""
    return f"reads={literal(dialect)}"


def other_quotes(dialect: Csv) -> str:
    """Possible declarations for a file in which text is behind a closing quote: its quotes are ordinary letters, or
    those inside a value are marked otherwise."""
    letters = declaration(replace(dialect, quote="", escape=""))
    if dialect.escape:
        return f"declare {letters}, where quotes are letters like others"
    marked = declaration(replace(dialect, escape="\\"))
    return f"declare {letters}, where quotes are letters like others, or {marked}, where a backslash is before them"


def names_of(line: str, delimiter: str, quote: str = '"') -> set[str]:
    """The columns that a line names, if it is a header."""
    pieces, between = (line, delimiter) if len(delimiter) == 1 else (line.replace(delimiter, "\ud800"), "\ud800")
    if not quote:
        return {each.strip() for each in pieces.split(between)}
    rows = csv.reader([pieces], delimiter=between, quotechar=quote)
    try:
        return {each.strip() for each in next(rows, [])}
    except csv.Error:
        return set()


def require_csv_header(text: str, name: str, columns: Collection[str], dialect: Csv | None = None) -> None:
    """Refuses a CSV of which the first row is no header with these columns, where it is known why.

    Args:
        text: The first lines of the file.
        columns: Those that a file has to have.
        dialect: What it is declared to be written in; None for plain CSV.
    """
    wanted, given = set(columns), dialect or Csv()
    # Other characters that `splitlines` knows end no line for the readers, such as an ellipsis read as Latin-1.
    lines = _LINE_END.split(text.removeprefix("\ufeff"), _MOST_LINES)[:_MOST_LINES]
    if not wanted or not given.header or not lines:
        return
    named = dialect and _SEP.fullmatch(lines[0])
    first = max(given.skip, 1 if named else 0)
    body = [line for line in lines[first:] if line.strip() and not (given.comment and line.startswith(given.comment))]
    if body and wanted <= names_of(body[0], given.delimiter, given.quote):
        return
    for delimiter in dict.fromkeys((given.delimiter, *_DELIMITERS)):
        for before, line in enumerate(lines):
            if wanted <= names_of(line, delimiter, given.quote):
                raise _otherwise(lines, before, delimiter, given, name)


def _otherwise(lines: list[str], before: int, delimiter: str, given: Csv, name: str) -> BadFile:
    """The refusal of a file whose header is behind some lines, and has something between its columns."""
    found = _SEP.fullmatch(lines[0])
    is_named = before == 1 and found is not None and found[1] == delimiter
    declared = declaration(replace(given, delimiter=delimiter, skip=0 if is_named else before))
    if delimiter != given.delimiter:
        why = f"has {_DELIMITERS[delimiter]} between its values: declare {declared}"
        return BadFile(path=name, fault=Fault.DELIMITER, why=why)
    lines_before = "no line" if before == 0 else "a line" if before == 1 else f"{before} lines"
    why = f"has {lines_before} before the header with its columns: declare {declared}"
    return BadFile(path=name, fault=Fault.BANNER, why=why)


# Likely marks: which mark of a CSV a value has that is none of its column's type, for the sentence about it.
#
# A decimal comma, groups of three digits, words for true and false, and texts that stand for no value are
# declared of the files of a source. Nothing is read by what is found here.

_NULLS = (
    *(r"\N", "NULL", "null", "(null)", "<NA>", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "None", "none"),
    *("?", "-", "--", "---", ".", "..", "*", "missing"),
)
_TRUE_AND_FALSE = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"), ("on", "off"))
_PLACE = "{text}"

_GROUPS = r"\A[+-]?[1-9][0-9]{0,2}"
_FRACTION = r"\A[+-]?[0-9]*,[0-9]+\z"
"""A number with a comma, which may also be between groups of three digits."""


def mark_to_declare(text: Column, target: T.DataType, csv: Csv | None) -> Column:
    """The declaration of a source whose files have a text in a column of a type, as what follows a sentence; empty
    where nothing would make it a value.

    Args:
        csv: What its files are written in; None where they are no CSV, so that no mark is declared of them.
    """
    if csv is None:
        return F.lit("")
    before, after = declaration(replace(csv, null=(*csv.null, _PLACE))).split(_PLACE)
    in_python = F.replace(text, F.lit("\\"), F.lit("\\\\"))
    null = F.concat(F.lit(f"; if it stands for no value, declare {before}"), in_python, F.lit(after))
    found = F.when(F.trim(text).isin(*_NULLS), null)
    for is_one, changed in _of_type(text, target, csv):
        found = found.when(is_one, F.lit("; " + " or ".join(f"declare {declaration(each)}" for each in changed)))
    return found.otherwise("")


def _of_type(text: Column, target: T.DataType, csv: Csv) -> Iterator[tuple[Column, list[Csv]]]:
    """Conditions of a text, and the dialects in one of which it is a value."""
    if isinstance(target, T.BooleanType):
        for pair in _TRUE_AND_FALSE:
            for true, false in dict.fromkeys((pair, tuple(map(str.capitalize, pair)), tuple(map(str.upper, pair)))):
                if true not in csv.true:
                    both = replace(csv, true=(*csv.true, true), false=(*csv.false, false))
                    yield text.isin(true, false), [both]
    if not isinstance(target, T.NumericType) or (csv.decimal, csv.thousands) != (".", ""):
        return
    is_whole = isinstance(target, T.IntegralType)
    by_comma, with_comma = replace(csv, thousands=","), replace(csv, decimal=",")
    yield text.rlike(rf"{_GROUPS}(,[0-9]{{3}})+\z"), [by_comma] if is_whole else [with_comma, by_comma]
    for between in (".", " ", "\u00a0", "'"):
        groups = rf"{_GROUPS}([{between}][0-9]{{3}})+"
        if between != ".":
            yield text.rlike(rf"{groups}([.][0-9]+)?\z"), [replace(csv, thousands=between)]
        elif is_whole:
            yield text.rlike(rf"{groups}\z"), [replace(csv, decimal=",", thousands=between)]
        yield text.rlike(rf"{groups},[0-9]+\z"), [replace(csv, decimal=",", thousands=between)]
    yield text.rlike(rf"{_GROUPS}(,[0-9]{{3}})+[.][0-9]+\z"), [by_comma]
    if not is_whole:
        yield text.rlike(_FRACTION), [with_comma]


# Likely forms: which form a text has that is no date or time of its column, for the sentence about it.
#
# Nothing is read by what is found here. A form is named only where it reads the text; where a text does not tell
# whether its day or its month comes first, both are.

_WEEKDAY = rf"\A((?i:{'|'.join(DAYS)}|{'|'.join(day[:SHORT] for day in DAYS)}))(,? )"
_MONTH = rf"(?i:{'|'.join(MONTHS)}|{'|'.join(month[:SHORT] for month in MONTHS)})"
_NUMBERS = r"\A([0-9]{1,4})([-/. ])([0-9]{1,2})\2([0-9]{4}|[0-9]{1,2})(?![0-9])"
_NAME_INSIDE = rf"\A([0-9]{{1,2}})([-/. ])({_MONTH})\2([0-9]{{4}}|[0-9]{{2}})(?![0-9])"
_NAME_FIRST = rf"\A({_MONTH})( )([0-9]{{1,2}})(,? )([0-9]{{4}})(?![0-9])"
_COMPACT = r"\A[12][0-9]{3}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(?![0-9])"
_COMPACT_TIME = r"\A[12][0-9]{3}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]\z"
_CLOCK = (
    r"\A(?:( |T|, |-)([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?([.][0-9]{1,9})?"
    r"(?:( ?)([AaPp][Mm]))?(?:( ?)(Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?)?\z"
)


def how_to_declare(name: str, text: Column, target: T.DataType, *, has_zone: bool) -> Column:
    """The declaration of a source whose times are written like a text, as what follows a sentence; null where it is not
    known.

    Args:
        has_zone: Whether the source declares a time zone.
    """

    def of_day(day: Column) -> Column:
        rest = F.right(text, F.length(text) - F.length(_part(text, day)))
        return bind_column(
            F.when(rest.rlike(_CLOCK), rest), lambda clock: _said(name, day, clock, target, has_zone=has_zone)
        )

    compact = F.when(text.rlike(_COMPACT_TIME), _declare(name, F.lit("yyyyMMddHHmmss"), target, has_zone=has_zone))
    if isinstance(target, T.DateType):
        compact = F.lit(None).cast("string")
    return F.coalesce(compact, bind_column(_day_form(text), of_day))


def _part(text: Column, day: Column) -> Column:
    """The beginning of a text that has the form of a day."""
    weekday = F.regexp_extract(text, _WEEKDAY, 0)
    behind = F.regexp_replace(text, _WEEKDAY, "")
    found = (F.regexp_extract(behind, form, 0) for form in (_NUMBERS, _NAME_INSIDE, _NAME_FIRST, _COMPACT))
    return F.when(day.isNotNull(), F.concat(weekday, F.greatest(*found)))


def _said(name: str, day: Column, clock: Column, target: T.DataType, *, has_zone: bool) -> Column:
    if isinstance(target, T.DateType):
        made = F.lit("; it has a time of day: make the column a TIMESTAMP")
        return F.when(clock == "", _declare(name, day, target, has_zone=True)).when(clock != "", made)
    form, offset = _clock_form(clock)
    declared = _declare(name, day, target, has_zone=has_zone, behind=form, offset=offset)
    if isinstance(target, T.TimestampNTZType):
        declared = F.when(offset == "", declared).otherwise("; it has an offset: make the column a TIMESTAMP")
    alone = F.concat(F.lit("; a date has no time of day: make the column a DATE, with"), _form(name, day))
    return F.when(clock == "", alone).when(clock != "", declared)


def _declare(
    name: str,
    form: Column,
    target: T.DataType,
    *,
    has_zone: bool,
    behind: Column | None = None,
    offset: Column | None = None,
) -> Column:
    declared = F.concat(F.lit("; declare its form, such as"), _form(name, form, behind))
    if isinstance(target, T.TimestampType) and not has_zone:
        is_local = F.lit(True) if offset is None else offset == ""
        declared = F.concat(declared, F.when(is_local, F.lit(", and its timezone")).otherwise(""))
    return declared


def _form(name: str, form: Column, behind: Column | None = None) -> Column:
    """A declaration of a form; of two of them, in which cases."""
    end = F.lit("") if behind is None else behind
    parts = F.split(form, "\\|")
    first, second = (F.concat(F.get(parts, F.lit(place)), end) for place in (0, 1))
    one = F.concat(F.lit(f' formats={{{json.dumps(name)}: "'), first, F.lit('"}'))
    either = F.concat(one, F.lit(' where its day comes first, or "'), second, F.lit('" where its month does'))
    return F.coalesce(either, one)


def _day_form(text: Column) -> Column:
    """The form of the day that a text begins with; two with a bar between where the order of day and month is open."""
    weekday, behind = F.regexp_extract(text, _WEEKDAY, 1), F.regexp_replace(text, _WEEKDAY, "")
    letters = F.when(F.length(weekday) > SHORT, F.lit("EEEE")).otherwise("EEE")
    before = F.when(weekday == "", F.lit("")).otherwise(F.concat(letters, F.regexp_extract(text, _WEEKDAY, 2)))
    found = F.coalesce(_of_numbers(behind), _of_name_inside(behind), _of_name_first(behind))
    compact = F.when(behind.rlike(_COMPACT), F.lit("yyyyMMdd"))
    return F.concat(before, F.coalesce(found, compact))


def _of_numbers(text: Column) -> Column:
    def of(groups: Column) -> Column:
        first, between, middle, last = (F.get(groups, F.lit(place)) for place in range(4))
        one, two = first.try_cast("int"), middle.try_cast("int")
        years = F.when(F.length(last) == 4, F.lit("yyyy")).otherwise("yy")

        def in_order(left: str, right: str) -> Column:
            return F.concat(_digits(left, first, middle), between, _digits(right, first, middle), between, years)

        by_year = F.concat(F.lit("yyyy"), between, _digits("M", middle, last), between, _digits("d", middle, last))
        both = F.concat(in_order("d", "M"), F.lit("|"), in_order("M", "d"))
        return (
            F.when((F.length(first) == 4) & (F.length(last) < 3), F.when(two <= 12, by_year))
            .when((F.length(first) > 2) | (F.length(last) == 1), F.lit(None).cast("string"))
            .when((one > 12) & (two <= 12) | (between == ".") & (two <= 12), in_order("d", "M"))
            .when((two > 12) & (one <= 12), in_order("M", "d"))
            .when((one <= 12) & (two <= 12), both)
        )

    groups = [F.regexp_extract(text, _NUMBERS, place) for place in range(1, 5)]
    return F.when(text.rlike(_NUMBERS), bind_column(F.array(*groups), of))


def _of_name_inside(text: Column) -> Column:
    day, between, month, year = (F.regexp_extract(text, _NAME_INSIDE, place) for place in range(1, 5))
    years = F.when(F.length(year) == 4, F.lit("yyyy")).otherwise("yy")
    return F.when(text.rlike(_NAME_INSIDE), F.concat(_digits("d", day, day), between, _month(month), between, years))


def _of_name_first(text: Column) -> Column:
    month, blank, day, between = (F.regexp_extract(text, _NAME_FIRST, place) for place in range(1, 5))
    form = F.concat(_month(month), blank, _digits("d", day, day), between, F.lit("yyyy"))
    return F.when(text.rlike(_NAME_FIRST), form)


def _month(name: Column) -> Column:
    return F.when(F.length(name) > SHORT, F.lit("MMMM")).otherwise("MMM")


def _digits(letter: str, one: Column, other: Column) -> Column:
    """A letter, twice where numbers have two digits throughout."""
    is_padded = (F.length(one) == 2) & (F.length(other) == 2)
    return F.when(is_padded, F.lit(letter * 2)).otherwise(letter)


def _clock_form(clock: Column) -> tuple[Column, Column]:
    """The form of the time behind a day, and the offset in it."""
    between, hour, seconds, fraction, gap, half, blank, offset = (
        F.regexp_extract(clock, _CLOCK, place) for place in range(1, 9)
    )
    of_24 = F.when(F.length(hour) == 2, F.lit("HH")).otherwise("H")
    of_12 = F.when(hour.startswith("0"), F.lit("hh")).otherwise("h")
    zone = (
        F.when(offset == "", F.lit(""))
        .when(offset.isin("UTC", "GMT"), F.lit("z"))
        .when((offset == "Z") | offset.contains(":"), F.lit("XXX"))
        .otherwise(F.when(F.length(offset) == 3, F.lit("X")).otherwise("xx"))
    )
    form = F.concat(
        F.when(between == "T", F.lit("'T'")).otherwise(between),
        F.when(half == "", of_24).otherwise(of_12),
        F.lit(":mm"),
        F.when(seconds == "", F.lit("")).otherwise(":ss"),
        F.translate(fraction, "0123456789", "S" * 10),
        gap,
        F.when(half == "", F.lit("")).otherwise("a"),
        blank,
        zone,
    )
    is_of_12 = hour.try_cast("int").between(1, 12)
    return F.when((half == "") | is_of_12, form), offset
