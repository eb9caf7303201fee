"""Quoted and escaped lines: what Python's reader of CSV reads otherwise than it was declared.

It drops every escape, whatever is behind it, and takes blanks before a quote for a value without quotes. So a line that
has one of these is written anew for it, value by value.
"""

from __future__ import annotations

import re

from backfill_assets.domain import Csv

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
        """Whether the end of a line is escaped."""
        return self._goes_on.search(line) is not None

    def is_end(self, line: str) -> bool:
        """Whether a line is the one behind the last row that PostgreSQL writes."""
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
        """Whether a line has something that is written anew.

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
