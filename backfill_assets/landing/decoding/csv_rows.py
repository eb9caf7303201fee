"""Quoted and escaped lines: the rows of CSV that Python's reader would read otherwise than declared.

It drops every escape, whatever is behind it, and takes blanks before a quote for a value without quotes. So a line that
has one of these is written anew for it, value by value.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.landed_files import FileKind
from backfill_assets.domain import Csv
from backfill_assets.landing.first_bytes import SAMPLE_BYTES, OtherEncoding, require_kind
from backfill_assets.landing.likely_forms import declaration, other_quotes, require_csv_header
from backfill_assets.landing.probe import MOST_RECORD_BYTES, MOST_VALUES, csv_text, no_csv, opened, text_errors

_LINE_END = re.compile(r"[\r\n]*\Z")
_BLANKS = " \t"
_NAMED = {"0": "\0", "Z": "\x1a", **dict(zip("bfnrtv", "\b\f\n\r\t\v", strict=True))}
"""By the letter behind an escape, the character that it stands for in dumps of MySQL or of PostgreSQL."""
_CODES = "1234567x"
"""Behind an escape PostgreSQL reads these as a number of a character, and MySQL as themselves; neither writes them."""


class EscapedLines:
    """Lines of a dialect with an escape and without quotes, for a reader that knows no escape.

    Args:
        delimiters: The characters of its delimiter.
    """

    def __init__(self, escape: str, delimiters: str) -> None:
        before = re.escape(escape)
        self._escaped = re.compile(f"{before}(\r\n|.|\\Z)", re.DOTALL)
        self._goes_on = re.compile(f"(?<!{before})(?:{before}{before})*{before}(?:\r\n|\r|\n)\\Z")
        self._is_end = re.compile(f"{before}\\.[\r\n]*")
        # Halves of surrogate pairs, which no text has, stand for what would end or trim a value.
        special = dict.fromkeys(f"N\r\n{_BLANKS}{delimiters}")
        self._stand_ins = {each: chr(0xD801 + place) for place, each in enumerate(special)}
        self._restored = str.maketrans({each: name for name, each in self._stand_ins.items()})

    def goes_on(self, line: str) -> bool:
        """True if the end of a line is escaped."""
        return self._goes_on.search(line) is not None

    def is_end(self, line: str) -> bool:
        """True if a line is the end mark that PostgreSQL writes behind the last row."""
        return self._is_end.fullmatch(line) is not None

    def as_plain(self, line: str) -> str:
        """The line without its escapes.

        Raises:
            ValueError: It has one that programs read differently.
        """
        return self._escaped.sub(self._unescaped, line)

    def restored(self, value: str) -> str:
        """A value of such a line."""
        return "" if value == self._stand_ins["N"] else value.translate(self._restored)

    def _unescaped(self, found: re.Match[str]) -> str:
        follows = found.string[found.end() : found.end() + 1]
        if not found[1] or found[1] in _CODES or (found[1] == "0" and follows in ("0", *_CODES[:-1])):
            raise ValueError(found[0])
        return "".join(self._stand_ins.get(each, each) for each in _NAMED.get(found[1], found[1]))


class QuotedLines:
    """Lines of a dialect, for a reader with this delimiter whose quotes are written twice and who trims nothing.

    Args:
        delimiter: One character.
    """

    def __init__(self, dialect: Csv, delimiter: str) -> None:
        self._quote, self._delimiter = dialect.quote, delimiter
        self._escape = escape = dialect.escape if dialect.escape != dialect.quote else ""
        self._blanks = _BLANKS.replace(delimiter, "") if dialect.trim else ""
        quote, before = re.escape(dialect.quote), re.escape(escape)
        pieces = [f"[^{quote}{before}]++", quote * 2, *([f"{before}(?:.|\\Z)"] if escape else [])]
        self._inside = re.compile(f"(?:{'|'.join(pieces)})*+", re.DOTALL)
        between, blank = re.escape(delimiter), f"[{_BLANKS}]"
        quoted = f"{quote}(?!{blank})(?:[^{quote}]++|{quote}{quote})*+(?<!{blank}){quote}"
        value = f"(?:{quoted}|[^{between}{quote}\r\n]*+)"
        # With no blank beside a quote that begins or ends a value, a row is trimmed alike with quotes and without.
        is_one = len(dialect.delimiter) == 1
        self._is_tidy = re.compile(f"(?:{value}{between})*+{value}[\r\n]*+") if is_one else None
        self._has_letters = dialect.letters
        behind = "(.|\\Z)" if dialect.letters else f"([{before}{quote}])"
        self._escaped = re.compile(f"{before}{behind}", re.DOTALL) if escape else None

    def are_looked_at(self, line: str, *, inside: bool) -> bool:
        """True if a line has something that must be rewritten.

        Args:
            inside: Whether it begins within a quoted value.
        """
        if not inside and self._quote not in line:
            return False
        if self._escape != "" and self._escape in line:
            return True
        return self._blanks != "" and (inside or self._is_tidy is None or self._is_tidy.fullmatch(line) is None)

    def as_plain(self, line: str, *, inside: bool) -> str:
        """The line with its values as the reader takes them; `inside` as for `are_looked_at`."""
        end = _LINE_END.search(line)
        assert end is not None
        text, place, found = line[: end.start()], 0, list[str]()
        while True:
            value, place = self._value(text, place, inside=inside)
            found.append(value)
            if place >= len(text):
                return "".join(found) + end[0]
            found.append(self._delimiter)
            place, inside = place + 1, False

    def _value(self, text: str, place: int, *, inside: bool) -> tuple[str, int]:
        """The value that begins at a place, and the place of the delimiter behind it or of the end."""
        begin = "" if inside else self._quote
        if not inside:
            quote = self._behind_blanks(text, place)
            if not text.startswith(self._quote, quote):
                end = self._end(text, place)
                return text[place:end].strip(self._blanks or "\r\n"), end
            place = quote + 1
        found = self._inside.match(text, place)
        assert found is not None
        inner = self._escaped.sub(self._unescaped, found[0]) if self._escaped else found[0]
        if found.end() >= len(text):
            return begin + inner, len(text)
        closed = found.end() + 1
        behind = self._behind_blanks(text, closed)
        if behind == len(text) or text.startswith(self._delimiter, behind):
            return begin + inner + self._quote, behind
        end = self._end(text, closed)
        return begin + inner + self._quote + text[closed:end], end

    def _unescaped(self, found: re.Match[str]) -> str:
        if found[1] == self._quote:
            return 2 * self._quote
        return _NAMED.get(found[1], found[1]) if self._has_letters else found[1]

    def _behind_blanks(self, text: str, place: int) -> int:
        while self._blanks and place < len(text) and text[place] in self._blanks:
            place += 1
        return place

    def _end(self, text: str, place: int) -> int:
        found = text.find(self._delimiter, place)
        return len(text) if found < 0 else found


# CSV rows: text in a declared dialect becomes CSV as the readers take it, in UTF-8, with commas, quotes written
# twice, one kind of line ends and a header.
#
# Values keep their texts. A row that cannot be read stands in its place with its own text and the reason: it is
# rejected alone, unless it is not known where it ends.

REASON_ENDS = "\x1e"
"""Between the reason and the text of a row that cannot be read, which are one value in a decoded file."""

_CHUNK_BYTES = 1 << 20
_DELIMITER = "\ud800"
"""Stands for a delimiter of several characters. No text has it: half of a surrogate pair is no character."""

_NO_CHARACTER = re.compile("[\ud800-\udfff]")
_BYTE = 0xDC00
_UNDECODABLE = "backfill_assets.undecodable"
_SEP = re.compile(r'"?sep=(.+?)"?[\r\n]*', re.IGNORECASE)
_SPECIAL = re.compile(r'[,"\r\n]')

Row = list[str] | str
"""The values of a row, or the reason why it cannot be read."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are no character in the declared encoding, as characters that no text has."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_BYTE + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_UNDECODABLE, _marked)


