"""JSON documents: the records of a file that is no lines of JSON, each with its own text.

A file has one document or several, with nothing but blanks between them. What is sliced out of it are the bytes that
the source wrote: digits, escapes, the order of members and names that occur twice stay as they are, and line breaks
between tokens become blanks, so that each record is one line. A record whose grammar is wrong is a record of its own,
which the reader of the lines rejects, as long as its end is certain; what is wrong around the records refuses the file.

Bytes are looked at as Latin-1, where each is one character: places are bytes, and no text is changed by being decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import IO, NoReturn

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.core.wording import visible
from backfill_assets.domain import Json
from backfill_assets.landing.first_bytes import json_declaration
from backfill_assets.landing.probe import MOST_RECORD_BYTES

MOST_LEVELS = 500
"""So deep may a document nest. Parsers of Python and of Spark stop at about twice that."""

_CHUNK_BYTES = 1 << 20
_MOST_NAMES, _MOST_CHARACTERS = 12, 40
_BOM = b"\xef\xbb\xbf".decode("latin-1")
_BLANKS = re.compile(r"[ \t\r\n]*+")
_SEPARATORS = re.compile(r"[ \t\r\n\x1e]*+")
"""What is between documents: a sequence of JSON texts (RFC 7464) has a record separator before each of them."""

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRICT_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_ATOM = re.compile(r"[A-Za-z0-9_+.\-]*+")
_STRICT_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null")
_BETWEEN_BRACKETS = re.compile(r"[A-Za-z0-9_+.\- \t\r\n,:]++")
"""What may stand in a record of which the grammar is wrong, so that it is certain where it ends: no other quotes, no
comments."""

_NEAR_THE_END = 16
"""Longer than a literal or an escape: an error so near to the end of what was read may come from the cut there."""

_CLOSES = {"{": "}", "[": "]"}
_WHAT = {"{": "an object", "[": "a list", '"': "a text"}


def _no_number(said: str) -> NoReturn:
    raise ValueError(said)


# They find where a value ends, and keep nothing of it.
_RECORD = json.JSONDecoder(object_pairs_hook=lambda _: None, parse_int=len, parse_float=len)
_STRICT = json.JSONDecoder(object_pairs_hook=lambda _: None, parse_int=len, parse_float=len, parse_constant=_no_number)


def json_records(stream: IO[bytes], reads: Json, *, name: str) -> Iterator[bytes]:
    """The records of a file, each on one line without its end.

    Args:
        stream: Its bytes, unpacked.
        name: What messages call it.

    Raises:
        UnreadableFile: It is cut, damaged, not what is declared, or has a record that is too long.
    """
    text = _Text(stream, name)
    path = reads.records.split(".") if reads.records else []
    begin = "[" if reads.array else "{"
    while text.begins(begin, reads):
        if path:
            yield from _records_at(text, path)
        elif reads.array:
            yield from _elements(text)
        else:
            yield text.record()
    if text.is_empty and (path or reads.array):
        text.refuse(
            Fault.DAMAGED, "is empty, and a JSON document without records is not: it was not written to its end"
        )


def _records_at(text: _Text, path: Sequence[str], before: Sequence[str] = ()) -> Iterator[bytes]:
    """The records of the list at a path of an object that comes next."""
    here = [*before, path[0]]
    names: list[str] = []
    for name in text.members():
        if name != path[0]:
            text.skip()
        elif name in names:
            text.refuse(Fault.DAMAGED, f"names {_shown(here)} twice", is_here=True)
        elif text.what != (wanted := "{" if path[1:] else "["):
            why = f"has {text.found} at {_shown(here)}, and {_WHAT[wanted]} is declared there"
            text.refuse(Fault.DIALECT, why, is_here=True)
        elif path[1:]:
            yield from _records_at(text, path[1:], here)
        else:
            yield from _elements(text)
        if len(names) <= _MOST_NAMES or name == path[0]:
            names.append(name)
    if path[0] not in names:
        held = ", ".join(visible(each[:_MOST_CHARACTERS]) for each in names[:_MOST_NAMES]) or "none"
        more = " and more" if len(names) > _MOST_NAMES else ""
        of = f" of {_shown(before)}" if before else ""
        text.refuse(Fault.DIALECT, f"has no list at {_shown(here)}: the members{of} are {held}{more}")


def _elements(text: _Text) -> Iterator[bytes]:
    """The elements of an array that comes next."""
    text.take("[")
    if text.taken("]"):
        return
    while True:
        yield text.record()
        if text.taken("]"):
            return
        text.take(",", or_end="]")


def _shown(path: Sequence[str]) -> str:
    return repr(visible(".".join(each[:_MOST_CHARACTERS] for each in path)))


class _Text:
    """The text of a file from where it is read, of which a part is held."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name
        self._text, self._at, self._is_whole = "", 0, False
        self._bytes_before, self._lines_before = 0, 1
        self._documents = 0
        while len(self._text) < len(_BOM) and self._more():
            pass
        self._at = len(_BOM) if self._text.startswith(_BOM) else 0

    @property
    def is_empty(self) -> bool:
        return not self._documents

    @property
    def what(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            match = _BLANKS.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    @property
    def found(self) -> str:
        """The next thing in the text, in words."""
        what = self.what
        if what in _WHAT:
            return _WHAT[what]
        quoted = self._text[self._at : self._at + _MOST_CHARACTERS].split("\n", 1)[0].encode("latin-1")
        return repr(visible(re.split(r"[\s,\]}]", quoted.decode("utf-8", "replace"), maxsplit=1)[0] or what))

    def begins(self, wanted: str, reads: Json) -> bool:
        """True if another document follows; False at the end of the file."""
        while True:
            match = _SEPARATORS.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or not self._more():
                break
        if self._at == len(self._text):
            return False
        if self._documents and wanted == "{" and not reads.records:
            self.taken(",")
        if (what := self.what) != wanted:
            if self._documents:
                why = "has a comma behind its last object" if not what else f"has {self.found} behind a document"
                self.refuse(Fault.DAMAGED, why, is_here=True)
            if what in _CLOSES:
                self._refuse_other(what)
            why = f"is not a JSON document: it begins with {self.found}"
            self.refuse(Fault.NOT_TEXT, why)
        self._documents += 1
        return True

    def _refuse_other(self, what: str) -> NoReturn:
        found, declared = ("array", "object") if what == "[" else ("object", "array")
        near = json_declaration(self._text[self._at :])
        self.refuse(Fault.DIALECT, f"is a JSON {found}, and an {declared} is declared: declare {near}")

    def members(self) -> Iterator[str]:
        """The names of the object that comes next. Before another name is asked for, the value has to be read."""
        self.take("{")
        if self.taken("}"):
            return
        while True:
            name = self._string()
            self.take(":")
            yield name
            if self.taken("}"):
                return
            self.take(",", or_end="}")

    def taken(self, token: str) -> bool:
        """Takes a character if it comes next."""
        if self.what != token:
            return False
        self._at += 1
        return True

    def take(self, token: str, or_end: str = "") -> None:
        if not self.taken(token):
            self._refuse_next(f"{token!r} or {or_end!r}" if or_end else repr(token))

    def _refuse_next(self, wanted: str) -> NoReturn:
        if not self.what:
            self._refuse_cut()
        self.refuse(Fault.DAMAGED, f"has {self.found} where {wanted} is expected", is_here=True)

    def _refuse_cut(self) -> NoReturn:
        self._at = len(self._text)
        self.refuse(Fault.DAMAGED, "ends within a JSON document", is_here=True)

    def record(self) -> bytes:
        """The element that comes next, on one line."""
        what = self.what
        if what not in _WHAT:
            self._require_atom(_ATOM)
            end = self._end_of(_ATOM)
            found = self._text[self._at : end]
        elif (end := self._quick_end(_RECORD)) >= 0:
            found = self._text[self._at : end].replace("\r", " ").replace("\n", " ")
        else:
            found, end = self._walked()
        if end - self._at > MOST_RECORD_BYTES:
            self._refuse_long()
        self._at = end
        return found.encode("latin-1")

    def _refuse_long(self) -> NoReturn:
        why = f"has a record of more than {MOST_RECORD_BYTES >> 20} MiB"
        self.refuse(Fault.LONG_LINE, why, is_here=True)

    def _require_atom(self, pattern: re.Pattern[str]) -> None:
        if self._end_of(pattern) == self._at:
            self._refuse_next("a value")

    def _end_of(self, pattern: re.Pattern[str]) -> int:
        """Where a pattern ends that matches what comes next; here, where it does not match."""
        while True:
            match = pattern.match(self._text, self._at)
            end = self._at if match is None else match.end()
            if end < len(self._text) - _NEAR_THE_END or len(self._text) - self._at > MOST_RECORD_BYTES:
                return end
            if not self._more():
                return end

    def _quick_end(self, decoder: json.JSONDecoder, *, reads_on: bool = True) -> int:
        """Where the value that comes next ends; -1 when it does not, as far as it was read, or is no JSON."""
        while True:
            try:
                return decoder.raw_decode(self._text, self._at)[1]
            except json.JSONDecodeError as error:
                may_be_cut = error.pos >= len(self._text) - _NEAR_THE_END or error.msg.startswith("Unterminated")
            except (ValueError, RecursionError):
                return -1
            if not (may_be_cut and reads_on) or len(self._text) - self._at > MOST_RECORD_BYTES or not self._more():
                return -1

    def _walked(self) -> tuple[str, int]:
        """A record of which the grammar is wrong, and where it ends. Line breaks in its texts become another character
        that JSON does not have in texts either."""
        pieces: list[str] = []
        closing: list[str] = []
        at = self._at
        while True:
            if at >= len(self._text) - _NEAR_THE_END:
                at = self._more_behind(at)
                if at == len(self._text):
                    self._refuse_cut()
            if at - self._at > MOST_RECORD_BYTES:
                self._refuse_long()
            what = self._text[at]
            if what in _CLOSES:
                closing.append(_CLOSES[what])
                if len(closing) > MOST_LEVELS:
                    self.refuse(Fault.DAMAGED, f"nests deeper than {MOST_LEVELS} levels", is_here=True)
                end = at + 1
            elif what in "]}":
                if closing.pop() != what:
                    self._at = at
                    self.refuse(Fault.DAMAGED, f"has {what!r} where {_other(what)!r} is expected", is_here=True)
                end = at + 1
            elif what == '"':
                at, end = self._end_of_string(at)
            else:
                match = _BETWEEN_BRACKETS.match(self._text, at)
                if match is None:
                    self._at = at
                    self._refuse_next("a token of JSON")
                end = match.end()
            piece, blank = self._text[at:end], "\x0b" if what == '"' else " "
            pieces.append(piece.replace("\r", blank).replace("\n", blank))
            at = end
            if not closing:
                return "".join(pieces), at

    def _more_behind(self, at: int) -> int:
        """Reads on, and gives the place again, which moves with what is dropped."""
        behind = at - self._at
        self._more()
        return self._at + behind

    def _end_of_string(self, at: int) -> tuple[int, int]:
        while (match := _STRING.match(self._text, at)) is None:
            if len(self._text) - at > MOST_RECORD_BYTES:
                self._refuse_long()
            if self._is_whole:
                self._refuse_cut()
            at = self._more_behind(at)
        return at, match.end()

    def _string(self) -> str:
        """The text that comes next, which is a name."""
        if self.what != '"':
            self._refuse_next("a name in double quotes")
        _, end = self._end_of_string(self._at)
        raw = self._text[self._at : end]
        if _STRICT_STRING.fullmatch(raw) is None:
            self.refuse(Fault.DAMAGED, "has a name that is not a JSON string", is_here=True)
        found = json.loads(self._require_utf8(end))
        self._at = end
        assert isinstance(found, str)
        return found

    def _require_utf8(self, end: int) -> str:
        """Returns the next text, which is not part of a record; refuses one that is not UTF-8."""
        try:
            return self._text[self._at : end].encode("latin-1").decode()
        except UnicodeDecodeError:
            self.refuse(Fault.ENCODING, "has a text that is not UTF-8", is_here=True)

    def skip(self) -> None:
        """Passes over the value that comes next, which can be of any length: what does not end in what was read is
        taken apart."""
        closing: list[str] = []
        while True:
            what = self.what
            if what not in _CLOSES:
                self._skip_scalar(what)
            elif (end := self._quick_end(_STRICT, reads_on=False)) >= 0:
                self._require_utf8(end)
                self._at = end
            else:
                self._at += 1
                closing.append(_CLOSES[what])
                if len(closing) > MOST_LEVELS:
                    self.refuse(Fault.DAMAGED, f"nests deeper than {MOST_LEVELS} levels", is_here=True)
                if not self.taken(closing[-1]):
                    self._skip_name(closing[-1])
                    continue
                closing.pop()
            while closing:
                if self.taken(closing[-1]):
                    closing.pop()
                    continue
                self.take(",", or_end=closing[-1])
                self._skip_name(closing[-1])
                break
            if not closing:
                return

    def _skip_name(self, closing: str) -> None:
        if closing == "}":
            self._string()
            self.take(":")

    def _skip_scalar(self, what: str) -> None:
        if what == '"':
            _, end = self._end_of_string(self._at)
            if _STRICT_STRING.fullmatch(self._text, self._at, end) is None:
                self.refuse(Fault.DAMAGED, "has a string that is not valid JSON", is_here=True)
            self._require_utf8(end)
        else:
            self._require_atom(_ATOM)
            end = self._end_of(_ATOM)
            if _STRICT_ATOM.fullmatch(self._text, self._at, end) is None:
                self._refuse_next("a value of JSON")
        self._at = end

    def _more(self) -> bool:
        """Reads on, twice as much as is held; False at the end of the file."""
        held = len(self._text) - self._at
        chunk = b"" if self._is_whole else self._stream.read(max(_CHUNK_BYTES, held))
        if not chunk:
            self._is_whole = True
            return False
        if self._at:
            self._bytes_before += self._at
            self._lines_before += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + chunk.decode("latin-1"), 0
        return True

    def refuse(self, fault: Fault, why: str, *, is_here: bool = False) -> NoReturn:
        """Refuses the file.

        Args:
            is_here: Whether the fault is where it is read.
        """
        if is_here:
            line = self._lines_before + self._text.count("\n", 0, self._at)
            why = f"{why}, in line {line:,} (byte {self._bytes_before + self._at + 1:,})"
        raise BadFile(path=self._name, fault=fault, why=why)


def _other(closing: str) -> str:
    return "]" if closing == "}" else "}"
