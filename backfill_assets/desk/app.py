"""The application that a server serves: addresses, refusals as pages, and nothing that could change anything."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backfill_assets.core.errors import BackfillError, InvalidRange, MissingInput, Refused, UnknownName
from backfill_assets.desk.pages import Pages, StalenessInBackground, shown
from backfill_assets.report.errors import Malformed, NotGiven, NotOneOf
from backfill_assets.report.run_list import refused_page
from backfill_assets.workspace import Workspace

PATIENCE_S = 0.15
"""How long a page waits for what is found out in the background."""

HOSTS = ["127.0.0.1", "localhost"]
"""A page of another site that has its name point to this machine is not answered."""


def create_app(ws: Workspace, *, patience_s: float = PATIENCE_S) -> Starlette:
    """The desk over a workspace, whose ledger is opened at once."""
    _ = ws.ledger  # Opened here, and not by several pages at once.
    staleness = StalenessInBackground(ws, patience_s)
    pages = Pages(ws=ws, staleness=staleness)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        # What takes longer than a page may is begun before a page asks for it.
        threading.Thread(target=pages.prepare, daemon=True, name="prepare").start()
        yield
        staleness.close()

    return Starlette(
        routes=[Route(path, _only_reading(shown), methods=["GET"]) for path, shown in pages.routes().items()],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
        exception_handlers={BackfillError: _refused, HTTPException: _not_a_page, Exception: _unexpected},
        lifespan=lifespan,
    )


def _only_reading(shown: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """A page as a function of its own: Starlette takes a bound method of a slotted class for something else."""

    def answered(request: Request) -> Response:
        for asked in (*request.path_params.values(), *request.query_params.values()):
            if "\0" in asked:  # PostgreSQL fails on it
                raise Malformed(what="what is asked for", value=asked[:100], form="a text", example="ana")
        return shown(request)

    return answered


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BackfillError)
    match error:
        case UnknownName() | MissingInput():
            status = 404
        case InvalidRange() | Malformed() | NotOneOf() | NotGiven():
            status = 400
        case Refused():
            status = 409
        case _:
            status = 503
    return shown(refused_page(error.message, error.next_step), status=status)


def _not_a_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {
        404: f"There is no page {request.url.path}.",
        405: "The desk only shows: it answers GET, and changes nothing.",
    }
    return shown(refused_page(sentences.get(error.status_code, error.detail), None), status=error.status_code)


def _unexpected(_request: Request, error: Exception) -> Response:
    message = f"This page could not be made: {type(error).__name__}. The terminal of the desk has the details."
    return shown(refused_page(message, None), status=500)