def decode_csv(
    copy: Path, kind: FileKind, dialect: Csv, *, name: str, into: Path, columns: Collection[str] = ()
) -> None:
    """Writes the rows of a file in a dialect as CSV that the readers take.

    Args:
        copy: The file.
        kind: What it is.
        dialect: What it is declared to be written in.
        name: What messages call it.
        into: The decoded file.
        columns: Those that its header has to name.

    Raises:
        BadFile: It is something else than CSV, or it cannot be told where one of its rows ends.
    """
    require_kind(copy, kind, name, dialect=dialect)
    with _text_errors(dialect, name), csv_text(opened(copy, kind), encoding=dialect.encoding) as text:
        require_csv_header(text.read(SAMPLE_BYTES), name, columns, dialect)
    with (
        _text_errors(dialect, name),
        csv_text(opened(copy, kind), encoding=dialect.encoding, errors=_UNDECODABLE) as text,
        into.open("w", encoding="utf-8", newline="") as written,
    ):
        source = _Source(text=text, dialect=dialect, name=name)
        try:
            csv.writer(written, lineterminator="\n").writerows(_decoded(source, written))
        finally:
            if source.is_undecodable and codecs.lookup(dialect.encoding).name in ("utf-8", "utf-8-sig"):
                _refuse_other_encoding(copy, kind, dialect, name)


