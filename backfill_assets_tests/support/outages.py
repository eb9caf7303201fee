"""How does a store fail in the middle of something?

A proxy on loopback in front of the tests' store passes every byte on until it is told to answer errors, to lose an
answer, to cut connections or to be gone: for a while, and from a chosen request on. It is a process of its own, because
delta-rs holds Python's lock while it waits for some answers.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from threading import Lock, Thread

_REQUEST = re.compile(rb"(?:GET|PUT|HEAD|POST|DELETE) [^\r\n]* HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNK_BYTES = 1 << 16
_ABORT = struct.pack("ii", 1, 0)


class Way(Enum):
    """How a store fails."""

    ANSWERS = "it answers every request with an error"
    CUTS = "it resets every connection"
    IS_GONE = "nothing listens at its port"
    LOSES_ANSWER = "it does what is asked, and its answer is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """What is wrong for a while."""

    way: Way
    seconds: float | None = None  #: How long after it began everything is well again; None until `end` is called.
    begins_at: str = "."  #: The first request that meets it, as a regular expression of its first line.
    status: str = "503 Service Unavailable"  #: The status of the answer, for `Way.ANSWERS`.
    code: str = "ServiceUnavailable"  #: The code in its body.
    message: str = "Please try again."  #: The sentence in its body.

    @property
    def answer(self) -> bytes:
        """What a store answers."""
        error = f"<Error><Code>{self.code}</Code><Message>{self.message}</Message></Error>"
        return f"<?xml version='1.0'?>{error}".encode()


@dataclass(kw_only=True)
class _Server:
    """The store at another port, which can fail."""

    upstream: int
    port: int = 0
    met: int = 0  #: How many requests or connections met an outage.
    _outage: Outage | None = None
    _began_s: float | None = None
    _open: set[socket.socket] = field(default_factory=set)
    _listener: socket.socket | None = None
    _turn: Lock = field(default_factory=Lock)

    def begin(self, outage: Outage) -> None:
        """From the chosen request on the store fails."""
        with self._turn:
            self._outage, self._began_s, self.met = outage, None, 0

    def end(self) -> None:
        """Everything is well again."""
        with self._turn:
            self._outage = None
        if self._listener is None:
            self.listen()

    def listen(self) -> None:
        """Accepts connections, always at the same port."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port, self._listener = listener.getsockname()[1], listener
        Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Stops listening, and cuts every connection."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._cut_all()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.upstream))
        self._open |= {client, server}
        answers = Thread(target=_pass_on, args=(server, client), daemon=True)
        silent = False
        with suppress(OSError):
            while content := client.recv(_CHUNK_BYTES):
                outage = self._outage_of(content)
                if outage is None:
                    server.sendall(content)
                    if not answers.is_alive():
                        answers.start()
                    continue
                silent = outage.way is Way.LOSES_ANSWER
                self._fail(outage, client, server, content)
                break
        if answers.is_alive() and not silent:
            answers.join(timeout=5)
        for each in (client, server):
            _abort(each) if silent else each.close()
            self._open.discard(each)

    def _outage_of(self, content: bytes) -> Outage | None:
        """The outage that these bytes meet."""
        with self._turn:
            outage, now = self._outage, time.monotonic()
            if outage is None:
                return None
            if self._began_s is None:
                line = _REQUEST.match(content)
                if line is None or not re.search(outage.begins_at.encode(), line[0]):
                    return None
                self._began_s = now
                Thread(target=self._ends_by_itself, args=(outage,), daemon=True).start()
            elif outage.seconds is not None and now > self._began_s + outage.seconds:
                return None
            self.met += 1
            return outage

    def _ends_by_itself(self, outage: Outage) -> None:
        if outage.way is Way.IS_GONE:
            self.close()
        if outage.seconds is not None:
            time.sleep(outage.seconds)
            if self._outage is outage:
                self.end()

    def _fail(self, outage: Outage, client: socket.socket, server: socket.socket, content: bytes) -> None:
        match outage.way:
            case Way.ANSWERS:
                _drain(client, content)
                head = (
                    f"HTTP/1.1 {outage.status}\r\nContent-Type: application/xml\r\n"
                    f"Content-Length: {len(outage.answer)}\r\nConnection: close\r\n\r\n"
                )
                client.sendall(head.encode() + (b"" if content.startswith(b"HEAD") else outage.answer))
            case Way.LOSES_ANSWER:
                server.sendall(content + _rest(client, content))
                server.recv(_CHUNK_BYTES)
                self.end()  # one answer is lost
            case Way.CUTS | Way.IS_GONE:
                _abort(client)

    def _cut_all(self) -> None:
        for each in tuple(self._open):
            _abort(each)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(_CHUNK_BYTES):
            target.sendall(content)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _rest(client: socket.socket, content: bytes) -> bytes:
    """What is still missing of a request whose beginning was read."""
    while b"\r\n\r\n" not in content:
        content += client.recv(_CHUNK_BYTES)
    head, _, body = content.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    missing = int(found[1]) - len(body) if found else 0
    rest = b""
    while len(rest) < missing and (more := client.recv(_CHUNK_BYTES)):
        rest += more
    return rest


def _drain(client: socket.socket, content: bytes) -> None:
    """Reads a request to its end, so that its sender can read the answer."""
    if _REQUEST.match(content):
        client.settimeout(5)
        if b"100-continue" not in content.lower():
            _rest(client, content)


def _abort(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        end.shutdown(socket.SHUT_RD)
    with suppress(OSError):
        end.close()


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A running proxy, told what to do in lines of JSON."""

    port: int  #: Of loopback, where the store seems to be.
    _process: subprocess.Popen[str]

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def met(self) -> int:
        """How many requests or connections met the last outage."""
        return self._asked({"do": "count"})

    def begin(self, outage: Outage) -> None:
        """From the chosen request on the store fails."""
        self._asked({"do": "begin", "outage": {**asdict(outage), "way": outage.way.name}})

    def end(self) -> None:
        """Everything is well again."""
        self._asked({"do": "end"})

    def _asked(self, order: Mapping[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def proxied(upstream: int) -> Iterator[Proxy]:
    """A running proxy in front of a port of loopback."""
    command = [sys.executable, "-m", "backfill_assets_tests.support.outages", str(upstream)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Proxy(port=int(process.stdout.readline()), _process=process)
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()


def main() -> None:
    """Does what the lines of standard input say, and answers each with how many requests met the last outage."""
    server = _Server(upstream=int(sys.argv[1]))
    server.listen()
    _say(server.port)
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "begin":
                server.begin(Outage(**{**order["outage"], "way": Way[order["outage"]["way"]]}))
            case "end":
                server.end()
            case _:
                pass
        _say(server.met)
    os._exit(0)  # connections that are open keep it no longer


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
