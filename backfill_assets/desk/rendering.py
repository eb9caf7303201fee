"""Rendering: documents to HTML. Every value is escaped, and no page refers to anything outside of the desk."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from backfill_assets.core.wording import visible
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.stuck import stuck_sentence

HEADERS = {
    # Links and forms of the desk itself are all that a page can follow: a value that was not escaped could do nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

OF_A_REPORT = {**HEADERS, "Content-Security-Policy": "frame-ancestors 'none'; form-action 'none'"}
"""For the report of a run: a page with a policy of its own, which allows exactly its own script and style."""


@cache
def environment() -> Environment:
    """The templates of the desk."""
    made = Environment(
        loader=PackageLoader("backfill_assets.desk"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        instant=_instant,
        plain_instant=_plain_instant,
        words=words_of,
        following=next_step_of,
        given_up=stuck_sentence,
        number=_number,
        short=_short,
        part=lambda v: quote(v, safe=""),
    )
    made.globals["query"] = query
    return made


def page(template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
    """A page."""
    text = environment().get_template(template).render(**values)
    return HTMLResponse(text, status_code=status_code, headers=HEADERS)


def query(path: str, **values: object) -> str:
    """An address with these parameters; those without a value are left out."""
    given = {name: str(value) for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def row_address(table: str, partition: object, key: Mapping[str, str]) -> str:
    """The address of a row's history."""
    named = {f"key.{name}": value for name, value in key.items()}
    return f"/rows?{urlencode({'table': table, 'partition': str(partition), **named})}"


def _finalize(value: Any) -> Any:
    """A value as a page shows it: characters that change the direction of writing are shown, and not obeyed."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(str(value), keep_line_breaks=True)
    return value


def _instant(value: datetime | None) -> str:
    """An instant that is not broken into two lines."""
    return "" if value is None else Markup('<span class="instant">{}</span>').format(_plain_instant(value))


def _plain_instant(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _short(value: str, length: int = 12) -> str:
    return value if len(value) <= length else value[:length] + "\u2026"