@contextmanager
def _text_errors(dialect: Csv, name: str) -> Iterator[None]:
    """Refuses what is no whole file, and what an encoding cannot begin with."""
    try:
        with text_errors(name):
            yield
    except UnicodeError as error:
        why = f"is not {dialect.encoding} text ({error}): declare the encoding that it has"
        raise BadFile(path=name, fault=Fault.ENCODING, why=why) from error


def _refuse_other_encoding(copy: Path, kind: FileKind, dialect: Csv, name: str) -> None:
    other = OtherEncoding()
    with opened(copy, kind) as file:
        while chunk := file.read(_CHUNK_BYTES):
            other.add(chunk)
    other.refuse(name, dialect)


@dataclass(slots=True, kw_only=True)
class _Source:
    """The text of a file, read line by line."""

    text: IO[str]
    dialect: Csv
    name: str
    raw: list[str] = field(default_factory=list)  #: The lines of the row that is being read, as they are in the file.
    line: int = 0  #: How many lines were read.
    is_odd: bool = False  #: True if the row has something that the readers would not take as it is.
    problem: str = ""  #: Why the row cannot be read, where that is seen before it is taken apart.
    is_undecodable: bool = False  #: True if any row has bytes that are no character.
    escaped: EscapedLines | None = None  #: What reads its lines, of a dialect with an escape and without quotes.

    def __post_init__(self) -> None:
        if self.dialect.escape and not self.dialect.quote:
            self.escaped = EscapedLines(self.dialect.escape, self.dialect.delimiter)

    def read(self) -> str:
        """The next line with its end; nothing behind the last one."""
        line = self.text.readline(MOST_RECORD_BYTES + 1)
        self.line += bool(line)
        if len(line) > MOST_RECORD_BYTES:
            why = f"has a line of more than {MOST_RECORD_BYTES >> 20} MiB (line {self.line:,}), which is not a record"
            raise BadFile(path=self.name, fault=Fault.LONG_LINE, why=why)
        return line

    @property
    def begins(self) -> int:
        """The number of the line in which the row begins."""
        return self.line - len(self.raw) + 1

    def taken(self) -> str:
        """The text of the row that was read, of which nothing is kept."""
        text = "".join(self.raw).rstrip("\r\n")
        self.forget()
        return _NO_CHARACTER.sub("\ufffd", text)

    def forget(self) -> None:
        """The row that was read is done with."""
        self.raw.clear()
        self.is_odd, self.problem = False, ""

    def restored(self, value: str) -> str:
        """A value without what stands for characters in it while rows are taken apart."""
        value = value.replace(_DELIMITER, self.dialect.delimiter)
        return value if self.escaped is None else self.escaped.restored(value)

    def lines(self, first: str) -> Iterator[str]:
        """The lines from the first one on, as `csv.reader` takes them."""
        dialect, raw = self.dialect, self.raw
        comment, quote = dialect.comment, dialect.quote
        delimiter = dialect.delimiter if len(dialect.delimiter) > 1 else ""
        quoted = QuotedLines(dialect, _DELIMITER if delimiter else dialect.delimiter) if quote else None
        line = first
        while line:
            if comment and not raw and line.startswith(comment):
                line = self.read()
                continue
            has_escape = self.escaped is not None and dialect.escape in line
            if has_escape:
                line = self._whole(line)
                if not line:
                    return
            raw.append(line)
            if not line.isascii() and _NO_CHARACTER.search(line):
                self.problem = f"the row is not valid {dialect.encoding}"
                self.is_odd = self.is_undecodable = True
            if has_escape:
                line = self._unescaped(line)
            if delimiter:
                line = line.replace(delimiter, _DELIMITER)
                self.is_odd = self.is_odd or (quote != "" and quote in line)
            if quoted is not None and quoted.are_looked_at(line, inside=len(raw) > 1):
                self.is_odd = True
                line = quoted.as_plain(line, inside=len(raw) > 1)
            yield line
            line = self.read()

    def _whole(self, line: str) -> str:
        """A line with those that it goes on in behind escaped ends; nothing for the one behind the last row."""
        assert self.escaped is not None
        if self.escaped.is_end(line):
            ended = self.line
            while more := self.read():
                if more.strip():
                    why = f"has more behind the end of its rows, which line {ended:,} is ({line.rstrip()})"
                    raise BadFile(path=self.name, fault=Fault.DIALECT, why=why)
            return ""
        began, pieces, size = self.line, [line], len(line)
        while self.escaped.goes_on(pieces[-1]) and (more := self.read()):
            pieces.append(more)
            size += len(more)
            if size > MOST_RECORD_BYTES:
                raise no_csv("limit", self.name, began=began, line=self.line)
        return "".join(pieces)

    def _unescaped(self, line: str) -> str:
        assert self.escaped is not None
        self.is_odd = True
        try:
            return self.escaped.as_plain(line)
        except ValueError as error:
            self.problem = f"the row has the escape {error}, which programs read differently, or which is cut"
            return "\n"

    def begun(self) -> str:
        """The first line that is no banner; a line that names the delimiter for a spreadsheet is one."""
        line = self.read().removeprefix("\ufeff")
        if (named := _SEP.fullmatch(line)) is not None and named[1] != self.dialect.delimiter:
            declared = declaration(replace(self.dialect, delimiter=named[1]))
            why = f"says in its first line that {named[1]!r} is between its values: declare {declared}"
            raise BadFile(path=self.name, fault=Fault.DELIMITER, why=why)
        for _ in range(max(self.dialect.skip, 1 if named else 0)):
            line = self.read()
        return line


