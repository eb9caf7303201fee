"""HTTP API: how an author declares that a source is captured from one. What asks it is in `http`.

A declaration is code, and what is in it may be read by many: secrets are named in it, and read when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from backfill_assets.capture.declared import is_number, unnamed_secrets, wrong_time

TimeForm = Literal["iso", "day", "seconds", "milliseconds"]
TIME_FORMS: tuple[TimeForm, ...] = ("iso", "day", "seconds", "milliseconds")

_SECRET = re.compile(r"password|secret|token|api.?key|credential|authorization|cookie", re.IGNORECASE)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Pages that name the next one.

    Attributes:
        parameter: What is asked with the cursor.
        next: Where an answer has the cursor of the next page, such as `meta.next`; missing, null or empty at the end.
        more: Where an answer says whether there is a next page, of an API whose last page has a cursor too: a later
            capture then goes on from it.
    """

    parameter: str
    next: str
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNumber:
    """Numbered pages; the first one without records is behind the last.

    Attributes:
        parameter: What is asked with the number.
        first: The number of the first page.
    """

    parameter: str
    first: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Records in the order of their ids: each page has those behind an id, and one without others is the end so far.

    Several records may have the same id, such as a time, if a page has room for all of these and one more: a page
    counts up to its last id, with which the next one begins.

    Attributes:
        after: What is asked with the last id that was read.
        member: The member of a record that is its id.
        first: The id behind which the first page begins; empty to ask for it without one.
    """

    after: str
    member: str
    first: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Records of a period, asked for in windows of the same length.

    Attributes:
        start: What is asked with the first instant of a window.
        end: What is asked with the first instant behind it; that an API counts it to the window does no harm.
        of: The member of a record whose time is in the window.
        step: How long a window is.
        form: How instants are written: `2026-01-31T00:00:00Z`, a `day` of the source's `timezone`, or seconds or
            milliseconds since 1970.
        settles_after: For how long records of a time may still come: nothing later than that ago is read.
    """

    start: str
    end: str
    of: str
    step: timedelta = _DAY
    form: TimeForm = "iso"
    settles_after: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Where a bearer token is had, before the first request and when the API no longer takes it.

    Attributes:
        url: What the form is sent to.
        form: Its fields that are not secret.
        secrets: Its fields that are, each with the name of the secret.
        member: Where the answer has the token.
    """

    url: str
    secrets: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=lambda: {"grant_type": "client_credentials"})
    member: str = "access_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpApi:
    """An API of which a source captures answers, page by page.

    An answer is JSON, and its records are objects with the columns of the contract. Landed records are these objects as
    they were written; the whole answer is kept beside them.

    Attributes:
        url: What is asked, without parameters.
        records: Where an answer has the array of its records, such as `result.items`; empty where it is the array.
        pages: How an answer goes on; None where one answer has everything that was asked for.
        window: How a period is asked for; None where the API cannot be asked for one.
        parameters: What is asked besides, such as the size of a page.
        headers: Further headers of a request.
        secret_parameters: Parameters that are secret, each with a name. Its value is in the environment variable of
            that name, or in the file that the variable with `_FILE` behind the name names.
        secret_headers: Headers that are secret, such as `Authorization`, each with a name.
        token: Where a bearer token is had.
        requests_per_minute: The most requests in a minute; None for no limit.
        attempts: How often a request is made that fails, or is answered with 429 or 500 and above.
        answers_within: How long an answer may take.
        waits_at_most: The longest wait that an API may ask for; one that asks for more stops the capture.
    """

    url: str
    records: str = ""
    pages: Cursor | PageNumber | IdRange | None = None
    window: TimeWindow | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_parameters: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    token: Token | None = None
    requests_per_minute: int | None = None
    attempts: int = 6
    answers_within: timedelta = timedelta(seconds=60)
    waits_at_most: timedelta = timedelta(minutes=5)

    @property
    def identity(self) -> Mapping[str, object]:
        """What decides which records a position means."""
        return {
            "url": self.url,
            "records": self.records,
            "parameters": dict(sorted(self.parameters.items())),
            "pages": _document(self.pages),
            "window": _document(self.window),
        }

    def mistakes(self) -> Iterator[str]:
        secrets = {**self.secret_parameters, **self.secret_headers, **(self.token.secrets if self.token else {})}
        for url in (self.url, *((self.token.url,) if self.token else ())):
            yield from _mistakes_of_url(url, has_secrets=bool(secrets))
        if not isinstance(self.pages, Cursor | PageNumber | IdRange | None):
            kinds = "Cursor(...), PageNumber(...) or IdRange(...)"
            yield f"the pages of its API are {self.pages!r:.60}, and have to be {kinds}"
        if not isinstance(self.window, TimeWindow | None):
            yield f"the window of its API is {self.window!r:.60}, and has to be TimeWindow(...)"
        yield from self._mistakes_of_numbers()
        yield from self._mistakes_of_names(secrets)

    def _mistakes_of_numbers(self) -> Iterator[str]:
        if self.window is not None:
            whole = _DAY if self.window.form == "day" else timedelta(seconds=1)
            if self.window.form not in TIME_FORMS:
                forms = ", ".join(TIME_FORMS)
                yield f"the form of its window is {self.window.form!r:.60}, and has to be one of {forms}"
            step = self.window.step
            if not isinstance(step, timedelta):
                yield from wrong_time("step", step, of="window", positive=True)
            elif step < whole or step % whole:
                of = "days" if whole is _DAY else "seconds"
                yield f"the step of its window is {step}, and has to be a number of {of}"
            yield from wrong_time("settles_after", self.window.settles_after, of="window")
        for name in ("attempts", "requests_per_minute"):
            value = getattr(self, name)
            if value is not None and not is_number(value):
                yield f"{name} of its API is {value!r:.60}, and has to be a number of at least 1"
        for name in ("answers_within", "waits_at_most"):
            yield from wrong_time(name, getattr(self, name), of="API", positive=True)

    def _mistakes_of_names(self, secrets: Mapping[str, str]) -> Iterator[str]:
        asked = [*self.parameters, *self.secret_parameters]
        if self.window is not None:
            asked += [self.window.start, self.window.end]
        match self.pages:
            case Cursor(parameter=name) | PageNumber(parameter=name) | IdRange(after=name):
                asked.append(name)
        if len(set(asked)) != len(asked):
            twice = next(name for name in asked if asked.count(name) > 1)
            yield f"its API is asked with {twice} twice"
        for name in (*self.parameters, *self.headers, *(self.token.form if self.token else {})):
            if _SECRET.search(name):
                yield f"its API has {name} where everybody can read it: name it among its secrets"
        yield from unnamed_secrets(secrets, of="API", such_as="API_TOKEN")


def _document(declared: object) -> object:
    if not is_dataclass(declared) or isinstance(declared, type):
        return None
    found = {name: str(value) for name, value in asdict(declared).items()}
    # How long something may come is no part of what a position means.
    return {
        "kind": type(declared).__name__,
        **{name: value for name, value in found.items() if name != "settles_after"},
    }


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
