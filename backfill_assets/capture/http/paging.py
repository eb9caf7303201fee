"""Paging: the request for a page of an API; the records of its answer, and the place of the next page."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from email.message import Message
from itertools import groupby
from typing import Any
from urllib.parse import unquote_plus, urljoin, urlsplit, urlunsplit

from backfill_assets.capture.http.declaration import (
    Cursor,
    Found,
    IdRange,
    InBody,
    InHeader,
    LinkHeader,
    NextUrl,
    Offset,
    PageNumber,
    Pages,
    Place,
    origin_of,
)
from backfill_assets.capture.json_members import Digits, as_written, json_of, member_at, quoted

# Answers of an API: their text, their document, and their records as they were written.
#
# A value of a record that is no JSON, such as NaN, rejects that record when it lands, and not the records beside
# it.

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
    is_end: bool = False  #: True if its status says that there are no records and no pages behind it.

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
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
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
        if word in _WORDS or _JSON_NUMBER.fullmatch(word):
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
    """The places of the elements of an array of a JSON document."""
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


# Paging: what an API is asked for a page, and what an answer says of the next one. It decides; `http` asks.
#
# An answer has to say its end in one of the ways that its paging knows: a capture that anything else ended would
# leave out what follows, without an error.

Bad = Callable[[str], Exception]
"""Makes the error that refuses an answer, of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The request for a page."""

    at: str  #: The position of the page; empty for the first one.
    url: str  #: The address that was asked.
    api: str  #: The address of the API.
    secrets: Collection[str]  #: Parameters that are secret, which no position has.


def step_of(pages: Pages | None) -> str:
    """The word before a position in pages of a kind."""
    match pages:
        case PageNumber():
            return "page"
        case Offset():
            return "offset"
        case IdRange():
            return "id"
        case NextUrl() | LinkHeader():
            return "url"
        case _:
            return "cursor"


def asked_with(pages: Pages | None, at: str) -> Mapping[Place, Any]:
    """The values that a request has for a page, by their place; in a body, values of JSON.

    Args:
        at: The position of the page; empty for the first one.
    """
    match pages:
        case Cursor(parameter=place, first=first):
            return {place: _value(place, at)} if at else {place: first} if first else {}
        case PageNumber(parameter=place, first=first):
            return {place: Digits(at or first)}
        case Offset(parameter=place, first=first, limit=limit, size=size):
            return {place: Digits(at or first), **({limit: Digits(size)} if limit else {})}
        case IdRange(tie="") if at or pages.first:
            return {pages.after: _value(pages.after, at) if at else pages.first}
        case IdRange() if at:
            places = (pages.after, pages.tie_after)
            return dict(zip(places, as_written(at), strict=True))
        case _:
            return {}


def _value(place: Place, at: str) -> Any:
    """A position as it is sent: in a body with the type that it had."""
    return as_written(at) if isinstance(place, InBody) else at


def is_behind_the_last(pages: Pages | None, status: int, at: str, *, has_window: bool) -> bool:
    """True if a status that means "no records" can be the answer to this page.

    404 may also say that an address is wrong, and a cursor forgotten: it counts where that is not the question.
    """
    if status < 300:
        return True
    if at:
        return isinstance(pages, PageNumber | Offset | IdRange)
    return has_window and status in (404, 410)


def next_of(pages: Pages | None, asked: PageRequest, page: Page, bad: Bad) -> tuple[str, bool]:
    """The position of the next page, empty at the end, and whether it is there now."""
    if page.is_end:
        return "", False
    match pages:
        case Cursor():
            return _by_cursor(pages, asked.at, page, bad)
        case PageNumber() | Offset():
            return _by_number(pages, asked.at, page, bad)
        case NextUrl(next=where, origins=origins):
            found = page.found(where)
            if found not in (None, False, "") and (not isinstance(found, str) or isinstance(found, Digits)):
                raise bad(f"a value that is not an address at {where!r}")
            return _by_url(found or "", asked, page, origins, bad)
        case LinkHeader(rel=rel, origins=origins):
            return _by_url(_linked(page.headers.get("link", ""), rel), asked, page, origins, bad)
        case _:
            return "", False


def _by_cursor(pages: Cursor, at: str, page: Page, bad: Bad) -> tuple[str, bool]:
    found = page.found(pages.next)
    is_in_body = isinstance(pages.parameter, InBody)
    if not isinstance(found, str) and found not in (None, False) and not (is_in_body and _is_plain_list(found)):
        raise bad(f"a value that is not a cursor at {_where(pages.next)}")
    is_last = found in (None, False, "", []) or found in pages.end
    following = "" if is_last else json_of(found) if is_in_body else str(found)
    # No records and the same cursor once more: the next request would get the same answer.
    goes_on = bool(following) and (bool(page.members) or following != at)
    if pages.more:
        goes_on = _has_more(pages.more, page, bad, is_missing=not following)
        if goes_on and not following:
            raise bad(f"a next page at {_where(pages.more)}, and no cursor")
    if pages.ends_empty and not page.members:
        goes_on = False
    return following, goes_on


def _is_plain_list(found: object) -> bool:
    return isinstance(found, list) and all(each is None or isinstance(each, str | bool) for each in found)


def _by_number(pages: PageNumber | Offset, at: str, page: Page, bad: Bad) -> tuple[str, bool]:
    number = int(at or pages.first)
    behind = number + (1 if isinstance(pages, PageNumber) else len(page.members))
    if pages.more:
        goes_on = _has_more(pages.more, page, bad, is_missing=False)
    elif pages.total:
        total, of = _number(pages.total, page, bad), "pages" if isinstance(pages, PageNumber) else "records"
        if page.members and number >= pages.first + total:
            raise bad(f"records behind the last of {total:,} {of}, which it says at {_where(pages.total)}")
        goes_on = behind < pages.first + total
    else:
        goes_on = bool(page.members)
    if goes_on and behind == number:
        raise bad("no records, and says that more follow")
    return (str(behind) if goes_on else ""), goes_on


def _number(where: Found, page: Page, bad: Bad) -> int:
    found = page.found(where)
    if not isinstance(found, str) or not re.fullmatch(r"[0-9]{1,18}", found.strip()):
        raise bad(f"no number at {_where(where)}")
    return int(found)


def _has_more(where: Found, page: Page, bad: Bad, *, is_missing: bool) -> bool:
    """True if an answer announces a next page."""
    found = page.found(where)
    said = found.lower() if isinstance(where, InHeader) and isinstance(found, str) else found
    if said is True or said == "true":
        return True
    if said is False or said == "false" or (found is None and is_missing):
        return False
    raise bad(f"neither true nor false at {_where(where)}")


def _where(where: Found) -> str:
    return repr(where) if isinstance(where, str) else f"the header {where.name}"


_LINK = re.compile(r'<([^>]*)>((?:\s*;\s*[^\s=;,"]+\s*(?:=\s*(?:"(?:[^"\\]|\\.)*"|[^\s",;]*))?)*)')
_PARAMETER = re.compile(r';\s*([^\s=;,"]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?')


def _linked(header: str, rel: str) -> str:
    """The target of the link of a relation in a header; empty where there is none. A link has its first `rel` alone."""
    for target, parameters in _LINK.findall(header):
        named = (
            (f"{quoted}{plain}") for name, quoted, plain in _PARAMETER.findall(parameters) if name.lower() == "rel"
        )
        if rel.lower() in next(named, "").lower().split():
            return target or "."
    return ""


def _by_url(found: str, asked: PageRequest, page: Page, origins: Sequence[str], bad: Bad) -> tuple[str, bool]:
    if not found:
        return "", False
    own = origin_of(asked.api)
    try:
        parts = urlsplit(urljoin(asked.url, found.strip()))
        # A server behind another one that ends the encryption has no other name for itself than with http.
        if parts.scheme == "http" and parts.port is None and own == f"https://{parts.hostname}":
            parts = parts._replace(scheme="https")
        origin = origin_of(urlunsplit(parts))
    except ValueError:
        raise bad("a next page at an address that cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise bad("a next page at an address that is not of the web, or has a password in it")
    if origin not in {own, *map(origin_of, origins)}:
        raise bad(f"a next page at {origin}: declare origins=({origin!r},) if it may be sent what this API is")
    kept = (each for each in parts.query.split("&") if unquote_plus(each.partition("=")[0]) not in asked.secrets)
    following = urlunsplit(parts._replace(query="&".join(kept), fragment=""))
    return following, bool(page.members) or following != asked.at


def ids_of(pages: IdRange, page: Page, at: str, bad: Bad) -> Sequence[str]:
    """The ids of a page, which has to have them in their order, and none that is not behind the one asked for."""
    found = [_id_of(pages, each) for each in page.members]
    named = f"{pages.member} and {pages.tie}" if pages.tie else pages.member
    if not all(found):
        raise bad(f"a record without {named!r}")
    asked = at or pages.first
    if asked in found and not pages.inclusive:
        raise bad(f"{named} {asked!r:.60}, behind which it was asked for records")
    if not _are_in_order([*([asked] if asked else []), *found], found, is_pair=bool(pages.tie)):
        raise bad(f"records that are not in the order of {named}")
    return found


def _are_in_order(in_order: Sequence[str], found: Sequence[str], *, is_pair: bool) -> bool:
    """True if ids rise from the one asked for; of pairs the first ones rise, and within equal first ones the second
    ones."""
    if not is_pair:
        return _rise(in_order, found)
    pairs = [as_written(each) for each in in_order]
    by_first = [(first, [second for _, second in group]) for first, group in groupby(pairs, key=lambda pair: pair[0])]
    firsts = [first for first, _ in by_first]
    return _rise(firsts, firsts) and all(_rise(seconds, seconds) for _, seconds in by_first)


_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")


def _rise(in_order: Sequence[str], found: Sequence[str]) -> bool:
    """The kind of order that ids have: of numbers, of times, or of texts in the order of the API."""
    if list(in_order) == sorted(in_order):
        return True
    if all(map(_NUMBER.fullmatch, in_order)):
        return list(in_order) == sorted(in_order, key=Decimal)
    for times in (in_order, found):  # the one before the first may be any text
        try:
            return list(times) == sorted(times, key=datetime.fromisoformat)
        except (ValueError, TypeError):  # no times, or some without their zone
            continue
    distinct = [each for each, _ in groupby(found)]
    plain = [unicodedata.normalize("NFKD", each).casefold() for each in distinct]
    # No API orders texts like this but from the last to the first, so that what is behind the last one is known.
    is_falling = len(plain) > _FEW and plain == sorted(plain, reverse=True)
    return len(distinct) == len(set(found)) and not is_falling


_FEW = 2
"""So many texts may be in any order by what an API makes of their accents and signs."""


def _id_of(pages: IdRange, record: object) -> str:
    """The id of a record as a position; empty where it has none."""
    values = [_plain(record, name) for name in (pages.member, pages.tie) if name]
    if not all(values):
        return ""
    if pages.tie:
        return json_of(values)
    return json_of(values[0]) if isinstance(pages.after, InBody) else str(values[0])


def _plain(record: object, name: str) -> str:
    found = member_at(record, name) if isinstance(record, dict) else None
    return found if isinstance(found, str) else ""