def _rows(source: _Source) -> Iterator[Row]:
    """The rows of a file; blank lines are none."""
    dialect = source.dialect
    rows = csv.reader(
        source.lines(source.begun()),
        delimiter=dialect.delimiter if len(dialect.delimiter) == 1 else _DELIMITER,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )
    blanks = _BLANKS.replace(dialect.delimiter, "") if dialect.trim else ""
    while True:
        try:
            for row in rows:
                if source.problem:
                    yield source.problem
                    continue
                if blanks and not (source.is_odd and dialect.quote):
                    row = [value.strip(blanks) for value in row]
                if not row or (blanks and row == [""] and not source.raw[0].strip()):
                    source.forget()
                    continue
                if len(source.raw) > 1 or len(row) > MOST_VALUES:
                    _require_size(source, row)
                yield row
            return
        except csv.Error as error:
            yield _problem(source, str(error))


def _require_size(source: _Source, row: Sequence[str]) -> None:
    """Refuses a row that is more than Spark can hold."""
    if len(row) > MOST_VALUES:
        at = f"it ends in line {source.line:,}"
        why = f"has a row of {len(row):,} values ({at}), and {MOST_VALUES:,} are the most"
        raise BadFile(path=source.name, fault=Fault.COLUMNS, why=why)
    if sum(map(len, row)) > MOST_RECORD_BYTES:
        raise no_csv("limit", source.name, began=source.begins, line=source.line)


