"""Dialect: the delimiter, the quotes, the lines before the header and the header of a delimited text."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backfill_assets.landing.decoding.csv_rows import EscapedLines
from backfill_assets.sniff.texts import NULLS, time_form

DELIMITERS = (",", ";", "\t", "|", "::", "^", "~", "\x01")
_LAST_DELIMITERS = (" ",)
"""Tried where none of the others tells values apart, because texts have them too."""

_TOLD_APART = 0.3
_COMMENTS = "#%!*"
_TRIED_LINES = 300
_NEARLY = 0.9
_MOST_LINES_OF_A_VALUE = 100
"""A quote that is open for more lines is a letter that was taken for one."""

_STAND_IN = "\x1f"
"""Stands for a delimiter of several characters, which Python's reader does not know."""

_NUMBER = re.compile(r"\s*[+-]?[$€£]?[0-9][0-9.,' ]*([eE][+-]?[0-9]+)?%?\s*")
_DATE = re.compile(r"\s*\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ]\d{1,2}[:.]\d\d.*)?\s*")
_WORDS = re.compile(r"[^;\t|\"^~]*")
_ESCAPED = re.compile(r"\\(.|\Z)", re.DOTALL)
_END = re.compile(r"^\\\.\s*\Z", re.MULTILINE)
_LETTERS = frozenset("0bfnrtvZ\r\n")
"""The characters behind an escape in dumps of databases, besides themselves and `N` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited:
    """A dialect, by the names of `Csv`."""

    delimiter: str
    quote: str = '"'
    escape: str = ""
    letters: bool = False
    skip: int = 0
    comment: str = ""
    trim: bool = False
    header: bool = True
    is_sep_line: bool = False  #: True if the first line is Excel's `sep=;`.
    is_mixed: bool = False  #: True if rows end in different ways.
    misquoted: int = 0  #: How many rows have text behind a closing quote.
    names: tuple[str, ...] = ()  #: What a line before the rows calls the columns, where no row does.
    duckdb: str = ""  #: What DuckDB takes for the delimiter, where that is another one; empty where both agree.


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of a sample."""

    header: tuple[str, ...]  #: The names of its columns; empty texts for those without one.
    rows: tuple[tuple[str, ...], ...]  #: The rows that have as many values as the header.
    ragged: tuple[int, ...] = ()  #: The numbers of rows with another number of values, from 1.
    repeated: tuple[int, ...] = ()  #: The numbers of rows that are the header again.
    blank: tuple[int, ...] = ()  #: The numbers of rows without any value.


def dialect_of(text: str, parts: Sequence[str] = ()) -> Delimited:
    """The dialect of a text.

    Args:
        text: The beginning of it, or all of it.
        parts: Texts from its middle and its end, which begin and end anywhere.
    """
    lines = _lines(text, _TRIED_LINES)
    beginning = "".join(lines)
    if (sep := re.match(r"sep=(.)\r?\n?", beginning)) is not None:
        found = with_rows(replace(_best(beginning[sep.end() :], (sep[1],)), is_sep_line=True), beginning[sep.end() :])
        # Landing passes over the line by itself, unless other lines are skipped as well.
        return replace(found, skip=found.skip + 1 if found.skip else 0)
    found = _best(beginning, DELIMITERS)
    if _score(beginning, found)[0] < _TOLD_APART and not _is_of_fixed_width(beginning):
        found = max(found, _best(beginning, _LAST_DELIMITERS), key=lambda each: _score(beginning, each)[0])
    found = _with_quotes(found, [text, *("".join(_lines(part, 1 << 62)[1:-1]) for part in parts)])
    other = _of_duckdb(beginning)
    is_other = other != found.delimiter and other != "" and other in beginning
    return replace(with_rows(found, beginning), duckdb=other if is_other else "")


def _is_of_fixed_width(text: str) -> bool:
    """True if many lines have several blanks in a row, which keep values one below the other."""
    lines = [line for line in text.splitlines() if line.strip()]
    return sum("  " in line.strip() for line in lines) > len(lines) / 2


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
        for escape in (("\\", "") if (f"\\{quote}" in text if quote else has_letters) else ("",))
    ]
    if not candidates:
        return Delimited(delimiter=",")
    scores = {each: _score(text, each) for each in candidates}
    best = max(scores, key=lambda each: (scores[each][0], each.escape if not each.quote else "", scores[each][1]))
    if best.escape and not best.quote:
        return best
    among = [each for each in candidates if each.delimiter == best.delimiter and each.quote == "'"]
    if best.quote == '"' and not _has_one_width(text, best) and (even := [e for e in among if _has_one_width(text, e)]):
        # With more values than its header names, a row has a delimiter within a value.
        return even[0]
    quoted = [each for each in candidates if each.delimiter == best.delimiter and each.quote == '"']
    nearest = max(quoted, key=lambda each: scores[each])
    # A few rows before the header may have fewer values with quotes than without.
    return nearest if not best.quote and scores[nearest][0] > _NEARLY * scores[best][0] else best


