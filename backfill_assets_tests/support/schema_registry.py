"""Where do schemas for the tests come from? From a double of a registry over HTTP, or from a real one.

The double answers what a capture asks: a schema by its id, and a version of a subject. It registers nothing, checks no
compatibility and no schema, knows no modes, contexts or deleted subjects, and sends no header but that of its content.
The real one is Apicurio, which `tools/setup.sh registry` fetches through Maven, with its schemas in memory.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from backfill_assets.core.spark_server import free_port
from backfill_assets.examples.kafka_broker import cache

STARTS_WITHIN_S = 240


class NoRegistry(Exception):
    """There is no registry on this machine, or it cannot be started; the message says which."""


@dataclass(slots=True, kw_only=True)
class Double:
    """A running double."""

    url: str  #: Where it is.
    schemas: dict[int, Mapping[str, Any]] = field(default_factory=dict)  #: By id, what it answers.
    #: By subject and version, the same.
    subjects: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    wanted: str = ""  #: The `Authorization` that it wants; empty for none.
    status: int = 0  #: What it answers to everything; 0 for what it has.
    asked: list[str] = field(default_factory=list)  #: What it was asked for.

    def wants(self, user: str, password: str) -> None:
        self.wanted = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"

    def answer(self, path: str, authorization: str) -> tuple[int, Mapping[str, Any]]:
        self.asked.append(path)
        if self.status:
            return self.status, {}
        if self.wanted and authorization != self.wanted:
            return 401, {"error_code": 401}
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
            case ["subjects", subject, "versions", version]:
                found = self.subjects.get((subject, int(version)))
            case _:
                found = None
        return (404, {"error_code": 40403}) if found is None else (200, found)


@contextmanager
def running_double() -> Iterator[Double]:
    """A double while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, found = double.answer(self.path, self.headers.get("Authorization", ""))
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the server uses
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    double = Double(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(slots=True, kw_only=True)
class Registry:
    """A running Apicurio."""

    url: str  #: Where it is as Confluent's registry would be.
    process: subprocess.Popen[bytes]  #: What was started.

    def register(self, subject: str, kind: str, text: str, references: Any = ()) -> int:
        """Registers a schema and gives its id."""
        asked = {"schemaType": kind, "schema": text, "references": list(references)}
        answer = requests.post(f"{self.url}/subjects/{subject}/versions", json=asked, timeout=60)
        assert answer.ok, answer.text
        return int(answer.json()["id"])

    def stop(self) -> None:
        """Kills it, with everything that it knew."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running_registry() -> Iterator[Registry]:
    """A registry while the block lasts.

    Raises:
        NoRegistry: It is not there, or does not start.
    """
    jars = list((cache() / "registry").glob("apicurio-registry-app-*-runner.jar"))
    if not jars:
        raise NoRegistry("there is no registry: run tools/setup.sh registry")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="registry-") as folder:
        output = Path(folder, "output")
        java = ("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1")
        with output.open("wb") as written:
            process = subprocess.Popen(
                [*java, f"-Dquarkus.http.port={port}", "-jar", str(jars[0])],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
        registry = Registry(url=f"http://127.0.0.1:{port}/apis/ccompat/v7", process=process)
        try:
            _await(registry, output)
            yield registry
        finally:
            registry.stop()


def _await(registry: Registry, output: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        if registry.process.poll() is not None or time.monotonic() > until:
            raise NoRegistry(f"the registry did not start: {output.read_text(errors='replace')[-2000:]}")
        try:
            if requests.get(f"{registry.url}/subjects", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.5)