def _problem(source: _Source, error: str) -> str:
    """The reason why a row cannot be read.

    Raises:
        BadFile: It cannot be told where the row ends.
    """
    if len(source.raw) == 1 and "after" in error:
        return f"the row has text behind a closing quote: {other_quotes(source.dialect)}"
    raise no_csv(error, source.name, began=source.begins, line=source.line, dialect=source.dialect)


def _decoded(source: _Source, written: IO[str]) -> Iterator[list[str]]:
    """The header, and the rows that the readers take as they are; others are written as they come."""
    rows = _rows(source)
    first = next(rows, None)
    if first is None and source.dialect.skip and source.dialect.header and source.line:
        why = f"has no header behind the first {source.dialect.skip:,} lines"
        raise BadFile(path=source.name, fault=Fault.BANNER, why=why)
    if isinstance(first, str):
        why = f"has a first row that cannot be read, in line {source.line:,}: {first}"
        raise BadFile(path=source.name, fault=Fault.ENCODING if source.is_undecodable else Fault.QUOTES, why=why)
    if first is None:
        return
    if source.dialect.header:
        source.forget()
        yield from _below(first, next(rows, None), rows, source, written)
    else:
        yield from _below([], first, rows, source, written)


def _below(
    header: list[str], first: Row | None, rows: Iterator[Row], source: _Source, written: IO[str]
) -> Iterator[list[str]]:
    """The names of the columns, and the rows below them.

    Args:
        header: The first row; empty where no row names the columns.
        first: The first row below it.
    """
    names, is_ended = _columns(header, first)
    width = len(names)
    written.write(as_csv([*map(source.restored, names)]))
    for row in () if first is None else chain([first], rows):
        if row == header:  # once more, where files were put together
            source.forget()
            continue
        if not isinstance(row, str):
            if is_ended and len(row) == width + 1 and row[-1] == "":
                row.pop()
            elif is_ended or len(row) != width:
                row = f"the row does not have the {width} values of the header"
        if isinstance(row, str):
            written.write(as_unreadable(row, source.taken(), width))
        elif source.is_odd or len(source.raw) > 1:
            written.write(as_csv([*map(source.restored, row)]))
            source.forget()
        else:
            yield row
            source.raw.clear()


def _columns(header: list[str], first: Row | None) -> tuple[list[str], bool]:
    """The names of the columns, and whether each row ends in a delimiter that begins no value.

    The first row below the header decides. A row that is otherwise than that one is rejected: which of its values
    would be left out is not known.
    """
    if not header:
        assert first is not None
        return [str(position) for position in range(len(first))], False
    values = first if isinstance(first, list) else header
    if header[-1] == "" and len(header) > 1:
        is_named = len(values) == len(header) and values[-1] != ""
        return (header, False) if is_named else (header[:-1], len(values) == len(header))
    return header, len(values) == len(header) + 1 and values[-1] == ""


def as_unreadable(reason: str, text: str, width: int) -> str:
    """A row that the readers take for one of another width, with the reason and its text."""
    both = f"{reason}{REASON_ENDS}{text}".replace('"', '""')
    return f'"{both}"{"," if width == 1 else ""}\n'


def as_csv(row: Sequence[str]) -> str:
    """A row as the readers take it."""
    return ",".join(map(_quoted, row)) + "\n" if row != [""] else '""\n'


def _quoted(value: str) -> str:
    return '"{}"'.format(value.replace('"', '""')) if _SPECIAL.search(value) else value