def _has_one_width(text: str, dialect: Delimited) -> bool:
    """True if all rows, with the header, have the same number of values."""
    widths = {len(row) for _, row in rows_of(text, dialect) if row}
    return len(widths) == 1 and widths != {1}


def _has_letters(text: str, more: str) -> bool:
    """True if each backslash of a text is an escape as dumps of databases have them, and one before a letter is there.

    Args:
        more: What else is escaped.
    """
    behind = {found[1] for found in _ESCAPED.finditer(_END.sub("", text))}
    return not behind.isdisjoint(_LETTERS) and behind <= _LETTERS | {"", "N", "\\", *more}


def _with_quotes(found: Delimited, texts: Sequence[str]) -> Delimited:
    """A dialect with what all of its rows tell: whether its quotes are letters, and whether they end in one way.

    Quotes are letters where lines have equally many values without them, and rows cannot be read with them.
    """
    faults = [_faults(text, found) for text in texts]
    misquoted, is_open = sum(count for count, _, _ in faults), any(is_open for _, is_open, _ in faults)
    found = replace(found, is_mixed=len(faults[0][2]) > 1)
    plain = replace(found, quote="", escape="", letters=False)
    if found.quote == '"' and (misquoted or is_open) and all(_is_even(text, plain) for text in texts):
        return plain
    return replace(found, misquoted=misquoted)


def _faults(text: str, dialect: Delimited) -> tuple[int, bool, set[str]]:
    """The faults of quoting: the number of rows with text behind a closing quote, whether one is open for very many
    lines, and the ends of rows."""
    misquoted, is_open, before, last = 0, False, 0, ""
    ends: set[str] = set()

    def lines() -> Iterator[str]:
        nonlocal last
        for line in io.StringIO(text, newline=""):
            last = line
            yield line

    reader = _reader(lines(), text, dialect, strict=True)
    while True:
        try:
            for _ in reader:
                ends.add(last[len(last.rstrip("\r\n")) :])
                is_open = is_open or reader.line_num - before > _MOST_LINES_OF_A_VALUE
                before = reader.line_num
            return misquoted, is_open, ends - {""}
        except csv.Error as error:
            misquoted += "after" in str(error)
            is_open = is_open or "end of data" in str(error)
            before = reader.line_num


def _is_even(text: str, dialect: Delimited) -> bool:
    """True if nearly all lines have the same number of values."""
    widths = Counter(line.count(dialect.delimiter) for line in text.splitlines() if line.strip())
    return not widths or widths.most_common(1)[0][1] > 0.99 * widths.total() - 1


def _quotes(text: str, delimiter: str) -> Iterator[str]:
    yield '"'
    if re.search(rf"(^|{re.escape(delimiter)}) ?'[^\n]*'({re.escape(delimiter)}|\r|\n|$)", text, re.MULTILINE):
        yield "'"
    if ('"' in text or _has_letters(text, delimiter)) and not _are_quoted(text, delimiter):
        yield ""


def _are_quoted(text: str, delimiter: str) -> bool:
    """True if most values are in quotes, which are not part of them then."""
    values = [value for line in text.splitlines() for value in line.split(delimiter)]
    quoted = sum(len(value) > 1 and value[0] == value[-1] == '"' for value in values)
    return quoted > len(values) / 2


def _score(text: str, dialect: Delimited) -> tuple[float, int]:
    rows = [row for _, row in rows_of(text, dialect) if row]
    if not rows:
        return 0.0, 0
    width, count = Counter(map(len, rows)).most_common(1)[0]
    cells = [cell for row in rows if len(row) == width for cell in row]
    clean = sum(_is_clean(cell, dialect) for cell in cells) / len(cells)
    is_used = (dialect.quote == '"' and '"' in text) + (dialect.escape != "")
    # A quote that is not closed swallows lines.
    whole = len(rows) / max(1, sum(1 for line in io.StringIO(text, newline="") if line.strip()))
    return round(count / len(rows) * (width - 1) / width * clean * min(1.0, whole + 0.2), 6), int(is_used)


def _is_clean(cell: str, dialect: Delimited) -> bool:
    if not cell or _NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) or _WORDS.fullmatch(cell):
        return True
    return dialect.escape != "" or (bool(dialect.quote) and '"' not in cell)


def rows_of(text: str, dialect: Delimited) -> Iterator[tuple[int, list[str]]]:
    """The rows of a text, each with the number of its first line, from 1."""
    if dialect.escape and not dialect.quote:
        yield from _escaped_rows(io.StringIO(text, newline=""), dialect)
        return
    reader = _reader(io.StringIO(text, newline=""), text, dialect)
    before = 0
    try:
        for row in reader:
            yield before + 1, row
            before = reader.line_num
    except csv.Error:
        return


def _escaped_rows(lines: Iterable[str], dialect: Delimited) -> Iterator[tuple[int, list[str]]]:
    escaped = EscapedLines(dialect.escape, dialect.delimiter)
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
        yield begun, [escaped.restored(value) for value in row.split(dialect.delimiter)]
        begun, pieces = number + 1, []


