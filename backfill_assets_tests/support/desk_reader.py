"""A reader of the desk's pages: asks the application itself, without a server."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette

PATIENCE_S = 60.0
"""How long a test lets a page wait for what is found out in the background."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a page answers."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def links(self) -> tuple[str, ...]:
        """The addresses that it names."""
        return tuple(html.unescape(found) for found in re.findall(r'(?:href|src|action)="([^"]*)"', self.text))

    @property
    def words(self) -> str:
        """Its text without tags, spaces as single ones."""
        body = self.text.partition("<main ")[2].partition(">")[2].partition("</main>")[0]
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", with_dates(body)))).strip()


def with_dates(page: str) -> str:
    """A page whose dates, and words of commands, are not marked as words that are never broken."""
    return re.sub(r'<span class="(?:whole|word)">([^<]*)</span>', r"\1", page)


def get(app: Starlette, address: str, *, method: str = "GET", host: str = "127.0.0.1:8000") -> Answer:
    """What the application answers to one request."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", host.encode())],
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50_000),
        "http_version": "1.1",
        "root_path": "",
    }
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    (start,) = (message for message in sent if message["type"] == "http.response.start")
    body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(status=start["status"], headers=headers, text=body.decode())
