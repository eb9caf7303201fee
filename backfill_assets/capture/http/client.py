"""HTTP client: requests to an API, their rate, and when they are tried again.

An answer counts when it came whole and with status 200, or with one that is declared to be empty. What an error says
never has an address with parameters, a header or a text of the client in it, because secrets may be in all of them.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import time
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import quote, quote_plus

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from backfill_assets.capture.errors import BadAnswer, NoStream, StreamDenied, StreamFailed, no_answer_within
from backfill_assets.capture.http.declaration import HttpApi, Token
from backfill_assets.capture.json_members import as_written, json_of, member_at
from backfill_assets.capture.streams import Pace
from backfill_assets.core.errors import Refused
from backfill_assets.core.progress import waiting

_MOST_BYTES = 1 << 30
_MOST_WAIT = 30.0
_EARLIER = 30.0
"""How many seconds before a token expires another one is had, at most."""
_SHORTEST = 6
"""A shorter secret is a word that an answer may have by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSecrets:
    """The secrets that are sent to an API."""

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  #: Values by parameter.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  #: Values by header.
    basic: Mapping[str, str] = field(default_factory=dict, repr=False)  #: The user and the password of HTTP Basic.
    #: Values by field of the form that asks for a token.
    token: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to an API, without anything secret."""

    url: str  #: The address.
    parameters: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)  #: What is behind it.
    headers: Mapping[str, str] = field(default_factory=dict)  #: Headers that differ from one request to the next.
    method: str = "GET"  #: GET or POST.
    body: Mapping[str, Any] | None = None  #: The JSON document that is sent, with numbers as `Digits`; None for none.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An API's answer: the body byte for byte, after transport compression was removed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiClient:
    """Asks an API, as often and as fast as its declaration allows.

    Args:
        declared: The API as its source declares it.
        name: What errors call it.
    """

    def __init__(self, declared: HttpApi, secret: HttpSecrets, *, name: str) -> None:
        self._declared = declared
        self._secret = secret
        self._name = name
        self._bearer = ""
        self._bearer_until = math.inf
        self._next_at: float | None = None
        self._session = requests.Session()
        # Neither a cookie nor a password of ~/.netrc: what is told to an API is what is declared.
        self._session.auth = _NoPassword()
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def close(self) -> None:
        self._session.close()

    def ask(
        self,
        request: Request,
        pace: Pace,
        *,
        position: str,
        empty: Collection[int] = (),
        likely: Collection[int] = (),
        is_first: bool = True,
    ) -> Answer:
        """The answer to a request, to which what is secret is added.

        Args:
            position: The page, as errors call it.
            empty: The statuses that say of this page that it has no records.
            likely: Those that could be declared to say so.
            is_first: Whether no answer before it has named this page.

        Raises:
            Retryable: It did not answer, or only with errors of its own.
            Refused: It does not accept the credentials, has no such page, or answers something else.
        """
        declared = self._declared
        if declared.token is not None and (not self._bearer or pace.now() >= self._bearer_until):
            self._new_token(declared.token, pace)
        answer = self._ask(request, pace)
        if answer.status == HTTPStatus.UNAUTHORIZED and declared.token is not None:
            self._new_token(declared.token, pace)
            answer = self._ask(request, pace)
        if answer.status not in empty and not (answer.status == HTTPStatus.CREATED and request.method == "POST"):
            self._require_ok(answer, position, likely=likely, is_first=is_first)
        return answer

    def secret_in(self, kept: bytes) -> str | None:
        """The purpose of the secret that a text contains."""
        secret = self._secret
        # A user beside a password is often in the records as well, such as the number of an account.
        basic = {name: value for name, value in secret.basic.items() if name == "password" or len(secret.basic) == 1}
        known = {**secret.parameters, **secret.headers, **basic, **secret.token, "token": self._bearer}
        known |= {f"{name} in its header": value for name, value in self._logins().items()}
        for name, value in known.items():
            # Of `Bearer abc` the word behind is the secret.
            for each in {value, value.rpartition(" ")[2], quote(value, safe=""), quote_plus(value)}:
                if len(each) >= _SHORTEST and each.encode() in kept:
                    return name
        return None

    def _ask(self, request: Request, pace: Pace) -> Answer:
        declared, secret = self._declared, self._secret
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            **declared.headers,
            **request.headers,
            **secret.headers,
        }
        if (login := self._logins().get("basic")) is not None:
            headers["Authorization"] = login
        if declared.token is not None:
            headers[declared.token.header] = f"{declared.token.scheme} {self._bearer}".lstrip()
        sent: dict[str, Any] = {"params": {**request.parameters, **secret.parameters}, "headers": headers}
        if request.body is not None:
            headers.setdefault("Content-Type", "application/json")
            sent["data"] = json_of(request.body).encode()
        return self._answered(request.method, request.url, pace, **sent)

    def _logins(self) -> Mapping[str, str]:
        """Names and passwords as HTTP Basic sends them."""
        found: dict[str, str] = {}
        if (basic := self._declared.basic) is not None:
            held = self._secret.basic
            found["basic"] = _basic(held.get("user", basic.user), held.get("password", ""))
        if (token := self._declared.token) is not None and token.client_in_header:
            held = {**token.form, **self._secret.token}
            # Of a client both are written as in a form, by the standard of OAuth.
            found["client"] = _basic(quote_plus(held["client_id"]), quote_plus(held["client_secret"]))
        return found

    def _new_token(self, token: Token, pace: Pace) -> None:
        form = {**token.form, **self._secret.token}
        headers = {"Accept": "application/json"}
        if token.client_in_header:
            headers["Authorization"] = self._logins()["client"]
            form = {name: value for name, value in form.items() if name not in ("client_id", "client_secret")}
        sent: dict[str, Any] = {"json": form} if token.as_json else {"data": form}
        asked_at = pace.now()
        answer = self._answered("POST", token.url, pace, headers=headers, **sent)
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise StreamDenied(name=token.url, why=_said(answer.status))
        if answer.status != HTTPStatus.CREATED:
            self._require_ok(answer, "the request of a token")
        try:
            document = as_written(answer.body)
        except ValueError:
            document = None
        value = member_at(document, token.member)
        if not isinstance(value, str) or not value:
            why = f"without {token.member!r}, where the token is declared to be"
            raise BadAnswer(name=token.url, position="the request of a token", why=why)
        lasts = member_at(document, token.expires) if token.expires else None
        seconds = (
            float(lasts) if isinstance(lasts, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", lasts) else math.inf
        )
        self._bearer = value
        # A request that is on its way when the token expires would be in vain.
        self._bearer_until = asked_at + seconds - min(_EARLIER, seconds / 10 if seconds < math.inf else 0)

    def _require_ok(
        self, answer: Answer, position: str, *, likely: Collection[int] = (), is_first: bool = True
    ) -> None:
        declares = f"empty=({answer.status},)" if answer.status in likely else ""
        match answer.status:
            case HTTPStatus.OK:
                return
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                raise StreamDenied(name=self._name, why=_said(answer.status))
            case HTTPStatus.NOT_FOUND if is_first:
                server, _, path = self._declared.url.partition("://")[2].partition("/")
                more = f", or no records for this window, which {declares} declares" if declares else ""
                raise NoStream(name=f"/{path}{more}", servers=server)
            case HTTPStatus.GONE:
                raise Refused.coded(
                    "position_gone",
                    "{name} no longer knows {position} (410 Gone), from which its capture has to continue.",
                    then="read everything once more: [reconcile=True]",
                    name=self._name,
                    position=position,
                )
        more = f", which {declares} declares to mean no records" if declares else ""
        raise BadAnswer(name=self._name, position=position, why=f"with {_said(answer.status)}{more}")

    def _answered(self, method: str, url: str, pace: Pace, **sent: Any) -> Answer:
        """A whole answer that is no error of the server; what may succeed later is tried again."""
        trouble: Exception | None = None
        for attempt in range(self._declared.attempts):
            self._hold(pace)
            try:
                answer = self._once(method, url, **sent)
            except _Broken as error:
                trouble, seconds = error, None
            else:
                if not _may_succeed_later(answer):
                    return answer
                trouble, seconds = _Broken(f"it answered {_said(answer.status)}"), _asked_to_wait(answer.headers)
            if attempt + 1 < self._declared.attempts:
                with waiting(lambda: f"waiting for {self._name}, of which the last request failed: {trouble}"):  # noqa: B023
                    pace.wait(self._wait(attempt, seconds))
        assert trouble is not None
        if isinstance(trouble, _Late):
            raise StreamFailed(name=self._name, why=no_answer_within(self._seconds))
        tried = f"{self._declared.attempts} times" if self._declared.attempts > 1 else "once"
        raise StreamFailed(name=self._name, why=f"{trouble}, tried {tried}")

    def _wait(self, attempt: int, asked: float | None) -> float:
        most = self._declared.waits_at_most / timedelta(seconds=1)
        if asked is None:
            return min(_MOST_WAIT, most, 0.5 * 2.0**attempt)
        if asked > most:
            why = f"it asks to wait for {asked:g} s, and its capture waits for at most {most:g} s"
            raise StreamFailed(name=self._name, why=why)
        return asked

    def _once(self, method: str, url: str, **sent: Any) -> Answer:
        until = time.monotonic() + self._seconds
        try:
            with self._session.request(
                method, url, timeout=self._seconds, allow_redirects=False, stream=True, **sent
            ) as answer:
                # As it was sent: the client itself unpacks a text that is cut as if that were its end.
                sent_body = bytearray()
                for part in answer.raw.stream(1 << 16, decode_content=False):
                    sent_body += part
                    if time.monotonic() > until:
                        raise _Late("its answer took too long")
                    if len(sent_body) > _MOST_BYTES:
                        raise _Broken("its answer is larger than a gigabyte")
                headers = {name.lower(): value for name, value in answer.headers.items()}
                body = bytes(sent_body)
                # Of others nothing counts but their status.
                if answer.status_code in (HTTPStatus.OK, HTTPStatus.CREATED, *self._declared.empty):
                    _require_digest(body, headers)
                    body = _unpacked(body, headers.get("content-encoding", ""))
                return Answer(status=answer.status_code, headers=headers, body=body)
        except requests.exceptions.SSLError:
            raise _Broken("no connection that is secure could be made") from None
        except requests.exceptions.Timeout:
            raise _Late("it did not answer in time") from None
        except ReadTimeoutError:
            raise _Late("it did not answer in time") from None
        except (ProtocolError, requests.exceptions.ChunkedEncodingError):
            raise _Broken("its answer broke off") from None
        except HTTPError:
            raise _Broken("the connection was refused or broke off") from None
        except requests.exceptions.ConnectionError as error:
            late = "timed out" in str(error).lower()
            raise (_Late if late else _Broken)("the connection was refused or broke off") from None
        except requests.exceptions.RequestException as error:
            raise _Broken(f"the request failed ({type(error).__name__})") from None

    def _hold(self, pace: Pace) -> None:
        """Waits until one more request may be made."""
        if self._declared.requests_per_minute is None:
            return
        now = pace.now()
        if self._next_at is not None and self._next_at > now:
            with waiting(lambda: f"waiting to ask {self._name} again, as its requests per minute allow"):
                pace.wait(self._next_at - now)
        self._next_at = max(now, self._next_at or now) + 60 / self._declared.requests_per_minute

    @property
    def _seconds(self) -> float:
        return self._declared.answers_within / timedelta(seconds=1)


class _Broken(Exception):
    """A request that may succeed when it is made again."""


class _Late(_Broken):
    """One that was not answered in time."""


class _NoPassword(AuthBase):
    """Leaves a request as it is."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


