"""HTTP API: how an author declares that a source is captured from one, in which windows, and how its answers go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, time, timedelta
from ipaddress import ip_address
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.calendar.patterns import NoPattern, Pattern, patterns_of
from backfill_assets.capture.declared import is_number, unnamed_secrets, wrong_time
from backfill_assets.capture.http import FAMILY
from backfill_assets.capture.json_members import Digits
from backfill_assets.domain.external import StreamDeclaration

# Pagings of an API: how an author declares that its answers go on. What they ask and read is in `http_paging`.


@dataclass(frozen=True, slots=True)
class InBody:
    """A place in the JSON body of a request, instead of a parameter of its address."""

    path: str  #: The names of the members on the way, such as `variables.after`.


@dataclass(frozen=True, slots=True)
class InHeader:
    """A header: of a request, instead of a parameter; of an answer, instead of a member of its body."""

    name: str  #: The name of the header, such as `X-Next-Page`.


Place = str | InBody | InHeader
"""The place of a value in a request: a parameter of the address, or one of these."""
Found = str | InHeader
"""The place of a value in an answer: the names of the members on the way, or a header."""


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
    #: True if a page without records is the last one, of an API that gives new cursors for ever.
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
    #: True if a page begins with the records of the id that it is asked with, of which those that were read are left
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


# Windows of an API: how an author declares that a period is asked for, and how its instants are written.

TIME_FORMS = ("iso", "day", "seconds", "milliseconds")

_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
_SINCE_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Records of a period, asked for in windows of the same length."""

    start: str | InBody | InHeader  #: What is asked with the first instant of a window.
    #: What is asked with the first instant behind it; that an API counts it to the window does no harm.
    end: str | InBody | InHeader = ""
    of: str  #: The member of a record whose time is in the window.
    step: timedelta = _DAY  #: How long a window is.
    #: How instants are written: `2026-01-31T00:00:00Z`, a `day` of the source's `timezone`, or seconds or milliseconds
    #: since 1970; or a pattern, such as `yyyyMMdd`, which is of days, or `yyyy-MM-dd HH:mm:ss`, as clocks show it in
    #: the `timezone` of the source.
    form: str = "iso"
    #: For how long records of a time may still come: nothing later than that ago is read.
    settles_after: timedelta = timedelta(0)
    #: How much before its start and behind its end a window is asked for, of an API whose clock or whose rounding puts
    #: records into the window beside theirs; records that come twice are one by their key.
    overlap: timedelta = timedelta(0)
    #: What `start` is asked with where an API takes both instants in one text, such as `at ge {start} and at lt {end}`.
    both: str = ""

    @property
    def is_of_days(self) -> bool:
        """True if whole days are asked for."""
        pattern = _pattern(self.form)
        return self.form == "day" or (pattern is not None and not pattern.has_time)

    @property
    def places(self) -> tuple[Place, ...]:
        """The places in a request that hold its instants."""
        return (self.start,) if self.both else (self.start, self.end)

    def asked_with(self, window: tuple[datetime, datetime], days: LocalDays) -> Mapping[Place, str]:
        """The values that a request has for a window; in a body, seconds are a number."""
        start, end = self._written(window[0], -self.overlap, days), self._written(window[1], self.overlap, days)
        if self.both:
            return {self.start: self.both.replace("{start}", start).replace("{end}", end)}
        return {self.start: start, self.end: end}

    def _written(self, at: datetime, shift: timedelta, days: LocalDays) -> str:
        """An instant so much later."""
        pattern = _pattern(self.form)
        if self.is_of_days:
            day = days.of(at) + shift  # of the calendar, whatever clocks do
            return day.isoformat() if pattern is None else pattern.write(datetime.combine(day, time()))
        at += shift
        if pattern is not None:
            return pattern.write(at.astimezone(UTC if pattern.has_offset else ZoneInfo(days.zone)))
        if self.form == "iso":
            return at.astimezone(UTC).strftime(_ISO)
        return Digits((at - _SINCE_1970) // _SECOND * (1 if self.form == "seconds" else 1000))


def _pattern(form: str) -> Pattern | None:
    """The pattern that a form declares; None for a form that is named.

    Raises:
        ValueError: It is neither.
    """
    if form in TIME_FORMS:
        return None
    found = patterns_of(form)
    if len(found) > 1:
        raise NoPattern("a part in brackets may be missing, which is for reading")
    return found[0]


def mistakes_of_window(window: object) -> Iterator[str]:
    """The mistakes in a window."""
    if not isinstance(window, TimeWindow | None):
        yield f"the window of its API is {window!r:.60}, and has to be TimeWindow(...)"
    if not isinstance(window, TimeWindow):
        return
    try:
        pattern = _pattern(window.form)
    except ValueError as error:
        forms = ", ".join(TIME_FORMS)
        yield f"the form of its window is {window.form!r:.60}, and has to be one of {forms} or a pattern: {error}"
        return
    if pattern is not None and pattern.has_time and not pattern.has("second"):
        yield f"the form of its window is {window.form!r:.60}, which has no seconds: a window would end before its end"
    yield from _mistakes_of_times(window)
    if window.both and (window.end or "{start}" not in window.both or "{end}" not in window.both):
        yield "both of its window has to be like 'at ge {start} and at lt {end}', and is sent with start alone"
    if not window.both and not window.end:
        yield "its window has no end: name what is asked with it, or both"


def _mistakes_of_times(window: TimeWindow) -> Iterator[str]:
    whole, of = (_DAY, "days") if window.is_of_days else (_SECOND, "seconds")
    if not isinstance(window.step, timedelta):
        yield from wrong_time("step", window.step, of="window", positive=True)
    elif window.step < whole or window.step % whole:
        yield f"the step of its window is {window.step}, and has to be a number of {of}"
    yield from wrong_time("settles_after", window.settles_after, of="window")
    yield from wrong_time("overlap", window.overlap, of="window")
    if isinstance(window.overlap, timedelta) and window.overlap % whole:
        yield f"the overlap of its window is {window.overlap}, and has to be a number of {of}"


# HTTP API: how an author declares that a source is captured from one. What asks it is in `http`.
#
# A declaration is code, and what is in it may be read by many: secrets are named in it, and read when they are
# used.

SECRET = re.compile(r"password|secret|token|api.?key|credential|authorization|cookie", re.IGNORECASE)
"""Matches the names of secret headers and parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Where a token is had, before the first request, before it expires, and when the API no longer takes it."""

    url: str  #: What the form is sent to.
    secrets: Mapping[str, str]  #: Its fields that are, each with the name of the secret.
    #: Its fields that are not secret, such as `scope`.
    form: Mapping[str, str] = field(default_factory=lambda: {"grant_type": "client_credentials"})
    member: str = "access_token"  #: Where the answer has the token, such as `data.token`.
    expires: str = "expires_in"  #: Where the answer has the seconds for which it lasts, if it has them.
    #: True if `client_id` and `client_secret` are sent as HTTP Basic instead of in the form.
    client_in_header: bool = False
    as_json: bool = False  #: True if the form is sent as a JSON object.
    header: str = "Authorization"  #: The header with which requests are made.
    scheme: str = "Bearer"  #: The word before the token in that header.


@dataclass(frozen=True, slots=True, kw_only=True)
class Basic:
    """The name and the password of HTTP Basic."""

    #: `password`, `user` or both, each with the name of the secret; an API key alone is often the user. Of both only
    #: the password is kept from being in what lands.
    secrets: Mapping[str, str]
    user: str = ""  #: The name, where it is no secret.


_CLIENT = frozenset({"client_id", "client_secret"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpApi(StreamDeclaration):
    """An API of which a source captures answers, page by page.

    An answer is JSON, and its records are objects with the columns of the contract. Landed records are these objects as
    they were written; the whole answer is kept beside them.
    """

    family: ClassVar[str] = FAMILY.name
    reads_keys: ClassVar[bool] = False

    url: str  #: What is asked, without parameters.
    #: Where an answer has the array of its records, such as `result.items`; empty where it is the array. Where each
    #: element holds its record, `data.issues.edges[].node`.
    records: str = ""
    #: How an answer goes on; None where one answer has everything that was asked for.
    pages: Cursor | PageNumber | Offset | IdRange | NextUrl | LinkHeader | None = None
    window: TimeWindow | None = None  #: How a period is asked for; None where the API cannot be asked for one.
    #: What is asked besides, such as the size of a page; a tuple is sent as a parameter several times.
    parameters: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  #: Further headers of a request.
    #: `POST` for a search that is asked for with a body. A request that fails is made again.
    method: Literal["GET", "POST"] = "GET"
    #: The JSON body of a POST; a query of GraphQL is `{"query": "...", "variables": {}}`. What is asked with
    #: `InBody(...)` takes its place in it.
    body: Mapping[str, Any] | None = None
    #: Which answers say that there are no records: statuses, such as 404 and 204, and, of an answer with status 200,
    #: `"null"` or `"missing"` where the array of records would be. A page without records behind the first one is the
    #: end. 404 counts for a window, and for a page that nothing but its number announced.
    empty: tuple[int | str, ...] = ()
    #: The members of an answer, or members on the way to one, that say that it failed although its status is 200:
    #: anything in them refuses it, but null, false, 0 and what is empty.
    errors: tuple[str, ...] = ("error", "errors")
    #: Parameters that are secret, each with a name. Its value is in the environment variable of that name, or in the
    #: file that the variable with `_FILE` behind the name names.
    secret_parameters: Mapping[str, str] = field(default_factory=dict)
    #: Headers that are secret, such as `Authorization`, each with a name.
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    basic: Basic | None = None  #: The name and the password of HTTP Basic.
    token: Token | None = None  #: Where a bearer token is had.
    requests_per_minute: int | None = None  #: The most requests in a minute; None for no limit.
    #: How often a request is made that fails, or is answered with 408, 425, 429, 500 and above, or with 403 and a time
    #: to wait.
    attempts: int = 6
    answers_within: timedelta = timedelta(seconds=60)  #: How long an answer may take.
    #: The longest wait that an API may ask for; one that asks for more stops the capture.
    waits_at_most: timedelta = timedelta(minutes=5)

    @property
    def identity(self) -> Mapping[str, object]:
        """The settings that decide which records a position means."""
        asked = {} if self.method == "GET" else {"method": self.method, "body": json.dumps(self.body, sort_keys=True)}
        return {
            "url": self.url,
            "records": self.records,
            "parameters": dict(sorted(self.parameters.items())),
            "pages": _document(self.pages),
            "window": _document(self.window),
            **asked,
        }

    @property
    def places(self) -> tuple[str | InBody | InHeader, ...]:
        """The places of a request that differ from one request to the next."""
        window = self.window.places if self.window is not None else ()
        return (*window, *places_of(self.pages))

    def mistakes(self) -> Iterator[str]:
        of_token = self.token.secrets if self.token else {}
        of_basic = self.basic.secrets if self.basic else {}
        secrets = {**self.secret_parameters, **self.secret_headers, **of_token, **of_basic}
        others = self.pages.origins if isinstance(self.pages, NextUrl | LinkHeader) else ()
        for url in (self.url, *((self.token.url,) if self.token else ())):
            yield from _mistakes_of_url(url, has_secrets=bool(secrets))
        yield from mistakes_of(self.pages)
        for url in others:
            yield from _mistakes_of_url(url, has_secrets=bool(secrets))
        yield from mistakes_of_window(self.window)
        yield from self._mistakes_of_numbers()
        yield from self._mistakes_of_body()
        yield from self._mistakes_of_names()
        yield from self._mistakes_of_logins()
        yield from unnamed_secrets(secrets, of="API", such_as="API_TOKEN")

    def _mistakes_of_numbers(self) -> Iterator[str]:
        for name in ("attempts", "requests_per_minute"):
            value = getattr(self, name)
            if value is not None and not is_number(value):
                yield f"{name} of its API is {value!r:.60}, and has to be a number of at least 1"
        for name in ("answers_within", "waits_at_most"):
            yield from wrong_time(name, getattr(self, name), of="API", positive=True)
        for value in self.empty:
            is_status = isinstance(value, int) and 201 <= value < 500 and value not in _NEVER_EMPTY
            if not is_status and value not in EMPTY_WORDS:
                words = " or ".join(map(repr, EMPTY_WORDS))
                yield f"{value!r:.60} does not mean an answer without records: a status such as 404 does, or {words}"

    def _mistakes_of_body(self) -> Iterator[str]:
        if self.method not in ("GET", "POST"):
            yield f"the method of its API is {self.method!r:.60}, and has to be 'GET' or 'POST'"
        if self.body is None:
            return
        if self.method != "POST":
            yield "its API has a body, and a GET has none: declare method='POST'"
        try:
            json.dumps(self.body, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            yield "the body of its API has to be what JSON can say"
        for name in _named_texts(self.body):
            if SECRET.search(name):
                yield f"its API has {name} where everybody can read it: name it among its secrets"

    def _mistakes_of_names(self) -> Iterator[str]:
        asked = (*self.parameters, *self.secret_parameters, *self.places)
        yield from mistakes_of_places(asked, self.body, has_body=self.method == "POST")
        for name in (*self.parameters, *self.headers, *(self.token.form if self.token else {})):
            if SECRET.search(name):
                yield f"its API has {name} where everybody can read it: name it among its secrets"
        before, is_inside, inside = self.records.partition("[]")
        if is_inside and (not inside.startswith(".") or "[]" in inside or inside == "." or before.endswith(".")):
            yield f"its records are at {self.records!r:.60}, and have to be at a place like 'data.issues.edges[].node'"

    def _mistakes_of_logins(self) -> Iterator[str]:
        if self.basic is not None:
            if not self.basic.secrets.keys() <= {"user", "password"} or not self.basic.secrets:
                yield "the secrets of its Basic(...) are 'password', 'user' or both"
            elif bool(self.basic.user) == ("user" in self.basic.secrets):
                yield "its Basic(...) has its user either in user or among its secrets"
            elif ":" in self.basic.user:
                yield "the user of its Basic(...) has a colon in it, behind which the password begins"
        if self.token is not None and self.token.client_in_header:
            missing = _CLIENT - self.token.secrets.keys() - self.token.form.keys()
            if missing:
                yield f"its Token(...) sends its client in a header, and has no {' and no '.join(sorted(missing))}"
        names = [name.lower() for name in (*self.headers, *self.secret_headers)]
        names += ["authorization"] if self.basic is not None else []
        names += [self.token.header.lower()] if self.token is not None else []
        names += [each.name.lower() for each in self.places if isinstance(each, InHeader)]
        for twice in sorted({name for name in names if names.count(name) > 1}):
            yield f"its API is asked with the header {twice} twice"


EMPTY_WORDS = ("null", "missing")
"""The values that may stand for an array without records."""
_NEVER_EMPTY = frozenset({401, 403, 407, 408, 429})
"""Statuses that say something else: that something is not allowed, or not now."""
_LATER = frozenset({"end", "ends_empty", "total", "more", "tie", "tie_after", "inclusive", "overlap", "both"})
"""Parameters that were added later: a declaration without them keeps the meaning of its positions."""


def _document(declared: object) -> object:
    if not is_dataclass(declared) or isinstance(declared, type):
        return None
    is_new = isinstance(declared, PageNumber | Cursor | IdRange | TimeWindow)
    usual = {each.name: each.default for each in fields(declared)}
    later = (_LATER - {"more"}) | {"first"} if isinstance(declared, Cursor) else _LATER
    left = {name for name, value in usual.items() if is_new and name in later and getattr(declared, name) == value}
    # How long something may come is no part of what a position means.
    left.add("settles_after")
    found = {name: str(value) for name, value in asdict(declared).items() if name not in left}
    return {"kind": type(declared).__name__, **found}


def _named_texts(body: object) -> Iterator[str]:
    """The names of members that are texts, at all depths."""
    for name, value in body.items() if isinstance(body, Mapping) else ():
        if isinstance(value, str) and value:
            yield str(name)
        yield from _named_texts(value)
    for each in body if isinstance(body, list | tuple) else ():
        yield from _named_texts(each)


def _mistakes_of_url(url: object, *, has_secrets: bool) -> Iterator[str]:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        is_whole = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts is None or parts.username or parts.query or parts.fragment or re.search(r"\s", str(url)):
        # It may have a password in it.
        yield "the address of its API has to be like 'https://api.example.org/v1/events', without parameters and user"
    elif parts.scheme == "http" and has_secrets and not _is_loopback(parts.hostname or ""):
        yield f"its API at {parts.hostname} would receive secrets without encryption: use https"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