def _reader(lines: Iterable[str], text: str, dialect: Delimited, *, strict: bool = False) -> Any:
    """Python's reader of some lines of a text."""
    delimiter = dialect.delimiter
    if len(delimiter) > 1:
        lines, delimiter = (line.replace(dialect.delimiter, _STAND_IN) for line in lines), _STAND_IN
    if dialect.escape:
        lines = (line.replace(f"{dialect.escape}{dialect.quote}", dialect.quote * 2) for line in lines)
    return csv.reader(
        lines,
        delimiter=delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        skipinitialspace=dialect.trim or (bool(dialect.quote) and f"{dialect.delimiter} {dialect.quote}" in text),
        strict=strict,
    )


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
    behind = _behind_banner([row for _, row in rows], first, width)
    first = behind if has_header([row for _, row in rows[behind:] if len(row) == width]) else first
    if first and comment == "" and _lacks_last(rows[first - 1][1], rows[first:], width):
        first -= 1
    skip = rows[first][0] - 1 if not comment or _has_others(lines[: rows[first][0] - 1], comment) else 0
    cells = [cell for _, row in rows[first : first + 100] for cell in row if cell.strip()]
    is_padded = {cell: cell != cell.strip() and _quoted(cell, found) not in text for cell in (*cells, *rows[first][1])}
    padded = sum(is_padded[cell] for cell in cells)
    trim = (
        any(is_padded[cell] for cell in rows[first][1]) or padded > len(cells) * 0.2 or f'{found.delimiter} "' in text
    )
    body = [[cell.strip() for cell in row] for _, row in rows[first:] if len(row) in (width, width - 1)]
    found = replace(found, skip=skip, comment="" if skip else comment, trim=trim, header=has_header(body))
    if found.header or not rows[first][0] > 1:
        return found
    return replace(found, names=_names_before(lines[: rows[first][0] - 1], found, comment, body))


def _behind_banner(rows: Sequence[Sequence[str]], first: int, width: int) -> int:
    """The first row that is no title of a sheet: of these a few cells are filled, and the delimiters are all there."""
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[first : first + 50]]
    usual = sorted(filled)[len(filled) // 2]
    if width < 3 or len(filled) < 3 or usual <= width // 2:
        return first
    return first + next(place for place, count in enumerate(filled) if count > max(1, width // 3))


def _names_before(
    lines: Sequence[str], found: Delimited, comment: str, body: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """The names that one of the lines before the first row gives to the columns; none where no line does.

    A row may end in values that are always empty and have no name.
    """
    width = len(body[0])
    named = max((place + 1 for row in body for place, cell in enumerate(row) if cell), default=0)
    for line in reversed(lines):
        text = line.strip().lstrip(comment).strip() if comment else line.strip("\r\n")
        fields = re.fullmatch(r"fields:(.*)", text, flags=re.IGNORECASE)
        row = fields[1].split() if fields else next(iter(rows_of(text, found)), (0, []))[1]
        names = tuple(each.strip() for each in row)
        if named <= len(names) <= width and len(names) > 1 and all(names) and not any(map(_is_typed, names)):
            return names
    return ()


def _quoted(cell: str, dialect: Delimited) -> str:
    """A value in quotes, in which blanks are its own."""
    return f"{dialect.quote}{cell}{dialect.quote}" if dialect.quote else f"{dialect.delimiter}\0"


def _comment(rows: Sequence[tuple[int, Sequence[str]]], width: int) -> str:
    """The prefix of lines that are not rows."""
    for mark in _COMMENTS:
        marked = [row for _, row in rows if row[0].startswith(mark)]
        if marked and any(len(row) != width for row in marked) and len(marked) < len(rows):
            return mark
    return ""


def _has_others(lines: Sequence[str], comment: str) -> bool:
    return any(line.strip() and not line.startswith(comment) for line in lines)


def _lacks_last(header: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]], width: int) -> bool:
    """True if rows end in a delimiter, and their header does not."""
    return len(header) == width - 1 and all(not row[-1] for _, row in rows if len(row) == width)


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """True if the first of some rows names the columns: its texts do not occur in the columns below."""
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
        return _are_steps([cell for cell in named if _is_typed(cell)]) and not all(map(_is_typed, named))
    recurring = sum(cell in column for cell, column in zip(first, columns, strict=True) if cell)
    return recurring == 0 or (rows.count(first) > 1 and len(set(named)) == len(named))


def _are_steps(cells: Sequence[str]) -> bool:
    """True if dates or years follow each other, as the names of columns with one value for each."""
    form = time_form(cells, numbers=True, years=True) if len(cells) > 2 else None
    times = [at for cell in cells if form is not None and (at := form.read(cell)) is not None]
    return len(times) == len(cells) and (times == sorted(set(times)) or times[::-1] == sorted(set(times)))


def _is_typed(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None or _DATE.fullmatch(cell) is not None


def _of_duckdb(text: str) -> str:
    """DuckDB's delimiter; empty where it finds no dialect."""
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
    """True if texts are times without a date."""
    return (
        bool(texts)
        and time_form(texts) is None
        and all(re.fullmatch(r"\d{1,2}[:.]\d\d([:.]\d\d)?( ?[AP]M)?", text) for text in texts)
    )
