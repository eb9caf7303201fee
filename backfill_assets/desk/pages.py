"""Pages: what each address asks of the application, and shows. Every one only reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from threading import Lock
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from backfill_assets.application import look
from backfill_assets.application.metrics_text import CONTENT_TYPE, metrics_text
from backfill_assets.application.subjects import subject_of
from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.desk.drawings import Colouring, drawn_calendar, drawn_timeline, legend
from backfill_assets.desk.rendering import OF_A_REPORT, page, row_address
from backfill_assets.desk.staleness import StalenessInBackground
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.partitions import days_named
from backfill_assets.planning.sets import is_set
from backfill_assets.report.event_counts import EventCounts
from backfill_assets.report.row_history import key_columns
from backfill_assets.report.run_list import RunChoice, SetChoice
from backfill_assets.workspace import Workspace

S = TypeVar("S", bound=StrEnum)

_KEY = "key."
"""The prefix of the parameters that are columns of a key."""

_LATEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of the desk.

    Attributes:
        ws: What they look at.
        staleness: What is stale of it.
        counts: What its events add up to, as far as they have been counted.
    """

    ws: Workspace
    staleness: StalenessInBackground
    counts: EventCounts = field(default_factory=EventCounts)
    _counting: Lock = field(default_factory=Lock)

    def routes(self) -> Mapping[str, Callable[[Request], Response]]:
        """The pages by address."""
        return {
            "/": self.overview,
            "/runs": self.runs,
            "/runs/{name}": self.subject,
            "/reports/{name}": self.report,
            "/sets": self.sets,
            "/sets/{name}": self.subject,
            "/calendar": self.calendar,
            "/rows": self.rows,
            "/publications": self.publications,
            "/audit": self.audit,
            "/metrics": self.metrics,
        }

    def overview(self, _request: Request) -> Response:
        """What every table holds, what waits, and the newest runs."""
        audit, is_contained = look.last_audit(self.ws)
        return page(
            "overview.html",
            status=look.status(self.ws, None),
            audit=audit,
            is_contained=is_contained,
            latest=_LATEST,
            now=self.ws.clock(),
        )

    def runs(self, request: Request) -> Response:
        """Runs by table, state and person."""
        given = request.query_params
        choice = RunChoice(
            table=given.get("table") or None,
            state=_one_of(RunState, given.get("state")),
            person=(given.get("person") or "").strip() or None,
            before=_number(given.get("before")),
        )
        return page("runs.html", found=look.runs(self.ws, choice), choice=choice, states=list(RunState))

    def sets(self, request: Request) -> Response:
        """Sets by table, state and person."""
        given = request.query_params
        choice = SetChoice(
            table=given.get("table") or None,
            state=_one_of(SetState, given.get("state")),
            person=(given.get("person") or "").strip() or None,
            offset=_number(given.get("offset")) or 0,
        )
        tables = tuple(self.ws.domain.tables)
        return page("sets.html", found=look.sets(self.ws, choice), choice=choice, tables=tables, states=list(SetState))

    def subject(self, request: Request) -> Response:
        """A run or a set: its report, and what happened to it."""
        name = request.path_params["name"]
        subject = subject_of(self.ws, name)
        happened = look.events(self.ws, name)
        if is_set(name):
            return page("set.html", set=subject.document(), events=happened)
        return page("run.html", report=subject.report(), events=happened)

    def report(self, request: Request) -> Response:
        """The report of a run or a set as its reviewer reads it, which brings a content security policy of its own."""
        from backfill_assets.application.report import report_html

        return HTMLResponse(report_html(self.ws, request.path_params["name"]), headers=OF_A_REPORT)

    def calendar(self, request: Request) -> Response:
        """A year of every table."""
        given = request.query_params
        colouring = _one_of(Colouring, given.get("by")) or Colouring.STATE
        known = self.staleness.latest()
        found = look.calendar(self.ws, _year(given.get("year")), known.tables)
        drawn = [drawn_calendar(table, found.tables, found.year, found.as_of, colouring) for table in found.tables]
        return page(
            "calendar.html",
            calendar=found,
            drawn=drawn,
            legend=legend(found.tables, colouring),
            known=known,
            by=colouring,
            colourings=list(Colouring),
        )

    def rows(self, request: Request) -> Response:
        """Where a number came from: a row in every version of its partition."""
        given = request.query_params
        table, asked = given.get("table", "").strip(), given.get("partition", "").strip()
        tables = tuple(self.ws.domain.tables)
        if not table or not asked:
            return page("ask.html", tables=tables, table=table)
        partition = _day(asked)
        key = {name.removeprefix(_KEY): value for name, value in given.items() if name.startswith(_KEY)}
        if set(key_columns(self.ws, table)) - {name for name, value in key.items() if value}:
            return page(
                "keys.html", table=table, found=look.keys(self.ws, table, partition), address=row_address, key=key
            )
        return page("row.html", row=look.row(self.ws, table, partition, key))

    def publications(self, request: Request) -> Response:
        """Publications and rollbacks as a timeline."""
        given = request.query_params
        table, before = given.get("table") or None, _number(given.get("before"))
        found = look.timeline(self.ws, table, before)
        return page("publications.html", found=found, drawn=drawn_timeline(found.publications), table=table)

    def audit(self, _request: Request) -> Response:
        """The verdict of the last audit."""
        found, is_contained = look.last_audit(self.ws)
        return page("audit.html", audit=found, is_contained=is_contained, now=self.ws.clock())

    def prepare(self) -> None:
        """Finds out what is stale, and counts the events so far."""
        with suppress(BackfillError):  # The pages say it when they are asked.
            self.staleness.begin()
            with self._counting:
                look.metrics(self.ws, self.counts, None)

    def metrics(self, _request: Request) -> Response:
        """What is watched, for Prometheus; what is stale once it is known."""
        known = self.staleness.latest()
        with self._counting:
            found = look.metrics(self.ws, self.counts, known.tables if known.is_current else None)
        return Response(metrics_text(found), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


def _one_of(values: type[S], text: str | None) -> S | None:
    if not text:
        return None
    if text not in {str(value) for value in values}:
        raise InvalidRange(
            f"{text[:100]!r} is none of {', '.join(values)}.", next_step="choose one of these, or leave it out"
        )
    return values(text)


def _number(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidRange(f"{text[:100]!r} is no number of a page.", next_step="follow the links of the list")
    return int(text)


def _year(text: str | None) -> int | None:
    return _day(text).year if text else None


def _day(text: str) -> date:
    return days_named(text).start
