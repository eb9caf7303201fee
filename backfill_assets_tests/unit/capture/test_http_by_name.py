"""Each paginator and each authenticator that dlt has by name is a declaration here, and a server answers it.

The names are those of the first column of the table in `docs/sources.md`: one that is added there needs a case here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from backfill_assets.capture.errors import StreamDenied
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.domain import (
    Basic,
    Cursor,
    HttpApi,
    InBody,
    InHeader,
    LinkHeader,
    NextUrl,
    Offset,
    PageNumber,
    Token,
)
from backfill_assets_tests.support.any_api import AnyApi, AnyCapture, Asked, Said

ALL = [{"id": number} for number in range(7)]
SIZE = 3
DOCUMENT = Path(__file__).parents[3] / "docs" / "sources.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paginator:
    """How an API answers of which a paginator reads all pages, and how it is declared."""

    answer: Callable[[Asked], Said]
    declared: Mapping[str, Any]
    requests: int = 3


def page(at: int, size: int = SIZE, **beside: Any) -> Said:
    return Said(document={"items": ALL[at : at + size], **beside})


def after(at: int) -> int | None:
    return at + SIZE if at + SIZE < len(ALL) else None


def number(asked: Asked, name: str, usual: int) -> int:
    return int(asked.parameters.get(name, usual))


def json_link(asked: Asked) -> Said:
    at = number(asked, "at", 0)
    return (
        page(at, links={"next": following and f"{asked.path}?at={following}"}) if (following := after(at)) else page(at)
    )


def header_link(asked: Asked) -> Said:
    at = number(asked, "at", 0)
    links = [
        f'<{asked.path}?at=0>; rel="first"',
        *(f'<{asked.path}?at={each}>; rel="next"' for each in [after(at)] if each),
    ]
    return Said(document={"items": ALL[at : at + SIZE]}, headers={"Link": ", ".join(links)})


def header_cursor(asked: Asked) -> Said:
    at = number(asked, "cursor", 0)
    following = after(at)
    return Said(document={"items": ALL[at : at + SIZE]}, headers={"Next-Cursor": str(following)} if following else {})


def cursor(asked: Asked) -> Said:
    at = number(asked, "cursor", 0)
    return page(at, cursors={"next": after(at)})


def cursor_in_body(asked: Asked) -> Said:
    at = int(asked.document["page"].get("after", 0))
    return page(at, cursors={"next": min(at + SIZE, len(ALL))}, has_more=after(at) is not None)


def cursor_without_end(asked: Asked) -> Said:
    at = number(asked, "cursor", 0)
    return page(at, cursors={"next": at + SIZE})


def offset(asked: Asked) -> Said:
    return page(number(asked, "offset", 0), number(asked, "limit", SIZE), total=len(ALL))


def offset_in_body(asked: Asked) -> Said:
    at, size = asked.document["offset"], asked.document["limit"]
    assert (type(at), type(size)) == (int, int)
    return page(at, size, has_more=at + size < len(ALL))


def page_number(asked: Asked) -> Said:
    return page(number(asked, "page", 0) * SIZE, pages=3)


def page_in_body(asked: Asked) -> Said:
    return page((asked.document["page"] - 1) * SIZE)


POST = {"method": "POST", "body": {}}
PAGINATORS: Mapping[str, tuple[Paginator, ...]] = {
    "single_page": (Paginator(answer=lambda _: page(0, 100), declared={}, requests=1),),
    "json_link": (Paginator(answer=json_link, declared={"pages": NextUrl(next="links.next")}),),
    "json_response": (Paginator(answer=json_link, declared={"pages": NextUrl(next="links.next")}),),
    "header_link": (Paginator(answer=header_link, declared={"pages": LinkHeader()}),),
    "header_cursor": (
        Paginator(answer=header_cursor, declared={"pages": Cursor(parameter="cursor", next=InHeader("next-cursor"))}),
    ),
    "cursor": (
        Paginator(answer=cursor, declared={"pages": Cursor(parameter="cursor", next="cursors.next")}),
        Paginator(
            answer=cursor_in_body,
            declared={
                "pages": Cursor(parameter=InBody("page.after"), next="cursors.next", more="has_more"),
                "method": "POST",
                "body": {"page": {}},
            },
        ),
        Paginator(
            answer=cursor_without_end,
            declared={"pages": Cursor(parameter="cursor", next="cursors.next", ends_empty=True)},
            requests=4,
        ),
    ),
    "offset": (
        Paginator(
            answer=offset, declared={"pages": Offset(parameter="offset", limit="limit", size=SIZE, total="total")}
        ),
        Paginator(answer=offset, declared={"pages": Offset(parameter="offset", limit="limit", size=SIZE)}, requests=4),
        Paginator(
            answer=offset_in_body,
            declared={
                "pages": Offset(parameter=InBody("offset"), limit=InBody("limit"), size=SIZE, more="has_more"),
                **POST,
            },
        ),
    ),
    "page_number": (
        Paginator(answer=page_number, declared={"pages": PageNumber(parameter="page", first=0, total="pages")}),
        Paginator(answer=page_number, declared={"pages": PageNumber(parameter="page", first=0)}, requests=4),
        Paginator(answer=page_in_body, declared={"pages": PageNumber(parameter=InBody("page")), **POST}, requests=4),
    ),
}
NOT_TAKEN = {"auto"}
"""What dlt guesses from the first answer, which is declared here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """What a server is asked with, and how that is declared."""

    is_sent: Callable[[Asked], bool]
    declared: Mapping[str, Any]
    secret: HttpSecrets
    token: Mapping[str, str] = field(default_factory=dict)


