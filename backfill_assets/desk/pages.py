"""Pages: what each address asks of the application, and shows. Every one only reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from backfill_assets.application import look
from backfill_assets.application.metrics import CONTENT_TYPE, metrics_text
from backfill_assets.application.report import report_html, report_page
from backfill_assets.calendar.partitions import days_named, moment_named
from backfill_assets.core.errors import BackfillError, Retryable
from backfill_assets.core.wording import visible
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.report.calendar import Colouring, calendar, calendar_page
from backfill_assets.report.errors import Malformed, NotOneOf
from backfill_assets.report.event_counts import EventCounts
from backfill_assets.report.history import ask_page, key_columns, keys_of, keys_page, row_history, row_page
from backfill_assets.report.html import Html, browser_title, policy, whole
from backfill_assets.report.page import Note, Page, Place, Ref, page
from backfill_assets.report.publications import timeline_page
from backfill_assets.report.run_list import (
    audit_page,
    changes_address,
    find,
    found_page,
    happened,
    overview_page,
    query,
    run_list,
    runs_page,
    set_list,
    sets_page,
)
from backfill_assets.report.status import StatusDocument
from backfill_assets.report.trace import trace_page
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.staleness.decide import Staleness


# Staleness for pages: found out in the background, because of a long history it takes longer than a page may.

_Basis = tuple[str, date, tuple[str, ...]]
"""What staleness depends on, besides the code of this process: the ledger, the day, and the reference files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStaleness:
    """The staleness that is known."""

    tables: tuple[Staleness, ...] = ()  #: Table by table; empty while nothing is known.
    as_of: datetime | None = None  #: When it was found out; None while nothing is known.
    is_current: bool = False  #: True if nothing that it depends on has changed since.
    problem: str | None = None  #: Why it could not be found out; None when it could.


@dataclass(slots=True)
class StalenessInBackground:
    """The last known staleness, found out again when something has changed."""

    ws: Workspace
    patience_s: float  #: How long a page waits for it.
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="staleness"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: tuple[_Basis | None, KnownStaleness] = (None, KnownStaleness())
    _asked: tuple[_Basis | None, Future[None] | None] = (None, None)

    def begin(self) -> None:
        """Has it found out before a page asks for it."""
        self._ask(self._basis())

    def _ask(self, basis: _Basis) -> Future[None] | None:
        with self._lock:
            if self._known[0] != basis and self._asked[0] != basis:
                self._asked = (basis, self._worker.submit(self._find, basis))
            return self._asked[1]

    def latest(self) -> KnownStaleness:
        basis = self._basis()
        being_found = self._ask(basis)
        if self._known[0] != basis and being_found is not None:
            wait([being_found], timeout=self.patience_s)
        found_for, found = self._known
        return replace(found, is_current=found_for == basis)

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _find(self, basis: _Basis) -> None:
        as_of = self.ws.clock()
        try:
            tables = look.staleness(self.ws.with_present_references())
            self._known = (basis, KnownStaleness(tables=tables, as_of=as_of))
        except BackfillError as error:  # such as a reference that is not there: the calendar shows the rest
            passes = issubclass(error.category, Retryable)
            self._known = (None if passes else basis, KnownStaleness(as_of=as_of, problem=error.message))
        finally:
            with self._lock:
                if self._asked[0] == basis:
                    self._asked = (None, None)  # what could not be found out is asked again by the next page

    def _basis(self) -> _Basis:
        with self.ws.ledger.read() as tx:
            head = tx.events.head()
        stamps = tuple(map(self.ws.stamp_of, self.ws.domain.references))
        return head, self.ws.clock().date(), stamps


# Frame of the desk's pages: navigation, style, forms, and the addresses of what ids name.
#
# Every value is escaped, and no page refers to anything outside of the desk.

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
    required: bool = False  #: True if something has to be typed.


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


S = TypeVar("S", bound=StrEnum)

_KEY = "key."
"""The prefix of the parameters that are columns of a key."""

