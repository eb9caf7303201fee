"""Answers of an API: their text, their document, and their records as they were written.

A value of a record that is no JSON, such as NaN, rejects that record when it lands, and not the records beside it.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.message import Message
from typing import Any

from backfill_assets.capture.http_pagings import InHeader
from backfill_assets.capture.json_members import Digits, member_at, quoted

_BLANK = re.compile(r"[ \t\r\n]*")
_UNREADABLE = "surrogateescape"
"""Bytes that are no UTF-8 stay what they are, so that landing says of their record what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer: as a document with numbers as they were written, its records, and these as they were written."""

    document: Any = None  #: The whole of it.
    members: Sequence[Any] = ()  #: The elements of its array of records.
    records: tuple[str, ...] = ()  #: Each of them on a line.
    headers: Mapping[str, str] = field(default_factory=dict)  #: Its headers, in lower case.
    is_end: bool = False  #: Whether its status says that there are no records and no pages behind it.

    def found(self, where: str | InHeader) -> Any:
        """The value of the answer at a place; None where it has none."""
        if isinstance(where, InHeader):
            return self.headers.get(where.name.lower())
        return member_at(self.document, where)

    def only(self, places: Iterable[int], known: Sequence[str]) -> Page:
        """The records at some places, without those that are known by their digests, each as often as it is."""
        left, kept = Counter(known), []
        for place in places:
            digest = digest_of(self.records[place])
            if left[digest] > 0:
                left[digest] -= 1
            else:
                kept.append(place)
        members, records = ([some[place] for place in kept] for some in (self.members, self.records))
        return replace(self, members=members, records=tuple(records))

    @property
    def lines(self) -> bytes:
        """Its records as the lines of a file."""
        return "".join(f"{each}\n" for each in self.records).encode(errors=_UNREADABLE)


def digest_of(record: str) -> str:
    """Identifies a record as it was written."""
    return hashlib.sha256(record.encode(errors=_UNREADABLE)).hexdigest()[:12]


def page_of(
    body: bytes,
    headers: Mapping[str, str],
    *,
    records: str,
    empty: Sequence[object],
    bad: Callable[[str], Exception],
    check: Callable[[Page], None] = lambda _: None,
) -> Page:
    """The records of an answer, as they were written.

    Args:
        records: Where the array of its records is.
        empty: What may be there instead, when there are none.
        bad: What refuses the answer, with a reason.
        check: Called with the answer before its records are looked for, which one that failed does not have.
    """
    text = _text(body, headers, bad)
    if not text.strip() and "missing" in empty:
        return Page(headers=headers)
    found = _read(text)
    if found is None:
        raise bad("what is not UTF-8" if re.search("[\udc80-\udcff]", text) else "content that is not JSON")
    document, masked, hidden = found
    check(Page(document=document, headers=headers))
    outer, _, inner = records.partition("[]")
    path, inside = _path(document, outer), inner.removeprefix(".")
    members, is_there = _held(document, path)
    if not isinstance(members, list):
        word = "null" if is_there and members is None else "missing" if not is_there else ""
        # An empty object is an empty array in some languages.
        is_empty = bool(word) and (isinstance(document, dict) or document in (None, []))
        if is_empty and word in empty:
            return Page(document=document, headers=headers)
        way = f": declare empty=({word!r},) if that means no records" if is_empty else ""
        where = f"{records!r}, where its records are declared to be" if path else "its beginning"
        raise bad(f"no array at {where}{way}")
    spans = list(_elements(masked, path))
    begin, end = (spans[0][0], spans[-1][1]) if spans else (0, 0)
    if any(not begin <= place < end for place in hidden):
        raise bad("content that is not JSON")
    lines = [_line(text, masked, each, inside) for each in spans]
    inner_members = [_inner(each, inside) for each in members]
    return Page(document=document, members=inner_members, records=tuple(lines), headers=headers)


def _text(body: bytes, headers: Mapping[str, str], bad: Callable[[str], Exception]) -> str:
    """A body as text, in the encoding that its header names; JSON without one is UTF-8."""
    said = Message()
    said["content-type"] = headers.get("content-type", "")
    name = str(said.get_param("charset") or "utf-8")
    try:
        is_utf_8 = codecs.lookup(name).name in ("utf-8", "ascii")
        return body.decode("utf-8-sig", errors=_UNREADABLE) if is_utf_8 else body.decode(name)
    except LookupError:
        raise bad(f"a text in the unknown encoding {name!r:.40}") from None
    except UnicodeDecodeError:
        raise bad(f"what is not {name:.40}, although it says so") from None


class _NoValue:
    """Stands for a value that is not JSON."""


_NO_VALUE = _NoValue()
_STRICT = json.JSONDecoder(parse_float=Digits, parse_int=Digits, parse_constant=lambda name: _refused(name))
_DECODER = json.JSONDecoder(parse_float=Digits, parse_int=Digits, parse_constant=lambda _: _NO_VALUE)
"""Numbers stay the texts that they are."""
_ENDS = json.JSONDecoder(parse_float=len, parse_int=len, parse_constant=len)
"""Finds where a value ends, in half the time."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.\w]+', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_IN_TEXT = re.compile(r'[\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\.', re.DOTALL)
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")


