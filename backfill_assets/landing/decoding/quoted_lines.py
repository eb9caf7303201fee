"""Quoted lines: what Python's reader of CSV reads otherwise than it was declared.

It drops every escape, whatever is behind it, and takes blanks before a quote for a value without quotes. So a line that
has one of these is written anew for it, value by value.
"""

from __future__ import annotations

import re

from backfill_assets.domain import Csv

_LINE_END = re.compile(r"[\r\n]*\Z")


class QuotedLines:
    """Lines of a dialect, for a reader with this delimiter whose quotes are written twice and who trims nothing.

    Args:
        delimiter: One character.
    """

    def __init__(self, dialect: Csv, delimiter: str) -> None:
        self._quote, self._delimiter = dialect.quote, delimiter
        self._escape = escape = dialect.escape if dialect.escape != dialect.quote else ""
        self._blanks = " \t".replace(delimiter, "") if dialect.trim else ""
        quote, before = re.escape(dialect.quote), re.escape(escape)
        pieces = [f"[^{quote}{before}]++", quote * 2, *([f"{before}(?:.|\\Z)"] if escape else [])]
        self._inside = re.compile(f"(?:{'|'.join(pieces)})*+", re.DOTALL)
        self._escaped = re.compile(f"{before}([{before}{quote}])") if escape else None

    def are_looked_at(self, line: str, *, inside: bool) -> bool:
        """Whether a line has something that is written anew.

        Args:
            inside: Whether it begins within a quoted value.
        """
        is_quoted = inside or self._quote in line
        return is_quoted and (self._blanks != "" or (self._escape != "" and self._escape in line))

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
        return 2 * self._quote if found[1] == self._quote else found[1]

    def _behind_blanks(self, text: str, place: int) -> int:
        while self._blanks and place < len(text) and text[place] in self._blanks:
            place += 1
        return place

    def _end(self, text: str, place: int) -> int:
        found = text.find(self._delimiter, place)
        return len(text) if found < 0 else found
