"""An API on loopback that fails as APIs do: it limits, breaks off, forgets, is slow, and changes its records."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from backfill_assets.capture.http.declaration import HttpApi
from backfill_assets.capture.streams import Pace
from backfill_assets.domain import SourceTable
from backfill_assets_tests.domains import captured_api
from backfill_assets_tests.support.captured_shop import FIRST, StreamShop, lines_of

CLIENT, SECRET = "client-4711", "the-secret-word-of-the-api"
Headers = Mapping[str, str]
Fault = tuple[int, Headers, bytes] | str
"""An answer instead of the right one; or `reset`, `half` and `slow`, which are about the connection."""


@dataclass(kw_only=True)
class Api:
    """An API with sales, and what is wrong with it."""

    url: str = ""
    sales: dict[str, dict[str, Any]] = field(default_factory=dict)  #: Its records by id.
    #: By the number of a request, counted from 1, what happens in place of the right answer.
    faults: dict[int, Fault] = field(default_factory=dict)
    before: Callable[[int], None] = lambda _: None  #: Called before each request is answered, with its number.
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)  #: What was asked: path and parameters.
    is_secured: bool = False  #: Whether it wants a token, which `token_lasts` requests use up.
    token_lasts: int = 1_000_000
    token: str = ""
    tokens: int = 0
    left: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sell(self, count: int, *, days: int = 4, start: int = 0) -> None:
        """So many sales, evenly over some days."""
        for number in range(start, start + count):
            day = FIRST + timedelta(days=(number - start) * days // count)
            at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC) + timedelta(seconds=number - start)
            sale_id = f"s{number:06}"
            self.sales[sale_id] = {"sale_id": sale_id, "sold_at": at.isoformat(), "amount": 10}

    @property
    def asked(self) -> list[dict[str, str]]:
        """The parameters of the requests for sales."""
        return [parameters for path, parameters in self.requests if path != "/token"]

    def answer(self, path: str, parameters: dict[str, str]) -> tuple[int, Headers, bytes]:
        """The right answer of a path."""
        found = sorted(self.sales.values(), key=lambda sale: (path == "/v1/sales" and sale["sold_at"], sale["sale_id"]))
        if "from" in parameters:
            start, end = (datetime.fromisoformat(parameters[name]) for name in ("from", "to"))
            found = [sale for sale in found if start <= datetime.fromisoformat(sale["sold_at"]) < end]
        limit = int(parameters.get("limit", "10"))
        match path:
            case "/v1/sales":
                at = int(parameters.get("cursor", "0"))
                page, following = found[at : at + limit], at + limit
                more = {"next": str(following)} if following < len(found) else {"next": None}
                return _json({"data": {"items": page, **more}, "of": len(found)})
            case "/v1/changes":
                at = int(parameters.get("cursor", "0"))
                page = found[at : at + limit]
                following = at + len(page)
                return _json({"items": page, "next": str(following), "more": following < len(found)})
            case "/v1/pages":
                at = (int(parameters["page"]) - 1) * limit
                return _json(found[at : at + limit])
            case "/v1/offsets":
                if not found:
                    return 404, {}, b"nothing"
                at = int(parameters["skip"])
                return _json({"items": found[at : at + limit], "of": len(found)})
            case "/v1/ids":
                after = parameters.get("since", "")
                return _json({"items": [sale for sale in found if sale["sale_id"] > after][:limit]})
            case "/v1/all":
                return _json(found)
        return 404, {}, b"no such path"


def _json(document: object) -> tuple[int, Headers, bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(document, indent=1).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parameters = dict(parse_qsl(url.query))
        with self.api.lock:
            self.api.requests.append((url.path, parameters))
            number = len(self.api.asked)
            self.api.before(number)
            fault = self.api.faults.get(number)
            answer = fault if isinstance(fault, tuple) else self.answered(url.path, parameters)
        match fault:
            case "reset":
                # Lingering for no time, so that the other side is told that the connection was reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
                return
            case "slow":
                time.sleep(1.5)
        status, headers, body = answer
        if "Date" in headers:
            self.send_response_only(status)
        else:
            self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if fault == "half":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(body)

    def answered(self, path: str, parameters: dict[str, str]) -> tuple[int, Headers, bytes]:
        if self.api.is_secured:
            self.api.left -= 1
            right = f"Bearer {self.api.token}"
            if self.headers.get("Authorization") != right or self.api.left < 0 or parameters.get("client") != CLIENT:
                return 401, {}, b"who are you?"
        return self.api.answer(path, parameters)

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        with self.api.lock:
            self.api.requests.append(("/token", {}))
            if form == {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}:
                self.api.tokens += 1
                self.api.token, self.api.left = f"token-number-{self.api.tokens}", self.api.token_lasts
                status, _, body = _json({"access_token": self.api.token})
            else:
                status, body = 401, b"{}"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """The test says what happened."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or a connection that a test has reset."""


@contextmanager
def running_api() -> Iterator[Api]:
    """An API on a free port of loopback."""
    api = Api()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    api.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


@dataclass(frozen=True, kw_only=True)
class ApiShop(StreamShop):
    """A shop over an API."""

    api: Api  #: The API.
    path: str = "/v1/sales"  #: What of it is asked.
    kind: HttpApi = captured_api.API  #: The declaration that `declared` changes.

    def environment(self) -> Mapping[str, str]:
        return {
            **super().environment(),
            "BACKFILL_DOMAIN": "backfill_assets_tests.domains.captured_api",
            "TEST_API": self.api.url,
        }

    def source(self) -> SourceTable:
        token = self.kind.token and replace(self.kind.token, url=f"{self.api.url}/token")
        usual = {"url": f"{self.api.url}{self.path}", "token": token}
        return replace(captured_api.sales, capture=replace(self.kind, **{**usual, **self.declared}), policy=self.policy)


LAST = FIRST + timedelta(days=3)
ShopOf = Callable[..., ApiShop]
"""Makes a home that captures the API."""


class Waits(list[float]):
    """How long a capture waited, without the waiting."""

    @property
    def pace(self) -> Pace:
        return Pace(wait=self.append)


def ids(shop: ApiShop) -> list[str]:
    """The ids of the records that were captured, sorted."""
    return sorted(line["sale_id"] for line in lines_of(shop.bytes()))


def current(shop: ApiShop) -> dict[str, int]:
    """The amounts of bronze, by id."""
    return {row["sale_id"]: row["amount"] for row in shop.rows()}
