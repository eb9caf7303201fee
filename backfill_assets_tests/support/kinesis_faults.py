"""A proxy in front of a server of Kinesis: it refuses records as the service does, loses answers, and keeps count."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_THROTTLED = "ProvisionedThroughputExceededException"


@dataclass(kw_only=True)
class Faults:
    """What the proxy does, and what it has seen."""

    #: Whether it refuses a record of a request to write, by its place in the request.
    refuses: Callable[[int, Mapping[str, Any]], bool] = lambda *_: False
    #: Whether it writes what is asked for, and breaks off instead of answering, by the number of the request.
    loses: Callable[[int], bool] = lambda _: False
    waits: Callable[[int], None] = lambda _: None  #: Called before a request to write is passed on, with its number.
    requests: list[list[Mapping[str, Any]]] = field(default_factory=list)  #: The records of each request, as they came.
    refused: int = 0  #: How many records it refused.
    endpoint: str = ""  #: Where it listens.


@dataclass(kw_only=True)
class Limits:
    """What a shard takes in a second, as the service has it; records beyond it are refused."""

    records: int = 1_000  #: How many records.
    size_bytes: int = 2**20  #: How many bytes.
    shards: int = 1  #: How many shards share the keys.
    _seen: dict[int, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))

    def refuse(self, _: int, record: Mapping[str, Any]) -> bool:
        """Whether a record is more than its shard takes in the second that ends now."""
        at = int.from_bytes(hashlib.md5(record["PartitionKey"].encode(), usedforsecurity=False).digest())
        seen, now = self._seen[at * self.shards >> 128], time.monotonic()
        while seen and seen[0][0] <= now - 1:
            seen.pop(0)
        size = len(record["Data"]) * 3 // 4 + len(record["PartitionKey"])
        if len(seen) >= self.records or sum(each for _, each in seen) + size > self.size_bytes:
            return True
        seen.append((now, size))
        return False


@contextmanager
def faulty(port: int, faults: Faults) -> Iterator[Faults]:
    """The proxy while the block lasts.

    Args:
        port: Where the server is.
        faults: What it does.
    """
    turn = threading.Lock()

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not self.headers["X-Amz-Target"].endswith(".PutRecords"):
                self._answer(*self._passed_on(body))
                return
            with turn:
                number = len(faults.requests)
                asked = json.loads(body)
                faults.requests.append(asked["Records"])
                faults.waits(number)
                refused = {at for at, each in enumerate(asked["Records"]) if faults.refuses(at, each)}
                faults.refused += len(refused)
                status, answer = self._written(asked, refused)
                if faults.loses(number):
                    self.close_connection = True
                    return
            self._answer(status, answer)

        def _written(self, asked: dict[str, Any], refused: set[int]) -> tuple[int, bytes]:
            taken = [each for at, each in enumerate(asked["Records"]) if at not in refused]
            said: Sequence[Mapping[str, Any]] = ()
            if taken:
                status, answer = self._passed_on(json.dumps({**asked, "Records": taken}).encode())
                if status != 200:
                    return status, answer
                said = json.loads(answer)["Records"]
            accepted = iter(said)
            no = {"ErrorCode": _THROTTLED, "ErrorMessage": "Rate exceeded for shard."}
            records = [no if at in refused else next(accepted) for at in range(len(asked["Records"]))]
            return 200, json.dumps({"FailedRecordCount": len(refused), "Records": records}).encode()

        def _passed_on(self, body: bytes) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                headers = {name: value for name, value in self.headers.items() if name not in ("Host", "Expect")}
                connection.request("POST", "/", body, {**headers, "Content-Length": str(len(body))})
                answered = connection.getresponse()
                return answered.status, answered.read()
            finally:
                connection.close()

        def _answer(self, status: int, answer: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        proxy.daemon_threads = True
        faults.endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield faults
        finally:
            proxy.shutdown()
            thread.join()
