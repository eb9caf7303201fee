"""Dialect: what is between the values of a delimited text, around them, before its header, and whether it has one."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backfill_assets.landing.decoding.quoted_lines import EscapedLines
from backfill_assets.sniff.texts import NULLS
from backfill_assets.sniff.times import time_form

DELIMITERS = (",", ";", "\t", "|", "::", "^", "~")
_COMMENTS = "#%!*"
_TRIED_LINES = 300
_NEARLY = 0.9
_STAND_IN = "\x1f"
"""Stands for a delimiter of several characters, which Python's reader does not know."""

_NUMBER = re.compile(r"\s*[+-]?[$€£]?[0-9][0-9.,' ]*([eE][+-]?[0-9]+)?%?\s*")
_DATE = re.compile(r"\s*\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ]\d{1,2}[:.]\d\d.*)?\s*")
_WORDS = re.compile(r"[^;\t|\"^~]*")
_ESCAPED = re.compile(r"\\(.|\Z)", re.DOTALL)
_END = re.compile(r"^\\\.\s*\Z", re.MULTILINE)
_LETTERS = frozenset("0bfnrtvZ\r\n")
"""What dumps of databases have behind an escape, besides themselves and `N` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited:
    """A dialect, by the names of `Csv`.

    Attributes:
        is_sep_line: Whether the first line is Excel's `sep=;`.
        duckdb: What DuckDB takes for the delimiter, where that is another one; empty where both agree.
    """

    delimiter: str
    quote: str = '"'
    escape: str = ""
    letters: bool = False
    skip: int = 0
    comment: str = ""
    trim: bool = False
    header: bool = True
    is_sep_line: bool = False
    duckdb: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of a sample.

    Attributes:
        header: The names of its columns; empty texts for those without one.
        rows: The rows that have as many values as the header.
        ragged: The numbers of rows with another number of values, from 1.
        repeated: The numbers of rows that are the header again.
        blank: The numbers of rows without any value.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ragged: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    blank: tuple[int, ...] = ()


def dialect_of(text: str) -> Delimited:
    """The dialect of the beginning of a text."""
    lines = _lines(text, _TRIED_LINES)
    beginning = "".join(lines)
    if (sep := re.match(r"sep=(.)\r?\n?", beginning)) is not None:
        found = with_rows(replace(_best(beginning[sep.end() :], (sep[1],)), is_sep_line=True), beginning[sep.end() :])
        # Landing passes over the line by itself, unless other lines are skipped as well.
        return replace(found, skip=found.skip + 1 if found.skip else 0)
    found = _best(beginning, DELIMITERS)
    other = _of_duckdb(beginning)
    return replace(with_rows(found, beginning), duckdb=other if other not in ("", found.delimiter) else "")


def _lines(text: str, most: int) -> list[str]:
    found: list[str] = []
    for line in io.StringIO(text, newline=""):
        found.append(line)
        if len(found) == most:
            break
    return found


def _best(text: str, delimiters: Sequence[str]) -> Delimited:
    """The delimiter, quote and escape with which rows have equally many values that look like values."""
    candidates = [
        Delimited(delimiter=delimiter, quote=quote, escape=escape, letters=escape != "" and bool(quote) and has_letters)
        for delimiter in delimiters
        if delimiter in text or len(delimiters) == 1
        for quote in _quotes(text, delimiter)
        for has_letters in (_has_letters(text, quote or delimiter),)
        for escape in (("", "\\") if (f"\\{quote}" in text if quote else has_letters) else ("",))
    ]
    if not candidates:
        return Delimited(delimiter=",")
    scores = {each: _score(text, each) for each in candidates}
    best = max(scores, key=lambda each: (scores[each][0], each.escape if not each.quote else "", scores[each][1]))
    if best.escape and not best.quote:
        return best
    quoted = [each for each in candidates if each.delimiter == best.delimiter and each.quote == '"']
    nearest = max(quoted, key=lambda each: scores[each])
    # A few rows before the header may have fewer values with quotes than without.
    return nearest if not best.quote and scores[nearest][0] > _NEARLY * scores[best][0] else best


def _has_letters(text: str, more: str) -> bool:
    """Whether each backslash of a text is an escape as dumps of databases have them, and one before a letter is there.

    Args:
        more: What else is escaped.
    """
    behind = {found[1] for found in _ESCAPED.finditer(_END.sub("", text))}
    return not behind.isdisjoint(_LETTERS) and behind <= _LETTERS | {"", "N", "\\", *more}


def _quotes(text: str, delimiter: str) -> Iterator[str]:
    yield '"'
    if re.search(rf"(^|{re.escape(delimiter)}) ?'[^\n]*'({re.escape(delimiter)}|\r|\n|$)", text, re.MULTILINE):
        yield "'"
    if '"' in text or _has_letters(text, delimiter):
        yield ""


def _score(text: str, dialect: Delimited) -> tuple[float, int]:
    rows = [row for _, row in rows_of(text, dialect) if row]
    if not rows:
        return 0.0, 0
    width, count = Counter(map(len, rows)).most_common(1)[0]
    cells = [cell for row in rows if len(row) == width for cell in row]
    clean = sum(_is_clean(cell, dialect) for cell in cells) / len(cells)
    is_used = dialect.quote == '"' and '"' in text
    # A quote that is not closed swallows lines.
    whole = len(rows) / max(1, sum(1 for line in io.StringIO(text, newline="") if line.strip()))
    return round(count / len(rows) * (width - 1) / width * clean * min(1.0, whole + 0.2), 6), int(is_used)


def _is_clean(cell: str, dialect: Delimited) -> bool:
    if not cell or _NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) or _WORDS.fullmatch(cell):
        return True
    return dialect.escape != "" or (bool(dialect.quote) and '"' not in cell)


def rows_of(text: str, dialect: Delimited) -> Iterator[tuple[int, list[str]]]:
    """The rows of a text, each with the number of its first line, from 1."""
    delimiter = dialect.delimiter
    if len(delimiter) > 1:
        text, delimiter = text.replace(delimiter, _STAND_IN), _STAND_IN
    if dialect.escape and dialect.quote:
        text = text.replace(f"{dialect.escape}{dialect.quote}", dialect.quote * 2)
    lines: Iterable[str] = io.StringIO(text, newline="")
    escaped = EscapedLines(dialect.escape, delimiter) if dialect.escape and not dialect.quote else None
    if escaped is not None:
        yield from _escaped_rows(lines, escaped, delimiter)
        return
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        skipinitialspace=dialect.trim or (bool(dialect.quote) and f"{delimiter} {dialect.quote}" in text),
    )
    before = 0
    try:
        for row in reader:
            yield before + 1, row
            before = reader.line_num
    except csv.Error:
        return


def _escaped_rows(lines: Iterable[str], escaped: EscapedLines, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    begun, pieces = 1, list[str]()
    for number, line in enumerate(lines, 1):
        pieces.append(line)
        if escaped.goes_on(line):
            continue
        if escaped.is_end(line):
            return
        try:
            row = escaped.as_plain("".join(pieces)).rstrip("\r\n")
        except ValueError:
            row = "".join(pieces)
        yield begun, [escaped.restored(value) for value in row.split(delimiter)]
        begun, pieces = number + 1, []


def with_rows(found: Delimited, text: str) -> Delimited:
    """A dialect with what its rows tell: lines before the header, comments, blanks around values, the header.

    Args:
        text: Its first lines.
    """
    lines = _lines(text, _TRIED_LINES)
    text = "".join(lines)
    rows = [(line, row) for line, row in rows_of(text, found) if any(cell.strip() for cell in row)]
    if not rows:
        return found
    tail = rows[len(rows) // 5 :] if len(rows) > 10 else rows
    width = Counter(len(row) for _, row in tail).most_common(1)[0][0]
    comment = _comment(rows, width)
    first = next(
        place
        for place, (_, row) in enumerate(rows)
        if len(row) == width and not (comment and row[0].startswith(comment))
    )
    if first and comment == "" and _lacks_last(rows[first - 1][1], rows[first:], width):
        first -= 1
    skip = rows[first][0] - 1 if not comment or _has_others(lines[: rows[first][0] - 1], comment) else 0
    cells = [cell for _, row in rows[first : first + 100] for cell in row if cell.strip()]
    padded = sum(cell != cell.strip() for cell in cells)
    trim = (
        any(cell != cell.strip() for cell in rows[first][1])
        or padded > len(cells) * 0.2
        or f'{found.delimiter} "' in text
    )
    body = [[cell.strip() for cell in row] for _, row in rows[first:] if len(row) in (width, width - 1)]
    return replace(found, skip=skip, comment="" if skip else comment, trim=trim, header=has_header(body))


def _comment(rows: Sequence[tuple[int, Sequence[str]]], width: int) -> str:
    """What lines begin with that are no rows."""
    for mark in _COMMENTS:
        marked = [row for _, row in rows if row[0].startswith(mark)]
        if marked and any(len(row) != width for row in marked) and len(marked) < len(rows):
            return mark
    return ""


def _has_others(lines: Sequence[str], comment: str) -> bool:
    return any(line.strip() and not line.startswith(comment) for line in lines)


def _lacks_last(header: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]], width: int) -> bool:
    """Whether rows end in a delimiter, and their header does not."""
    return len(header) == width - 1 and all(not row[-1] for _, row in rows if len(row) == width)


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some rows names the columns: its texts are none that the columns below have."""
    first, below = rows[0], rows[1:]
    named = [cell for cell in first if cell]
    if not named or not below:
        return bool(named)
    columns = [[row[place] for row in below if place < len(row)] for place in range(len(first))]
    typed = [any(cells) and all(not cell or _is_typed(cell) for cell in cells) for cells in columns]
    if any(
        cell and is_typed and not _is_typed(cell) and cell not in NULLS
        for cell, is_typed in zip(first, typed, strict=True)
    ):
        return True
    if any(map(_is_typed, named)):
        return False
    recurring = sum(cell in column for cell, column in zip(first, columns, strict=True) if cell)
    return recurring == 0 or (rows.count(first) > 1 and len(set(named)) == len(named))


