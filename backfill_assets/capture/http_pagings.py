"""Pagings of an API: how an author declares that its answers go on. What they ask and read is in `http_paging`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class InBody:
    """A place in the JSON body of a request, instead of a parameter of its address."""

    path: str  #: The names of the members on the way, such as `variables.after`.


@dataclass(frozen=True, slots=True)
class InHeader:
    """A header: of a request, instead of a parameter; of an answer, instead of a member of its body."""

    name: str  #: The name of the header, such as `X-Next-Page`.


Place = str | InBody | InHeader
"""Where a request has a value: a parameter of the address, or one of these."""
Found = str | InHeader
"""Where an answer has a value: the names of the members on the way, or a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Pages that name the next one."""

    parameter: str | InBody | InHeader  #: What is asked with the cursor.
    #: Where an answer has the cursor of the next page, such as `meta.next`; missing, null or empty at the end.
    next: str | InHeader
    #: Where an answer says whether there is a next page, of an API whose last page has a cursor too: a later capture
    #: then goes on from it.
    more: str | InHeader = ""
    end: tuple[str, ...] = ()  #: Cursors that mean the end, such as `("0",)`.
    #: Whether a page without records is the last one, of an API that gives new cursors for ever.
    ends_empty: bool = False
    first: str = ""  #: What the first page is asked with, such as `*`; empty to ask for it without a cursor.


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNumber:
    """Numbered pages; unless an answer says how many there are, the first one without records is behind the last."""

    parameter: str | InBody | InHeader  #: What is asked with the number.
    first: int = 1  #: The number of the first page.
    total: str | InHeader = ""  #: Where an answer has the number of pages.
    more: str | InHeader = ""  #: Where an answer says whether there is a next page.


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Pages that begin behind so many records; unless an answer says how many there are, up to one without records.

    The next page begins behind the records that were received, however many were asked for: an API may give fewer.
    """

    parameter: str | InBody | InHeader  #: What is asked with the offset.
    limit: str | InBody | InHeader = ""  #: What is asked with the size of a page.
    size: int | None = None  #: The size of a page.
    first: int = 0  #: The offset of the first record, which is 1 in some APIs.
    total: str | InHeader = ""  #: Where an answer has the number of all records.
    more: str | InHeader = ""  #: Where an answer says whether there is a next page.


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Records in the order of their ids: each page has those behind an id, and one without others is the end so far.

    Several records may have the same id, such as a time, if a page has room for all of these and one more: a page
    counts up to its last id, with which the next one begins. An API that takes a second key has no such limit.
    """

    after: str | InBody | InHeader  #: What is asked with the last id that was read.
    member: str  #: The member of a record that is its id.
    first: str = ""  #: The id behind which the first page begins; empty to ask for it without one.
    tie: str = ""  #: The member that orders records of one id.
    tie_after: str | InBody | InHeader = ""  #: What is asked with the last value of that member.
    #: Whether a page begins with the records of the id that it is asked with, of which those that were read are left
    #: out.
    inclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NextUrl:
    """Pages that have the whole address of the next one."""

    next: str  #: Where an answer has that address, such as `links.next`; missing, null or empty at the end.
    #: Other servers that it may name, such as `https://eu.example.org`; they are sent the same secrets.
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHeader:
    """Pages whose `Link` header has the address of the next one."""

    rel: str = "next"  #: The relation of that link.
    origins: tuple[str, ...] = ()  #: Other servers that it may name; they are sent the same secrets.


Pages = Cursor | PageNumber | Offset | IdRange | NextUrl | LinkHeader
KINDS = "Cursor(...), PageNumber(...), Offset(...), IdRange(...), NextUrl(...) or LinkHeader(...)"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def places_of(pages: Pages | None) -> tuple[Place, ...]:
    """The places in a request that hold the position of a page."""
    match pages:
        case Cursor(parameter=place) | PageNumber(parameter=place):
            return (place,)
        case Offset(parameter=place, limit=limit):
            return (place, limit) if limit else (place,)
        case IdRange(after=place, tie_after=tie):
            return (place, tie) if tie else (place,)
        case _:
            return ()


def origin_of(url: str) -> str:
    """The server of an address, as all ways of writing it are one: `https://api.example.org`."""
    parts = urlsplit(url)
    port = {("http", 80): None, ("https", 443): None}.get((parts.scheme, parts.port or 0), parts.port)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}"


def mistakes_of(pages: object) -> Iterator[str]:
    """The mistakes in a paging."""
    if not isinstance(pages, Pages | None):
        yield f"the pages of its API are {pages!r:.60}, and have to be {KINDS}"
        return
    name = type(pages).__name__
    match pages:
        case Cursor() if not pages.next:
            yield "its Cursor(...) does not say where an answer has the next one, such as next='meta.next'"
        case PageNumber() | Offset() if pages.total and pages.more:
            yield f"its {name}(...) ends by total or by more, and not by both"
        case IdRange() if not pages.member:
            yield "its IdRange(...) does not say which member of a record is its id"
        case NextUrl() if not pages.next:
            yield "its NextUrl(...) does not say where an answer has the address, such as next='links.next'"
        case LinkHeader() if not pages.rel:
            yield "its LinkHeader(...) has no relation, such as rel='next'"
    match pages:
        case Offset() if bool(pages.limit) != (pages.size is not None) or (pages.size is not None and pages.size < 1):
            yield "its Offset(...) has limit and size together, such as limit='limit', size=100, or neither"
        case IdRange() if bool(pages.tie) != bool(pages.tie_after):
            yield "its IdRange(...) has tie, a member, and tie_after, what is asked with its value, or neither"
        case IdRange() if pages.first and (pages.tie or isinstance(pages.after, InBody)):
            yield "its IdRange(...) begins behind what its parameters or its body have at first, and not behind first"
        case NextUrl() | LinkHeader():
            yield from _mistakes_of_origins(pages.origins)


def _mistakes_of_origins(origins: tuple[str, ...]) -> Iterator[str]:
    for each in origins:
        try:
            is_one = re.fullmatch(r"https?://[^\s/@?#]+/?", each) is not None and bool(origin_of(each))
        except ValueError:
            is_one = False
        if not is_one:
            yield "another server of its API has to be like 'https://eu.example.org'"


def mistakes_of_places(
    places: tuple[Place, ...], body: Mapping[str, object] | None, *, has_body: bool
) -> Iterator[str]:
    """The mistakes in the places of a request's values."""
    for each in places:
        match each:
            case InBody(path=path):
                if not has_body:
                    yield f"{path} of its API is in the body, and a GET has none: declare method='POST'"
                elif not path or not all(path.split(".")) or _is_through(body, path.split(".")):
                    yield f"{path!r:.60} is not a place in the body of its API"
            case InHeader(name=name):
                if not _NAME.fullmatch(name):
                    yield f"{name!r:.60} is not the name of a header"
            case "":
                yield "its API is asked with a parameter that has no name"
    if len(set(places)) != len(places):
        twice = next(each for each in places if places.count(each) > 1)
        yield f"its API is asked with {_named(twice)} twice"


def _is_through(body: Mapping[str, object] | None, path: list[str]) -> bool:
    """True if a path leads through something without members."""
    held: object = body or {}
    for name in path[:-1]:
        held = held.get(name, {}) if isinstance(held, Mapping) else held
        held = {} if held is None else held
    return not isinstance(held, Mapping)


def _named(place: Place) -> str:
    return place if isinstance(place, str) else place.path if isinstance(place, InBody) else place.name
