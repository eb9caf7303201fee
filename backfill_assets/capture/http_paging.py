"""Paging: what an API is asked for a page, and what an answer says of the next one. It decides; `http` asks.

An answer has to say its end in one of the ways that its paging knows: a capture that anything else ended would leave
out what follows, without an error.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any
from urllib.parse import unquote_plus, urljoin, urlsplit, urlunsplit

from backfill_assets.capture.http_answers import Page
from backfill_assets.capture.http_pagings import (
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
from backfill_assets.capture.json_members import Digits, as_written, json_of, member_at

Bad = Callable[[str], Exception]
"""What refuses an answer, with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
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


def next_of(pages: Pages | None, asked: Asked, page: Page, bad: Bad) -> tuple[str, bool]:
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


def _by_url(found: str, asked: Asked, page: Page, origins: Sequence[str], bad: Bad) -> tuple[str, bool]:
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