def _is_typed(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None or _DATE.fullmatch(cell) is not None


def _of_duckdb(text: str) -> str:
    """What DuckDB takes for the delimiter; empty where it finds no dialect."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.csv"
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
        try:
            found = duckdb.execute("SELECT Delimiter FROM sniff_csv(?)", [str(path)]).fetchone()
        except duckdb.Error:
            return ""
    return str(found[0]) if found else ""


def table_of(text: str, dialect: Delimited, *, is_whole: bool, parts: Sequence[str] = ()) -> Table:
    """The rows of a text and of parts of the rest of it.

    Args:
        is_whole: Whether the text is all of the file; otherwise its last row may be cut.
        parts: Texts from its middle and end, which begin and end anywhere.
    """
    before = max(dialect.skip, int(dialect.is_sep_line))
    body = "".join(_lines(text, 1 << 62)[before:]) if before else text
    rows = [
        row for _, row in rows_of(body, dialect) if row and not (dialect.comment and row[0].startswith(dialect.comment))
    ]
    if not is_whole and rows:
        rows.pop()
    if dialect.trim:
        rows = [[cell.strip() for cell in row] for row in rows]
    width = Counter(map(len, rows[1:] or rows)).most_common(1)[0][0] if rows else 0
    header: tuple[str, ...] = ("",) * width
    if dialect.header and rows:
        header = tuple(cell.strip() for cell in rows.pop(0))
        header += ("",) * (width - len(header))
    return _sorted_out(header, rows, [row for part in parts for row in _whole_rows(part, dialect, len(header))])


def _whole_rows(part: str, dialect: Delimited, width: int) -> Iterator[list[str]]:
    lines = _lines(part, 1 << 62)[1:-1]
    for _, row in rows_of("".join(lines), dialect):
        if len(row) == width:
            yield [cell.strip() for cell in row] if dialect.trim else row


def _sorted_out(header: tuple[str, ...], rows: Sequence[list[str]], more: Sequence[list[str]]) -> Table:
    kept: list[tuple[str, ...]] = []
    ragged, repeated, blank = [], [], []
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            ragged.append(number)
        elif not any(row):
            blank.append(number)
        elif any(header) and tuple(cell.strip() for cell in row) == header:
            repeated.append(number)
        else:
            kept.append(tuple(row))
    kept += map(tuple, more)
    return Table(header=header, rows=tuple(kept), ragged=tuple(ragged), repeated=tuple(repeated), blank=tuple(blank))


def is_time_of_day(texts: Sequence[str]) -> bool:
    """Whether texts are times without a date."""
    return (
        bool(texts)
        and time_form(texts) is None
        and all(re.fullmatch(r"\d{1,2}[:.]\d\d([:.]\d\d)?( ?[AP]M)?", text) for text in texts)
    )
