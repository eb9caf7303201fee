"""HTTP capture: answers of an API as files of JSON lines, each page with the answer that it was taken from.

The only module that asks an API. A position is an instant of the windows (`2026-01-31T00:00:00Z`), a page within one
(`2026-01-31T00:00:00Z..2026-02-01T00:00:00Z cursor abc`), or of an API without windows a page alone. Where the next
page is only its answer tells, so that a piece is read page by page, each of them durable before the next is asked for.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.errors import BadAnswer, NothingCaptured, NotOffered
from backfill_assets.capture.http import FAMILY
from backfill_assets.capture.http.client import Answer, ApiClient, HttpSecrets, Request
from backfill_assets.capture.http.declaration import (
    HttpApi,
    IdRange,
    InBody,
    InHeader,
    LinkHeader,
    NextUrl,
    Place,
    TimeWindow,
)
from backfill_assets.capture.http.paging import (
    Page,
    PageRequest,
    asked_with,
    digest_of,
    ids_of,
    is_behind_the_last,
    next_of,
    page_of,
    step_of,
)
from backfill_assets.capture.json_members import json_of, member_at
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.streams import (
    SCAN,
    Captured,
    CapturePeriod,
    Pace,
    Resolution,
    Resolved,
    Span,
    Written,
    followed,
    new_scan,
)
from backfill_assets.core.errors import Refused, Retryable
from backfill_assets.core.identity import canonical_json
from backfill_assets.core.wording import visible
from backfill_assets.domain import SourceTable

_LEVEL = 6
_START, _END = "start", "end"
_SINCE_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_SECONDS = timedelta(seconds=1)
_ONE_DAY = timedelta(days=1)
_USUAL_ERRORS = ("error", "errors")
"""The members of an answer that say that it failed, unless its API declares others."""
_USUAL_EMPTY = (204, 404, 416)
"""Statuses with which many APIs say that there are no records."""
_QUOTED = 80
"""How many characters of an error of an API are quoted."""
_MOST_EMPTY = 1_000
"""How many pages without records may follow each other."""
_KEPT_HEADERS = ("content-type", "etag", "last-modified")


class HttpStream:
    """An API that was opened; nothing is asked before a page is read.

    Args:
        declared: The API as its source declares it.
        event_time: The member of a record that is its time.
        as_of: The present; nothing later is asked for.
        days: What the days are that an API of days is asked for.
    """

    kind = FileKind(format=Format.JSONL, compression="gzip")

    def __init__(
        self, declared: HttpApi, *, secret: HttpSecrets, event_time: str, as_of: datetime, days: LocalDays
    ) -> None:
        self._declared = declared
        self._days = days
        self._event_time = event_time
        self._as_of = as_of
        self._asking = ApiClient(declared, secret, name=self.name)
        self._seen: set[tuple[str, str]] = set()
        self._before: tuple[object, ...] = ()
        self._pairs: set[tuple[tuple[object, ...], tuple[object, ...]]] = set()
        self._empty = 0

    @property
    def name(self) -> str:
        return f"the API {self._declared.url}"

    def close(self) -> None:
        self._asking.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(self, period: CapturePeriod, captured: Sequence[Captured]) -> Resolution:
        window = self._declared.window
        if window is None and not period.is_whole and (period.start or period.end):
            raise NotOffered(
                name=self.name, why="cannot be asked for a period: a capture reads everything that it has now"
            )
        if window is not None and period.is_whole and window.of != self._event_time:
            raise Refused.coded(
                "asked_by_another_time",
                "{name} is asked for records by {found}, and days are of {expected}: records that it lacks may only "
                "have moved.",
                then="declare a window of the event time, or land a complete extract from another place",
                name=self.name,
                expected=self._event_time,
                found=window.of,
            )
        start, end = (_START, _END) if window is None else self._in_windows(period, captured)
        partition = new_scan(captured) if period.is_whole else "0"
        return Resolution(
            family=FAMILY.name,
            name=self._declared.url,
            stream=f"{self._declared.url}#{self._identity}",
            pinned={name: _text(value) for name, value in self._declared.identity.items() if name != "url"},
            is_compacted=False,
            spans=(Resolved(partition=partition, range_from=start, range_to=end, held_from="", held_to=""),),
            is_whole=period.is_whole,
        )

    def settled(self, period: CapturePeriod) -> CapturePeriod:
        window = self._declared.window
        if window is None or window.of != self._event_time:
            return period
        until = self._begins(self._as_of - window.settles_after, _ONE_DAY)
        if period.start is not None and period.start >= until:
            first = self._days.of(period.start)
            ends = self._days.instants(DayRange.inclusive(first, first))[1]
            raise Retryable.coded(
                "not_settled",
                "no day of the period is over in {name}: records of the first one may come until {settles_at} UTC.",
                then="try again then, or reconcile earlier days",
                name=self.name,
                settles_at=f"{ends + window.settles_after:%Y-%m-%d %H:%M}",
            )
        return replace(period, end=until if period.end is None else min(period.end, until))

    def require_same(self, stream: str) -> None:
        """Refuses an API that is asked in another way: its positions are others, and earlier captures do not count."""

    @property
    def _identity(self) -> str:
        return hashlib.sha256(canonical_json(self._declared.identity).encode()).hexdigest()[:12]

    def _in_windows(self, period: CapturePeriod, captured: Sequence[Captured]) -> tuple[str, str]:
        window = self._declared.window
        assert window is not None
        settled = self._as_of - window.settles_after
        until = self._begins(settled, _ONE_DAY) if window.is_of_days else _floor(settled, _SECONDS)
        read = [] if period.is_whole else list(_windows_read(captured, "0"))
        if period.start is None and not read:
            raise NothingCaptured(source=self._declared.url)
        begun = [each.start for each in read if not each.is_complete]
        start = period.start or min([max(each.end for each in read), *begun])
        end = until if period.end is None else min(period.end, until)
        return _position(start), _position(max(start, end))

    # ------------------------------------------------------------------------------------------------ what is written

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        """Windows cut where every capture cuts; of one that was read in part, the rest."""
        self._seen |= {(each.partition, each.range_from) for each in captured}
        window = self._declared.window
        if window is None:
            reached = followed(captured, span.partition, span.range_from)
            if reached != _END:
                yield Span(partition=span.partition, range_from=reached, range_to=_END)
            return
        at, end = _time(span.range_from), _time(span.range_to)
        read = sorted(_windows_read(captured, span.partition), key=lambda each: each.start)
        for each in [*read, _WindowRead(start=end, end=end, reached="")]:
            while at < min(each.start, end):
                to = min(self._ends(at, window), each.start, end)
                yield Span(partition=span.partition, range_from=_position(at), range_to=_position(to))
                at = to
            if not each.is_complete and each.start < end and each.end > at:
                yield Span(partition=span.partition, range_from=each.reached, range_to=_position(each.end))
            at = max(at, each.end)

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", urlsplit(self._declared.url).path).strip("-") or "answers"
        identity = resolution.stream.rpartition("#")[2]
        at = hashlib.sha256(piece.range_from.encode()).hexdigest()[:12]
        return f"{slug}-{identity}/{identity}-{piece.partition}-{at}{self.kind.suffix}"

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        """Reads the page at the beginning of a piece."""
        place = _place_of(piece)
        request, answer, page = self._read(place, piece.range_from, pace)
        if isinstance(pages := self._declared.pages, IdRange):
            if not self._has_room(pages, piece, place, page, pace):
                # Another one may have come between the two requests.
                request, answer, page = self._read(place, piece.range_from, pace)
                self._require_room(pages, piece, page, has_room=self._has_room(pages, piece, place, page, pace))
            page, range_to, goes_on = self._next_id(pages, piece, place, page)
        else:
            range_to, goes_on = self._next(piece, place, request, page)
        lines = page.lines
        self._require_progress(piece, place.window, lines, range_to, goes_on=goes_on)
        with copy.open("wb") as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            packed.write(lines)
        kept = self._kept(answer, request, range_to or "")
        pace.took(len(page.records), len(answer.body))
        times = [at for member in page.members for at in self._times_of(member)]
        return Written(
            records=len(page.records),
            first_at=min(times, default=None),
            last_at=max(times, default=None),
            range_to=range_to,
            goes_on=goes_on,
            mark=hashlib.sha256(kept).hexdigest()[:12],
            answer=gzip.compress(kept, _LEVEL, mtime=0),
        )

    def _read(self, place: _PlaceOf, position: str, pace: Pace) -> tuple[Request, Answer, Page]:
        """Asks for a page, which is refused if it says that it failed."""
        declared, request = self._declared, self._request(place)
        could = [
            each
            for each in {*_USUAL_EMPTY, *declared.empty}
            if isinstance(each, int)
            and is_behind_the_last(declared.pages, each, place.at, has_window=place.window is not None)
        ]
        empty = [each for each in could if each in declared.empty]
        answer = self._asking.ask(request, pace, position=position, empty=empty, likely=could, is_first=not place.at)
        if answer.status in empty:
            return request, answer, Page(headers=answer.headers, is_end=True)

        def bad(why: str) -> BadAnswer:
            return self._bad(position, why)

        def check(page: Page) -> None:
            for where in declared.errors:
                is_records = f"{declared.records}.".startswith(f"{where}.")
                if not is_records and page.found(where) not in (None, False, "", "0", [], {}):
                    said = self._said_in(page, where)
                    way = "" if declared.errors != _USUAL_ERRORS else ", which errors=() would accept"
                    raise bad(f"an error at {where!r}, although its status is {answer.status}{said}{way}")

        records, none = declared.records, declared.empty
        return request, answer, page_of(answer.body, answer.headers, records=records, empty=none, bad=bad, check=check)

    def _said_in(self, page: Page, where: str) -> str:
        """The beginning of what an error says, unless it has a secret in it."""
        paths = (where, f"{where}.message", f"{where}.0.message", f"{where}.0", f"{where}.detail", "message")
        said = next((found for found in map(page.found, paths) if isinstance(found, str) and found.strip()), "")
        is_open = self._asking.secret_in(said.encode(errors="replace")) is None
        return f" ({visible(said[:_QUOTED])!r})" if said and is_open else ""

    def _request(self, place: _PlaceOf) -> Request:
        """The request for a page, without anything secret."""
        declared = self._declared
        by_url = place.at if isinstance(declared.pages, NextUrl | LinkHeader) else ""
        asked: dict[Place, Any] = {**self._of_window(place.window), **asked_with(declared.pages, place.at)}
        body = declared.body
        if body is not None or any(isinstance(each, InBody) for each in asked):
            body = _filled(body or {}, {each.path: value for each, value in asked.items() if isinstance(each, InBody)})
        return Request(
            url=by_url or declared.url,
            # The address of a next page has its own.
            parameters={}
            if by_url
            else {
                **declared.parameters,
                **{name: str(value) for name, value in asked.items() if isinstance(name, str)},
            },
            headers={each.name: str(value) for each, value in asked.items() if isinstance(each, InHeader)},
            method=declared.method,
            body=body,
        )

    def _of_window(self, window: tuple[datetime, datetime] | None) -> Mapping[Place, Any]:
        declared = self._declared.window
        return {} if window is None or declared is None else declared.asked_with(window, self._days)

    def _ends(self, at: datetime, window: TimeWindow) -> datetime:
        """Where the window ends that holds an instant: of an API of days, with a day."""
        if not window.is_of_days:
            return _floor(at, window.step) + window.step
        begins = self._days.of(self._begins(at, window.step))
        return self._days.instants(DayRange(begins, begins + window.step))[1]

    def _begins(self, at: datetime, step: timedelta) -> datetime:
        """Where the days begin that hold an instant, counted since 1970."""
        day = self._days.of(at)
        first = day - (day - _SINCE_1970.date()) % step
        return self._days.instants(DayRange(first, first + step))[0]

    def _next(self, piece: Span, place: _PlaceOf, request: Request, page: Page) -> tuple[str | None, bool]:
        """Where the page ends, and whether the next one is there; no position where it is the last of its piece."""
        declared = self._declared
        asked = PageRequest(at=place.at, url=request.url, api=declared.url, secrets=declared.secret_parameters.keys())
        following, goes_on = next_of(declared.pages, asked, page, lambda why: self._bad(piece.range_from, why))
        if not goes_on and (place.window or piece.partition.startswith(SCAN)):
            following = ""
        if not following:
            return None, False
        return self._position(piece, place.window, step_of(declared.pages), following), goes_on

    def _position(self, piece: Span, window: tuple[datetime, datetime] | None, step: str, following: str) -> str:
        if not following.isprintable() or following != following.strip(" "):
            raise self._bad(piece.range_from, "a next page that cannot be written down")
        return f"{_in_window(window)}{step} {following}".rstrip(" ")

    def _next_id(self, pages: IdRange, piece: Span, place: _PlaceOf, page: Page) -> tuple[Page, str | None, bool]:
        """The records of a page that count, where they end, and whether more follow.

        A page may end among records of one id, of which the API leaves out the others when it is asked for what is
        behind that id. So the records of the last id of a page count with the next one, which begins with them.
        """
        window, known = place.window, place.known
        ids = self._ids(pages, piece, place, page)
        step = f"{step_of(pages)}+{max(len(ids), place.longest)}"
        if pages.inclusive and (found := page.only(range(len(ids)), known)).records:
            # The next page begins with the records of the last id once more.
            last = [record for id_, record in zip(ids, page.records, strict=True) if id_ == ids[-1]]
            return found, self._position(piece, window, f"{step}:{_digests(last)}", ids[-1]), True
        if len(set(ids)) > 1:
            whole = [number for number, each in enumerate(ids) if each != ids[-1]]
            return page.only(whole, known), self._position(piece, window, step, ids[whole[-1]]), True
        found = page.only(range(len(ids)), known)
        if window or piece.partition.startswith(SCAN):
            return found, None, False
        if not found.records:
            return found, piece.range_from, False
        # The same is asked again when the capture goes on, for others of this id; what came of it is known by then.
        return found, self._position(piece, window, f"{step}:{_digests(page.records)}", place.at), False

    def _has_room(self, pages: IdRange, piece: Span, place: _PlaceOf, page: Page, pace: Pace) -> bool:
        """True if a page has room for others of its last id: it has another id, or an earlier one was longer.

        One record alone is the last one if there is nothing behind it: no API has pages for one record.
        """
        ids = self._ids(pages, piece, place, page)
        if len(set(ids)) != 1 or len(ids) < place.longest:
            return True
        if pages.inclusive:
            return len(ids) == 1 or ids[0] != place.at
        return len(ids) == 1 and not self._read(replace(place, at=ids[0]), piece.range_from, pace)[2].records

    def _require_room(self, pages: IdRange, piece: Span, page: Page, *, has_room: bool) -> None:
        if not has_room:
            (id_,) = set(self._ids(pages, piece, _PlaceOf(), page))
            why = f"nothing but records of {pages.member} {id_!r:.60}, so that others of these may be left out"
            raise self._bad(piece.range_from, f"{why}: ask for larger pages")

    def _ids(self, pages: IdRange, piece: Span, place: _PlaceOf, page: Page) -> Sequence[str]:
        return ids_of(pages, page, place.at, lambda why: self._bad(piece.range_from, why))

    def _require_progress(
        self,
        piece: Span,
        window: tuple[datetime, datetime] | None,
        lines: bytes,
        range_to: str | None,
        *,
        goes_on: bool,
    ) -> None:
        """Refuses pages that lead to each other, or that are the same whatever was asked for."""
        self._seen.add((piece.partition, piece.range_from))
        is_there = range_to is not None and (piece.partition, range_to) in self._seen
        if is_there and (goes_on or range_to != piece.range_from or lines):
            raise self._loop(piece, str(range_to))
        self._empty = 0 if lines else self._empty + 1
        if goes_on and self._empty >= _MOST_EMPTY:
            why = f"{_MOST_EMPTY:,} pages without records, one after the other"
            raise self._bad(piece.range_from, f"{why}: declare what its end is, such as ends_empty=True")
        if not lines:
            return
        page = (piece.partition, window, hashlib.sha256(lines).digest())
        if page == self._before:
            raise self._loop(piece, "the page before")
        # One page may have the records of an earlier one, where records have no key; hardly two one after the other.
        if (self._before, page) in self._pairs:
            raise self._loop(piece, "two pages that it had before")
        self._pairs.add((self._before, page))
        self._before = page

    def _kept(self, answer: Answer, request: Request, range_to: str) -> bytes:
        """An answer byte for byte, behind a line that says what was asked; without secrets, as the next position."""
        asked: dict[str, Any] = {
            "method": request.method,
            "url": request.url,
            "parameters": dict(sorted(request.parameters.items())),
            **({"headers": dict(sorted(request.headers.items()))} if request.headers else {}),
            **({"body": json_of(request.body)} if request.body is not None else {}),
        }
        said = {
            "request": asked,
            "status": answer.status,
            "headers": {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
            "sha256": hashlib.sha256(answer.body).hexdigest(),
        }
        kept = canonical_json(said).encode() + b"\n" + answer.body
        if (secret := self._asking.secret_in(kept + b"\n" + range_to.encode())) is not None:
            raise Refused.coded(
                "answer_holds_secret",
                "the answer of {name} has the secret {secret} in it, so that it is not kept.",
                then="ask the API in a way in which it does not repeat the request",
                name=self.name,
                secret=secret,
            )
        return kept

    def _times_of(self, member: object) -> Sequence[datetime]:
        """The time of a record, of a date where it begins and ends; none where that cannot be read."""
        found = member_at(member, self._event_time)
        try:
            if not isinstance(found, str):
                return ()
            if self._days.are_dates:
                return self._days.span(date.fromisoformat(found))
            at = datetime.fromisoformat(found)
            return (at.astimezone(UTC),) if at.tzinfo is not None else ()
        except (ValueError, OverflowError):
            return ()

    def _loop(self, piece: Span, again: str) -> BadAnswer:
        position = piece.range_from
        return BadAnswer(
            name=self.name, position=position, why=f"in a circle: behind {position} it has {again} once more"
        )

    def _bad(self, position: str, why: str) -> BadAnswer:
        return BadAnswer(name=self.name, position=position, why=f"with {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _WindowRead:
    """A window of which pages are files already; `reached` is where they end, unless it is read to its end."""

    start: datetime
    end: datetime
    reached: str

    @property
    def is_complete(self) -> bool:
        return not self.reached


def _windows_read(captured: Sequence[Span], partition: str) -> Iterator[_WindowRead]:
    for each in captured:
        if each.partition != partition or " " in each.range_from:
            continue
        reached = followed(captured, partition, each.range_from, is_end=lambda at: " " not in at)
        is_complete = " " not in reached
        end = reached if is_complete else reached.partition(" ")[0].partition("..")[2]
        yield _WindowRead(start=_time(each.range_from), end=_time(end), reached="" if is_complete else reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlaceOf:
    """The place of a page."""

    window: tuple[datetime, datetime] | None = None  #: Its window; None of an API without them.
    at: str = ""  #: Its position in this; empty for the first page.
    known: Sequence[str] = ()  #: The digests of its records that were captured already.
    longest: int = 0  #: How many records the longest page before it had.


def _place_of(piece: Span) -> _PlaceOf:
    """The place of the page at the beginning of a piece."""
    if piece.range_from == _START:
        return _PlaceOf()
    first, is_page, at = piece.range_from.partition(" ")
    start, is_within, end = first.partition("..")
    if is_within:
        step, _, at = at.partition(" ")
    elif is_page or not first[0].isdigit():  # a page without a window, such as `cursor abc`
        step = first
    else:
        return _PlaceOf(window=(_time(first), _time(piece.range_to)))
    step, _, digests = step.partition(":")
    return _PlaceOf(
        window=(_time(start), _time(end)) if is_within else None,
        at=at,
        known=digests.split(",") if digests else (),
        longest=int(step.partition("+")[2] or 0),
    )


def _filled(body: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """A body with values at their places; numbers of the declaration stay what they are."""
    found: dict[str, Any] = dict(body) if isinstance(body, Mapping) else {}
    for name in dict.fromkeys(path.partition(".")[0] for path in values):
        here = {path.partition(".")[2]: value for path, value in values.items() if path.partition(".")[0] == name}
        found[name] = here[""] if "" in here else _filled(found.get(name), here)
    return found


def _digests(records: Sequence[str]) -> str:
    return ",".join(sorted(map(digest_of, records)))


def _in_window(window: tuple[datetime, datetime] | None) -> str:
    return "" if window is None else f"{_position(window[0])}..{_position(window[1])} "


def _position(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_INSTANT)


def _time(position: str) -> datetime:
    return datetime.strptime(position, _INSTANT).replace(tzinfo=UTC)


def _floor(at: datetime, step: timedelta) -> datetime:
    return at - (at - _SINCE_1970) % step


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def open_stream(declared: HttpApi, source: SourceTable, *, home: Path, as_of: datetime) -> HttpStream:
    """The API that a source is captured from."""
    secret = HttpSecrets(
        parameters=secrets_named(declared.secret_parameters, home=home),
        headers=secrets_named(declared.secret_headers, home=home),
        basic=secrets_named(declared.basic.secrets, home=home) if declared.basic else {},
        token=secrets_named(declared.token.secrets, home=home) if declared.token else {},
    )
    return HttpStream(declared, secret=secret, event_time=source.event_member, as_of=as_of, days=source.days)