AGAIN_AFTER_S = 3
"""When a browser asks for a calendar again that does not yet know what is stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of the desk."""

    ws: Workspace
    staleness: StalenessInBackground
    counts: EventCounts = field(default_factory=EventCounts)
    _counting: Lock = field(default_factory=Lock)

    def routes(self) -> Mapping[str, Callable[[Request], Response]]:
        return {
            "/": self.overview,
            "/runs": self.runs,
            "/runs/{name}": self.subject,
            "/reports/{name}": self.report,
            "/changes/{name}": self.changes,
            "/sets": self.sets,
            "/sets/{name}": self.subject,
            "/calendar": self.calendar,
            "/rows": self.rows,
            "/trace": self.trace,
            "/search": self.search,
            "/publications": self.publications,
            "/audit": self.audit,
            "/metrics": self.metrics,
        }

    def overview(self, _request: Request) -> Response:
        """The overview: the content of every table, what waits, and the newest runs."""
        status = look.status(self.ws, None)
        assert isinstance(status, StatusDocument)
        return shown(overview_page(status, look.last_audit(self.ws), self.ws.clock()), here="/")

    def runs(self, request: Request) -> Response:
        given = request.query_params
        state, before = _one_of(RunState, given.get("state")), _number(given.get("before"))
        table, person = given.get("table") or None, (given.get("person") or "").strip() or None
        found = run_list(self.ws, table=table, state=state, person=person, before=before)
        _require_known(table, found.tables)
        chosen = {"table": table, "state": state, "person": person}
        newest = query("/runs", **chosen) if before else None
        older = query("/runs", **chosen, before=found.older) if found.older else None
        return shown(
            runs_page(found, newest, older),
            here="/runs",
            asked=_filter("/runs", chosen, found.tables, RunState),
        )

    def sets(self, request: Request) -> Response:
        given = request.query_params
        state, offset = _one_of(SetState, given.get("state")), _number(given.get("offset")) or 0
        table, person = given.get("table") or None, (given.get("person") or "").strip() or None
        found = set_list(self.ws, table=table, state=state, person=person, offset=offset)
        if not found.sets:
            _require_known(table, self.ws.domain.tables)
        chosen = {"table": table, "state": state, "person": person}
        newest = query("/sets", **chosen) if offset else None
        older = query("/sets", **chosen, offset=found.older) if found.older else None
        asked = _filter("/sets", chosen, tuple(self.ws.domain.tables), SetState)
        return shown(sets_page(found, newest, older), here="/sets", asked=asked)

    def subject(self, request: Request) -> Response:
        """A run or a set: its report, and what happened to it."""
        name = request.path_params["name"]
        found = report_page(self.ws, name)
        events = happened(name, look.events(self.ws, name))
        return shown(page(found.title, *found.blocks, *events, below=found.below))

    def report(self, request: Request) -> Response:
        """The report of a run or a set as its reviewer reads it, which brings a content security policy of its own."""
        return HTMLResponse(report_html(self.ws, request.path_params["name"]), headers=OF_A_REPORT)

    def changes(self, request: Request) -> Response:
        """A page of the rows that a run or a set changes, by table, kind and column."""
        # Imported when rows are compared: the other pages read the ledger.
        from backfill_assets.application.diff import changed_page
        from backfill_assets.report.changed_rows import AskedPage, changes_page

        given, name = request.query_params, request.path_params["name"]
        asked = AskedPage(
            table=given.get("table", ""),
            kind=given.get("kind", ""),
            column=given.get("column", ""),
            begin=_day(begin) if (begin := given.get("begin")) else None,
            skip=_number(given.get("skip")) or 0,
        )
        found = changed_page(self.ws, name, asked)
        fields = (
            Field(name="table", label="Table", value=found.asked.table, options=found.tables),
            Field(name="kind", label="Kind", value=asked.kind, options=found.kinds, every="every kind"),
            Field(name="column", label="Column", value=asked.column, options=found.columns, every="every column"),
        )
        asked_for = form(changes_address(name), fields, "Show")
        return shown(changes_page(found), here="/runs", asked=asked_for)

    def calendar(self, request: Request) -> Response:
        given = request.query_params
        colouring = _one_of(Colouring, given.get("by")) or Colouring.STATE
        known = self.staleness.latest()
        found = calendar(self.ws, _day(year).year if (year := given.get("year")) else None, known.tables)
        drawn = calendar_page(
            found,
            colouring,
            address_of,
            stale_as_of=known.as_of,
            is_current=known.is_current,
            problem=known.problem,
        )
        return shown(drawn, here="/calendar", again_after_s=None if known.is_current else AGAIN_AFTER_S)

    def rows(self, request: Request) -> Response:
        """Where a number came from: a row in every version of its partition."""
        given = request.query_params
        table, asked = given.get("table", "").strip(), given.get("partition", "").strip()
        if not table or not asked:
            named = Field(name="table", label="Table", value=table, options=tuple(self.ws.domain.tables))
            day = Field(name="partition", label="Partition, such as 2025-03-10", required=True)
            return shown(ask_page(), here="/rows", asked=form("/rows", (named, day, _seen_at(given)), "Show its keys"))
        partition, key, at = _day(asked), _key(request), given.get("at", "").strip()
        look.seen_at(self.ws, moment_named(at) if at else None)
        if not set(key_columns(self.ws, table)) - {name for name, value in key.items() if value}:
            if at:
                return self.trace(request)
            traced = row_address(table, partition, key, page="/trace")
            return shown(row_page(row_history(self.ws, table, partition, key), traced), here="/rows")
        found = keys_of(self.ws, table, partition)
        name, partition = found.history.table, found.history.partition
        fields = (
            Field(name="table", value=name),
            Field(name="partition", value=str(partition)),
            _seen_at(given),
            *(
                Field(name=f"{_KEY}{column}", label=column, value=key.get(column, ""), required=True)
                for column in found.key_columns
            ),
        )
        listed = keys_page(found, lambda key: row_address(name, partition, key, at=at))
        return shown(listed, here="/rows", asked=form("/rows", fields, "Show this row in every version"))

    def trace(self, request: Request) -> Response:
        """A number with its publications, the rows of its inputs, and landed records, now or as it was at a time."""
        given = request.query_params
        if not (given.get("table") and given.get("partition")):
            return self.rows(request)
        table, partition, key = given["table"], _day(given["partition"]), _key(request)
        at, most = given.get("at", "").strip(), _number(given.get("rows"))
        found = look.trace(self.ws, table, partition, key, moment_named(at) if at else None, most=most)
        fields = (
            Field(name="table", value=table),
            Field(name="partition", value=str(partition)),
            *(Field(name=f"{_KEY}{name}", value=value) for name, value in key.items()),
            _seen_at(given),
            Field(name="rows", label=f"Rows of each table (1 to {look.MOST_FOLLOWED})", value=given.get("rows", "")),
        )
        return shown(
            trace_page(found, more="Ask for more rows above.", every=""),
            here="/rows",
            asked=form("/trace", fields, "Show it"),
        )

    def search(self, request: Request) -> Response:
        """Searches for a text; returns the run, the set or the table alone where the text is its name."""
        text = request.query_params.get("q", "").strip()
        if not text:
            return shown(page("Search", Note(text="Type an id, a name, or a part of a reason above.")))
        found = find(self.ws, text)
        for row in found.runs:
            if text in (row["run_id"], row["request_id"]):
                place = Place.RUN if text == row["run_id"] else Place.SET
                return RedirectResponse(address_of(Ref(place=place, id=text)), status_code=303)
        return shown(found_page(found))

    def publications(self, request: Request) -> Response:
        given = request.query_params
        table, before = given.get("table") or None, _number(given.get("before"))
        found = look.publications(self.ws, table, before)
        if not found:
            _require_known(table, self.ws.domain.tables)
        listed = found[: look.MOST_PUBLICATIONS]
        has_older = len(found) > len(listed)
        older = query("/publications", table=table, before=listed[-1].header.sequence) if has_older else None
        asked = form("/publications", [_table(table, tuple(self.ws.domain.tables))], "Show")
        return shown(timeline_page(listed, address_of, older), here="/publications", asked=asked)

    def audit(self, _request: Request) -> Response:
        return shown(audit_page(look.last_audit(self.ws), self.ws.clock()), here="/audit")

    def prepare(self) -> None:
        """Finds out what is stale, and counts the events so far."""
        with suppress(BackfillError):  # The pages say it when they are asked.
            self.staleness.begin()
            with self._counting:
                look.metrics(self.ws, self.counts, None)

    def metrics(self, _request: Request) -> Response:
        """The watched metrics, for Prometheus; with staleness once it is known."""
        known = self.staleness.latest()
        with self._counting:
            found = look.metrics(self.ws, self.counts, known.tables if known.is_current else None)
        return Response(metrics_text(found), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


def _seen_at(given: Mapping[str, str]) -> Field:
    """The field with the time at which readers saw what is shown."""
    label = "As readers saw it at (UTC), such as 2025-03-10T08:00, or 2025-03-10 for the end of a day"
    return Field(name="at", label=label, value=given.get("at", "").strip())


def _key(request: Request) -> Mapping[str, str]:
    """The columns of a key and their values."""
    return {name.removeprefix(_KEY): value for name, value in request.query_params.items() if name.startswith(_KEY)}


def _filter(
    address: str, chosen: Mapping[str, str | None], tables: tuple[str, ...], states: Iterable[StrEnum]
) -> Markup:
    """The form of a list of runs or sets."""
    fields = (
        _table(chosen["table"], tables),
        Field(
            name="state",
            label="State",
            value=chosen["state"] or "",
            options=tuple(map(str, states)),
            every="every state",
        ),
        Field(name="person", label="Person who acted on it", value=chosen["person"] or ""),
    )
    return form(address, fields, "Show")


def _table(chosen: str | None, tables: tuple[str, ...]) -> Field:
    return Field(name="table", label="Table", value=chosen or "", options=tables, every="every table")


def _require_known(table: str | None, tables: Iterable[str]) -> None:
    """Refuses the name of no table. One that is no longer declared may still have runs, sets and publications."""
    known = tuple(tables)
    if table and table not in known:
        raise NotOneOf(what="the table", value=table[:100], known=known)


def _one_of(values: type[S], text: str | None) -> S | None:
    if not text:
        return None
    if text not in {str(value) for value in values}:
        raise NotOneOf(what="what is chosen", value=text[:100], known=values)
    return values(text)


def _number(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Malformed(what="the page", value=text[:100], form="a number", example="1")
    return int(text)


def _day(text: str) -> date:
    return days_named(text).start
