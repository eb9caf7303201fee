"""Pages: what each address asks of the application, and shows. Every one only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from threading import Lock
from typing import TypeVar

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from backfill_assets.application import look
from backfill_assets.application.metrics import CONTENT_TYPE, metrics_text
from backfill_assets.application.report import report_html, report_page
from backfill_assets.core.errors import BackfillError
from backfill_assets.desk.frame import OF_A_REPORT, Field, address_of, form, row_address, shown
from backfill_assets.desk.staleness import StalenessInBackground
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.partitions import days_named, moment_named
from backfill_assets.report.calendar import calendar
from backfill_assets.report.errors import Malformed, NotOneOf
from backfill_assets.report.event_counts import EventCounts
from backfill_assets.report.page import Note, Place, Ref, page
from backfill_assets.report.row_history import key_columns, keys_of, row_history
from backfill_assets.report.run_list import find, run_list, set_list
from backfill_assets.report.screens import desk as screens
from backfill_assets.report.screens.calendar import Colouring, calendar_page
from backfill_assets.report.screens.desk import changes_address, query
from backfill_assets.report.screens.history import ask_page, keys_page, row_page
from backfill_assets.report.screens.publications import timeline_page
from backfill_assets.report.screens.trace import trace_page
from backfill_assets.report.status import StatusDocument
from backfill_assets.workspace import Workspace

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
        return shown(screens.overview_page(status, look.last_audit(self.ws), self.ws.clock()), here="/")

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
            screens.runs_page(found, newest, older),
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
        return shown(screens.sets_page(found, newest, older), here="/sets", asked=asked)

    def subject(self, request: Request) -> Response:
        """A run or a set: its report, and what happened to it."""
        name = request.path_params["name"]
        found = report_page(self.ws, name)
        events = screens.happened(name, look.events(self.ws, name))
        return shown(page(found.title, *found.blocks, *events, below=found.below))

    def report(self, request: Request) -> Response:
        """The report of a run or a set as its reviewer reads it, which brings a content security policy of its own."""
        return HTMLResponse(report_html(self.ws, request.path_params["name"]), headers=OF_A_REPORT)

    def changes(self, request: Request) -> Response:
        """A page of the rows that a run or a set changes, by table, kind and column."""
        # Imported when rows are compared: the other pages read the ledger.
        from backfill_assets.application.diff import changed_page
        from backfill_assets.report.changed_rows import AskedPage
        from backfill_assets.report.screens.changed_rows import changes_page

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
            if text in (row["run_id"], row["set_id"]):
                place = Place.RUN if text == row["run_id"] else Place.SET
                return RedirectResponse(address_of(Ref(place=place, id=text)), status_code=303)
        return shown(screens.found_page(found))

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
        return shown(screens.audit_page(look.last_audit(self.ws), self.ws.clock()), here="/audit")

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
