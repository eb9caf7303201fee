"""Frame of the desk's pages: navigation, style, forms, and the addresses of what ids name.

Every value is escaped, and no page refers to anything outside of the desk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import HTMLResponse

from backfill_assets.core.wording import visible
from backfill_assets.report.html import Html, browser_title, policy, whole
from backfill_assets.report.page import Page, Place, Ref
from backfill_assets.report.screens.desk import query

HEADERS = {
    # Links and forms of the desk itself are all that a page can follow: a value that was not escaped could do nothing.
    "Content-Security-Policy": f"{policy()}; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

OF_A_REPORT = {**HEADERS, "Content-Security-Policy": "frame-ancestors 'none'; form-action 'none'"}
"""For the report of a run: a page with a policy of its own, which allows exactly its own script and style."""

_NAVIGATION = {
    "/": "Overview",
    "/runs": "Runs",
    "/sets": "Sets",
    "/calendar": "Calendar",
    "/rows": "Where did this number come from?",
    "/publications": "Publications",
    "/audit": "Audit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Something to type or to choose in a form."""

    name: str
    label: str = ""  #: What it is called; an empty one hides the field, whose value is sent as it is.
    value: str = ""
    options: tuple[str, ...] = ()  #: What can be chosen; empty where anything can be typed.
    every: str = ""  #: What an empty choice is called; empty when something has to be chosen.
    required: bool = False  #: Whether something has to be typed.


def address_of(ref: Ref) -> str:
    """The address of what an id names."""
    match ref.place:
        case Place.RUN:
            return f"/runs/{quote(ref.id, safe='')}"
        case Place.SET:
            return f"/sets/{quote(ref.id, safe='')}"
        case Place.REPORT:
            return f"/reports/{quote(ref.id, safe='')}"
        case Place.TABLE:
            return query("/runs", table=ref.id)
        case Place.PARTITION:
            return query("/rows", table=ref.table, partition=ref.id)
        case Place.PUBLICATION:
            return query("/search", q=ref.id)
        case Place.OTHER:
            return ref.id


def row_address(
    table: str, partition: object, key: Mapping[str, str], *, page: str = "/rows", at: str | None = None
) -> str:
    """The address of a row's history, or of another page about it; as readers saw it at a time where one is given."""
    asked = {f"key.{name}": value for name, value in key.items()}
    return query(page, table=table, partition=partition, at=at or None, **asked)


def form(address: str, fields: Iterable[Field], button: str) -> Markup:
    """A form that asks the desk itself for a page."""
    shape = Markup('<form method="get" action="{}">{}<button>{}</button></form>')
    return shape.format(address, Markup("\n").join(map(_field, fields)), button)


def _field(field: Field) -> Markup:
    name, value = field.name, visible(field.value)
    if not field.label:
        return Markup('<input type="hidden" name="{}" value="{}">').format(name, field.value)
    if not field.options:
        required = Markup(" required") if field.required else ""
        shape = Markup('<label>{} <input name="{}" value="{}"{} autocomplete="off"></label>')
        return shape.format(field.label, name, value, required)
    given = [("", field.every)] if field.every else []
    options = Markup().join(
        Markup('<option value="{}"{}>{}</option>').format(
            each, Markup(" selected") if each == field.value else "", visible(shown)
        )
        for each, shown in (*given, *zip(field.options, field.options, strict=True))
    )
    return Markup('<label>{} <select name="{}">{}</select></label>').format(field.label, name, options)


def shown(
    page: Page, *, here: str = "", asked: Markup | str = "", status: int = 200, again_after_s: int | None = None
) -> HTMLResponse:
    """A page.

    Args:
        again_after_s: After how many seconds a browser asks for it again; None for never.
    """
    html = Html(linked=address_of)
    again = Markup('<meta http-equiv="refresh" content="{}">\n').format(again_after_s) if again_after_s else Markup()
    links = (
        Markup('<a href="{}"{}>{}</a>').format(to, Markup(' aria-current="page"') if to == here else "", name)
        for to, name in _NAVIGATION.items()
    )
    shape = Markup(
        '<a class="skip" href="#content">Skip to the content</a>\n<header><nav aria-label="Pages">{links}</nav>\n'
        '<form method="get" action="/search" role="search"><input name="q" type="search" aria-label="Search" required '
        'placeholder="a run, a set, a publication, a table, a person, a reason" autocomplete="off">'
        "<button>Search</button></form></header>\n"
        '<main id="content" tabindex="-1">\n{heading}\n{asked}\n{body}\n</main>'
    )
    body = shape.format(
        links=Markup("\n").join(links), heading=html.heading(page), asked=asked, body=html.blocks(page.blocks)
    )
    text = whole(f"{browser_title(page)} \u00b7 backfill", body, head=again)
    return HTMLResponse(text, status_code=status, headers=HEADERS)
