"""HTTP API: how an author declares that a source is captured from one. What asks it is in `http`.

A declaration is code, and what is in it may be read by many: secrets are named in it, and read when they are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from backfill_assets.capture.declared import is_number, unnamed_secrets, wrong_time
from backfill_assets.capture.http_pagings import (
    Cursor,
    IdRange,
    InBody,
    InHeader,
    LinkHeader,
    NextUrl,
    Offset,
    PageNumber,
    mistakes_of,
    mistakes_of_places,
    places_of,
)
from backfill_assets.capture.http_windows import TimeWindow, mistakes_of_window

SECRET = re.compile(r"password|secret|token|api.?key|credential|authorization|cookie", re.IGNORECASE)
"""What the names of headers and parameters have in them that are secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Where a token is had, before the first request, before it expires, and when the API no longer takes it."""

    url: str  #: What the form is sent to.
    secrets: Mapping[str, str]  #: Its fields that are, each with the name of the secret.
    #: Its fields that are not secret, such as `scope`.
    form: Mapping[str, str] = field(default_factory=lambda: {"grant_type": "client_credentials"})
    member: str = "access_token"  #: Where the answer has the token, such as `data.token`.
    expires: str = "expires_in"  #: Where the answer has the seconds for which it lasts, if it has them.
    #: Whether `client_id` and `client_secret` are sent as HTTP Basic instead of in the form.
    client_in_header: bool = False
    as_json: bool = False  #: Whether the form is sent as a JSON object.
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
class HttpApi:
    """An API of which a source captures answers, page by page.

    An answer is JSON, and its records are objects with the columns of the contract. Landed records are these objects as
    they were written; the whole answer is kept beside them.
    """

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
        """Where a request has what differs from one to the next."""
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
"""What an answer may have in the place of an array without records."""
_NEVER_EMPTY = frozenset({401, 403, 407, 408, 429})
"""Statuses that say something else: that something is not allowed, or not now."""
_LATER = frozenset({"end", "ends_empty", "total", "more", "tie", "tie_after", "inclusive", "overlap", "both"})
"""What declarations were given later: a position has the same meaning as before where they have none of it."""


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