BEARER = "Bearer a-long-word-of-the-api"
CLIENT = {"client_id": "client-of-4711", "client_secret": "the-secret-word"}
AUTHENTICATORS: Mapping[str, tuple[Authenticator, ...]] = {
    "bearer": (
        Authenticator(
            is_sent=lambda asked: asked.headers.get("authorization") == BEARER,
            declared={"secret_headers": {"Authorization": "A"}},
            secret=HttpSecrets(headers={"Authorization": BEARER}),
        ),
    ),
    "api_key": (
        Authenticator(
            is_sent=lambda asked: asked.headers.get("x-api-key") == "the-key-of-the-api",
            declared={"secret_headers": {"X-Api-Key": "A"}},
            secret=HttpSecrets(headers={"X-Api-Key": "the-key-of-the-api"}),
        ),
        Authenticator(
            is_sent=lambda asked: asked.parameters.get("api_key") == "the-key-of-the-api",
            declared={"secret_parameters": {"api_key": "A"}},
            secret=HttpSecrets(parameters={"api_key": "the-key-of-the-api"}),
        ),
    ),
    "http_basic": (
        Authenticator(
            is_sent=lambda asked: (
                asked.headers.get("authorization") == f"Basic {base64.b64encode(b'reader:word-of-it').decode()}"
            ),
            declared={"basic": Basic(user="reader", secrets={"password": "A"})},
            secret=HttpSecrets(basic={"password": "word-of-it"}),
        ),
    ),
    "oauth2_client_credentials": (
        Authenticator(
            is_sent=lambda asked: asked.headers.get("authorization") == "Bearer a-token-of-an-hour",
            declared={"token": Token(url="", secrets={"client_id": "A", "client_secret": "B"})},
            secret=HttpSecrets(token=CLIENT),
            token={"grant_type": "client_credentials", **CLIENT},
        ),
    ),
}


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name, some in PAGINATORS.items() for place in range(len(some))]
)
def test_every_paginator_of_dlt_reads_all_pages_by_declaration(
    api: AnyApi, tmp_path: Path, name: str, place: int
) -> None:
    paginator = PAGINATORS[name][place]
    api.answer = paginator.answer
    capture = AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", records="items", **paginator.declared))
    capture.run()
    assert capture.records == ALL
    assert len(api.asked) == paginator.requests
    # The same capture, killed after each of its pages.
    killed = AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", records="items", **paginator.declared))
    for _ in range(paginator.requests + 1):
        killed.run(stops_after=1)
    assert [*{each["id"]: each for each in killed.records}.values()] == ALL


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name, some in AUTHENTICATORS.items() for place in range(len(some))]
)
def test_every_authenticator_of_dlt_is_accepted_by_declaration(
    api: AnyApi, tmp_path: Path, name: str, place: int
) -> None:
    authenticator = AUTHENTICATORS[name][place]

    def answer(asked: Asked) -> Said:
        if asked.path == "/token":
            is_known = dict(parse_qsl(asked.body.decode())) == authenticator.token
            return Said(
                document={"access_token": "a-token-of-an-hour", "expires_in": 3600}, status=200 if is_known else 401
            )
        return page(0, 100) if authenticator.is_sent(asked) else Said(status=401)

    api.answer = answer
    declared = dict(authenticator.declared)
    if "token" in declared:
        declared["token"] = Token(url=f"{api.url}/token", secrets=declared["token"].secrets)
    api_of = HttpApi(url=f"{api.url}/v1", records="items", **declared)
    capture = AnyCapture(tmp_path, api_of, authenticator.secret)
    assert capture.run() == len(ALL)
    with pytest.raises(StreamDenied):
        AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", records="items")).run()


def test_the_names_of_the_documentation_are_those_that_are_tried() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = [
        line.split("|")[1]
        for line in text.partition("Coming from dlt")[2].partition("\n### ")[0].splitlines()
        if line.startswith("| `")
    ]
    named = [re.findall(r"`([a-z][a-z0-9_]*)`", row) for row in rows]
    known = {name for some in named for name in some}
    not_of_pages = {"maximum_page", "maximum_offset", "response_actions", "ignore", "data_selector"}
    assert known - not_of_pages == {*PAGINATORS, *AUTHENTICATORS, *NOT_TAKEN}
