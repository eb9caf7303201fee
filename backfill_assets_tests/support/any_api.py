"""An API of any kind on loopback, and captures of it without a landing: what came, and where they are."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.http.declaration import HttpApi, PageNumber, TimeWindow
from backfill_assets.capture.http.stream import HttpStream
from backfill_assets.capture.streams import Captured, CapturePeriod, Pace, Span

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = TimeWindow(start="from", end="to", of="at")
NUMBERED = PageNumber(parameter="page")
Record = Mapping[str, Any]
NOW = datetime(2026, 1, 31, tzinfo=UTC)
EVERYTHING = CapturePeriod(start=None, end=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as a server gets it."""

    method: str
    path: str
    parameters: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a server answers."""

    document: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    @property
    def content(self) -> bytes:
        if self.body is not None:
            return self.body
        return b"" if self.document is None else json.dumps(self.document).encode()


@dataclass(kw_only=True)
class AnyApi:
    """A server that answers as a function says, and what it was asked."""

    url: str = ""
    answer: Callable[[Asked], Said] = lambda _: Said(document=[])
    asked: list[Asked] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: AnyApi

    def _answer(self) -> None:
        url = urlsplit(self.path)
        query = parse_qsl(url.query, keep_blank_values=True)
        asked = Asked(
            method=self.command,
            path=url.path,
            parameters=dict(query),
            query=query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(self.headers.get("Content-Length", "0"))),
        )
        self.api.asked.append(asked)
        said = self.api.answer(asked)
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        if said.status != 204:
            self.send_header("Content-Length", str(len(said.content)))
        self.end_headers()
        self.wfile.write(said.content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *args: Any) -> None:
        """The test says what happened."""


@contextmanager
def any_api() -> Iterator[AnyApi]:
    """An API on a free port of loopback."""
    api = AnyApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


class AnyCapture:
    """Captures of an API, each in a process of its own as far as the API can tell."""

    def __init__(self, folder: Path, declared: HttpApi, secret: HttpSecrets | None = None, zone: str = "UTC") -> None:
        self._copy, self._declared, self._secret, self._zone = folder / "copy", declared, secret or HttpSecrets(), zone
        self.captured: list[Captured] = []  #: The positions that are files.
        self.lines: list[bytes] = []  #: The records that were captured, as they were written.
        self.answers: list[bytes] = []

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    def run(self, period: CapturePeriod = EVERYTHING, *, stops_after: int = 1_000_000, pace: Pace | None = None) -> int:
        """One capture, which is killed after so many pages.

        Returns:
            How many records came.
        """
        stream = HttpStream(self._declared, secret=self._secret, event_time="at", as_of=NOW, days=LocalDays(self._zone))
        had = len(self.lines)
        try:
            self._read(stream, period, stops_after, pace or Pace(wait=lambda _: None))
        finally:
            stream.close()
        return len(self.lines) - had

    def _read(self, stream: HttpStream, period: CapturePeriod, stops_after: int, pace: Pace) -> None:
        resolution = stream.resolve(period, self.captured)
        (span,) = resolution.spans
        pieces = list(stream.pieces(span, self.captured))
        while pieces and stops_after > 0:
            piece, stops_after = pieces.pop(0), stops_after - 1
            written = stream.write(piece, self._copy, pace)
            range_to = written.range_to or piece.range_to
            if written.goes_on:
                pieces.insert(0, Span(partition=piece.partition, range_from=range_to, range_to=piece.range_to))
            if range_to == piece.range_from and not written.records:
                continue
            found = gzip.decompress(self._copy.read_bytes()).splitlines()
            assert len(found) == written.records
            self.lines += found
            self.answers.append(gzip.decompress(written.answer))
            self.captured.append(Captured(partition=piece.partition, range_from=piece.range_from, range_to=range_to))


def record(number: int, hour: int = 0) -> Record:
    """A record of an hour since the first."""
    return {"id": number, "at": (FIRST + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%SZ")}


def named(**places: Any) -> Said:
    """An answer with these members."""
    return Said(document=places)


def captured(api: AnyApi, folder: Path, answers: Callable[[Asked], Said], **declared: Any) -> AnyCapture:
    """A capture of an API that answers like this, whose records are in `results` unless said."""
    api.answer = answers
    return AnyCapture(folder, HttpApi(**{"url": f"{api.url}/v1", "records": "results", **declared}))


def in_turn(api: AnyApi, *said: Said) -> Callable[[Asked], Said]:
    """These answers one after the other, and then the last one again."""
    return lambda _: said[min(len(api.asked), len(said)) - 1]