def _refused(name: str) -> object:
    raise ValueError(name)


def _read(text: str) -> tuple[Any, str, Sequence[int]] | None:
    """A document, its text with what is no JSON masked at the same length, and where a mask is a value of JSON; None
    where it is no document even so."""
    try:
        return _STRICT.decode(text), text, ()
    except (ValueError, RecursionError):
        pass
    hidden: list[int] = []

    def mask(token: re.Match[str]) -> str:
        word = token[0]
        if word.startswith('"'):
            masked = _IN_TEXT.sub(_blank_unless_right, word)
            hidden.extend([token.start()] if masked != word else [])
            return masked
        if word in _WORDS or _NUMBER.fullmatch(word):
            return word
        if len(word) < len("NaN"):
            hidden.append(token.start())
            return "0".ljust(len(word))
        return "NaN".ljust(len(word))

    masked = _TOKEN.sub(mask, text)
    try:
        return _DECODER.decode(masked), masked, hidden
    except (ValueError, RecursionError):
        return None


def _blank_unless_right(found: re.Match[str]) -> str:
    each = found[0]
    is_right = len(each) > 1 and (each[1] in '"\\/bfnrt' or len(each) > 2)
    return each if is_right else " " * len(each)


def _line(text: str, masked: str, span: tuple[int, int], inside: str) -> str:
    """An element as it was written, on a line; of one that is no JSON, no JSON either."""
    begin, end = _within(masked, span, inside)
    # Line breaks of a JSON value are between its members: within a text they are escaped.
    line = text[begin:end].replace("\r", " ").replace("\n", " ")
    if text[begin:end] != masked[begin:end]:
        try:
            _STRICT.decode(line)
        except ValueError:
            return line
        return quoted(text[begin:end])
    return line


def _within(masked: str, span: tuple[int, int], inside: str) -> tuple[int, int]:
    """Where the record of an element is, that holds it in a member; an element without it is its record."""
    if not inside:
        return span
    element = _DECODER.raw_decode(masked, span[0])[0]
    path = _path(element, inside)
    if not _held(element, path)[1]:
        return span
    begin = span[0]
    for name in path:
        begin = _member(masked, begin, name)
    return begin, _ENDS.raw_decode(masked, begin)[1]


def _inner(element: object, inside: str) -> object:
    if not inside:
        return element
    found, is_there = _held(element, _path(element, inside))
    return found if is_there else element


def _path(document: object, where: str) -> list[str]:
    """The names on the way to a place. A member whose own name has dots is found by it, such as `@odata.nextLink`."""
    names = where.split(".") if where else []
    path: list[str] = []
    while names:
        count = 1
        if isinstance(document, dict):
            lengths = range(len(names), 1, -1)
            count = next((each for each in lengths if ".".join(names[:each]) in document), 1)
        path.append(".".join(names[:count]))
        names = names[count:]
        document = _step(document, path[-1])[0]
    return path


def _held(document: object, path: Sequence[str]) -> tuple[Any, bool]:
    """The value at a place, and whether there is one; it may be null."""
    is_there = True
    for name in path:
        document, is_there = _step(document, name)
        if not is_there:
            return None, False
    return document, is_there


def _step(document: object, name: str) -> tuple[Any, bool]:
    if isinstance(document, dict):
        return document.get(name), name in document
    if isinstance(document, list) and re.fullmatch(r"-?[0-9]{1,9}", name):
        is_there = -len(document) <= int(name) < len(document)
        return (document[int(name)], True) if is_there else (None, False)
    return None, False


def _elements(text: str, path: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where the elements of an array of a JSON document are."""
    begin = _behind_blanks(text, 0)
    for name in path:
        begin = _member(text, begin, name)
    begin = _behind_blanks(text, begin + 1)
    while text[begin] != "]":
        _, end = _ENDS.raw_decode(text, begin)
        yield begin, end
        begin = _behind_separator(text, end)


def _member(text: str, begin: int, name: str) -> int:
    """Where the value of a member of an object begins; of several, the last, as everywhere."""
    if text[begin] == "[":
        return _nth(text, begin, name)
    found = begin
    begin = _behind_blanks(text, begin + 1)
    while text[begin] != "}":
        key, begin = _ENDS.raw_decode(text, begin)
        value = _behind_blanks(text, _behind_blanks(text, begin) + 1)
        _, begin = _ENDS.raw_decode(text, value)
        found = value if key == name else found
        begin = _behind_separator(text, begin)
    return found


def _nth(text: str, begin: int, number: str) -> int:
    begins = [each for each, _ in _elements(text[begin:], ())]
    return begin + begins[int(number)]


def _behind_separator(text: str, begin: int) -> int:
    begin = _behind_blanks(text, begin)
    return _behind_blanks(text, begin + 1) if text[begin] == "," else begin


def _behind_blanks(text: str, begin: int) -> int:
    found = _BLANK.match(text, begin)
    assert found is not None
    return found.end()