_DIGEST = re.compile(r"(?i)(md5|sha-256|sha-512)=:?([A-Za-z0-9+/=]+?):?\s*(?:,|$)")
_HASHES = {"md5": "md5", "sha-256": "sha256", "sha-512": "sha512"}


def _require_digest(body: bytes, headers: Mapping[str, str]) -> None:
    """Compares a body with what its headers say of it, where they do: `Content-MD5`, `Digest`, `Content-Digest` and, as
    the body is all of what was asked for, `Repr-Digest`."""
    named = [("md5", headers["content-md5"].strip())] if "content-md5" in headers else []
    for header in ("digest", "content-digest", "repr-digest"):
        named += _DIGEST.findall(headers.get(header, ""))
    for name, expected in named:
        found = hashlib.new(_HASHES[name.lower()], body, usedforsecurity=False).digest()
        if base64.b64encode(found).decode().rstrip("=") != expected.rstrip("="):
            raise _Broken("its answer does not match its own digest")


def _unpacked(body: bytes, encoding: str) -> bytes:
    """A body as it was before it was packed for the way, which has to be there to its end."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            forms = [31]
        case "deflate":
            forms = [15, -15]  # some servers leave out the header and the checksum
        case _:
            raise _Broken("its answer is packed in another way than it was asked for")
    for form in forms:
        try:
            unpacking = zlib.decompressobj(form)
            text = unpacking.decompress(body, _MOST_BYTES + 1)
        except zlib.error:
            continue
        if len(text) > _MOST_BYTES:
            raise _Broken("its answer is larger than a gigabyte")
        if unpacking.eof and not unpacking.unused_data:
            return text
        raise _Broken("its answer broke off" if not unpacking.eof else "something follows its packed answer")
    raise _Broken("its answer is packed in another way than it says")


_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


def _may_succeed_later(answer: Answer) -> bool:
    """True if a request is worth another attempt; some limits are refusals that state how long to wait."""
    is_limit = answer.status == HTTPStatus.FORBIDDEN and "retry-after" in answer.headers
    return answer.status in _LATER or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or is_limit


def _said(status: int) -> str:
    """A status with the words of the standard; those of the server may be anything."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds of `Retry-After`, which has a number or, by the clock of the server, a time."""
    asked = headers.get("retry-after", "").strip()
    if asked.isdigit():
        return float(asked)
    try:
        at, now = parsedate_to_datetime(asked), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (at - now).total_seconds())
    except (ValueError, TypeError):  # no time, or one without its zone
        return None
