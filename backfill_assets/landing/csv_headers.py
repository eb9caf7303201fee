"""CSV headers: which dialect a file is written in whose first row does not have the columns that it has to have.

Nothing is read by what is found here: the file is refused, with the declaration that would read it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from dataclasses import replace

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.core.python_text import literal
from backfill_assets.domain import Csv

_MOST_LINES = 20
"""So many lines are looked at for the header."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", ":": "colons"}
_SEP = re.compile(r'"?sep=(.+?)"?', re.IGNORECASE)
_LINE_END = re.compile("\r\n|\r|\n")


def declaration(dialect: Csv) -> str:
    """A dialect as its author writes it."""
    return f"reads={literal(dialect)}"


def other_quotes(dialect: Csv) -> str:
    """What may be declared of a file in which text is behind a closing quote: its quotes are letters like others, or
    those inside of a value are marked otherwise."""
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
