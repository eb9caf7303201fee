"""HTTP capture: answers of an API as files of JSON lines, each page with the answer that it was taken from.

The only module that asks an API. A position is an instant of the windows (`2026-01-31T00:00:00Z`), a page within one
(`2026-01-31T00:00:00Z..2026-02-01T00:00:00Z cursor abc`), or of an API without windows a page alone. Where the next
page is only its answer tells, so that a piece is read page by page, each of them durable before the next is asked for.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from backfill_assets.capture.errors import (
    AnswerHoldsSecret,
    BadAnswer,
    NextPageLoop,
    NoPeriod,
    NothingCaptured,
    NotReconciled,
    NotSettled,
)
from backfill_assets.capture.http_api import Cursor, HttpApi, IdRange, PageNumber, TimeForm, TimeWindow
from backfill_assets.capture.http_requests import Answer, Asking, HttpSecrets
from backfill_assets.capture.landed_files import Family, FileKind, Format
from backfill_assets.capture.streams import (
    SCAN,
    Captured,
    Pace,
    Period,
    Resolution,
    Resolved,
    Span,
    Written,
    followed,
    new_scan,
)
from backfill_assets.core.identity import canonical_json
from backfill_assets.planning.local_days import LocalDays
from backfill_assets.planning.partitions import DayRange

_LEVEL = 6
_START, _END = "start", "end"
_SINCE_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_SECONDS = timedelta(seconds=1)
_ONE_DAY = timedelta(days=1)
_BLANK = re.compile(r"[ \t\r\n]*")
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
        self._asking = Asking(declared, secret, name=self.name)
        self._seen: set[tuple[str, str]] = set()
        self._before: tuple[object, ...] = ()
        self._pairs: set[tuple[tuple[object, ...], tuple[object, ...]]] = set()

    @property
    def name(self) -> str:
        return f"the API {self._declared.url}"

    def close(self) -> None:
        self._asking.close()

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(self, period: Period, captured: Sequence[Captured]) -> Resolution:
        window = self._declared.window
        if window is None and not period.is_whole and (period.start or period.end):
            raise NoPeriod(name=self.name)
        if window is not None and period.is_whole and window.of != self._event_time:
            raise NotReconciled(name=self.name, expected=self._event_time, found=window.of)
        start, end = (_START, _END) if window is None else self._in_windows(period, captured)
        partition = new_scan(captured) if period.is_whole else "0"
        return Resolution(
            family=str(Family.HTTP),
            name=self._declared.url,
            stream=f"{self._declared.url}#{self._identity}",
            pinned={name: _text(value) for name, value in self._declared.identity.items() if name != "url"},
            is_compacted=False,
            spans=(Resolved(partition=partition, range_from=start, range_to=end, held_from="", held_to=""),),
            is_whole=period.is_whole,
        )

    def settled(self, period: Period) -> Period:
        window = self._declared.window
        if window is None or window.of != self._event_time:
            return period
        until = self._begins(self._as_of - window.settles_after, _ONE_DAY)
        if period.start is not None and period.start >= until:
            first = self._days.of(period.start)
            ends = self._days.instants(DayRange.inclusive(first, first))[1]
            raise NotSettled(name=self.name, settles_at=ends + window.settles_after)
        return replace(period, end=until if period.end is None else min(period.end, until))

    def require_same(self, stream: str) -> None:
        """Of an API that is asked in another way, positions are others, and earlier captures do not count."""

    @property
    def _identity(self) -> str:
        return hashlib.sha256(canonical_json(self._declared.identity).encode()).hexdigest()[:12]

    def _in_windows(self, period: Period, captured: Sequence[Captured]) -> tuple[str, str]:
        window = self._declared.window
        assert window is not None
        settled = self._as_of - window.settles_after
        until = self._begins(settled, _ONE_DAY) if window.form == "day" else _floor(settled, _SECONDS)
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
        window, at, known = _parts(piece)
        parameters = self._asked(window, at)
        answer = self._asking.get(parameters, pace, position=piece.range_from)
        page = self._page(answer, piece.range_from)
        if isinstance(self._declared.pages, IdRange):
            page, range_to, goes_on = self._next_id(self._declared.pages, piece, page, known, pace)
        else:
            range_to, goes_on = self._next(piece, window, at, page)
        lines = "".join(f"{each}\n" for each in page.records).encode()
        self._require_progress(piece, window, lines, range_to, goes_on=goes_on)
        with copy.open("wb") as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            packed.write(lines)
        kept = self._kept(answer, parameters)
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

    def _asked(self, window: tuple[datetime, datetime] | None, at: str) -> Mapping[str, str]:
        return {**self._declared.parameters, **self._of_window(window), **self._of_page(at)}

    def _of_window(self, window: tuple[datetime, datetime] | None) -> Mapping[str, str]:
        named = self._declared.window
        if window is None or named is None:
            return {}
        return {name: self._written(at, named.form) for name, at in zip((named.start, named.end), window, strict=True)}

    def _ends(self, at: datetime, window: TimeWindow) -> datetime:
        """Where the window ends that holds an instant: of an API of days, with a day."""
        if window.form != "day":
            return _floor(at, window.step) + window.step
        begins = self._days.of(self._begins(at, window.step))
        return self._days.instants(DayRange(begins, begins + window.step))[1]

    def _begins(self, at: datetime, step: timedelta) -> datetime:
        """Where the days begin that hold an instant, counted since 1970."""
        day = self._days.of(at)
        first = day - (day - _SINCE_1970.date()) % step
        return self._days.instants(DayRange(first, first + step))[0]

    def _written(self, at: datetime, form: TimeForm) -> str:
        seconds = (at - _SINCE_1970) // _SECONDS
        return {
            "iso": _position(at),
            "day": self._days.of(at).isoformat(),
            "seconds": str(seconds),
            "milliseconds": str(seconds * 1000),
        }[form]

    def _of_page(self, at: str) -> Mapping[str, str]:
        match self._declared.pages:
            case Cursor(parameter=name):
                return {name: at} if at else {}
            case PageNumber(parameter=name, first=first):
                return {name: at or str(first)}
            case IdRange(after=name, first=id_):
                return {name: at or id_} if at or id_ else {}
            case None:
                return {}

    def _page(self, answer: Answer, position: str) -> _Page:
        """The records of an answer, as they were written."""
        try:
            text = answer.body.decode("utf-8-sig")
            document = _DECODER.decode(text)
        except UnicodeDecodeError:
            raise self._bad(position, "what is not UTF-8") from None
        except (ValueError, RecursionError):
            raise self._bad(position, "content that is not JSON") from None
        path = self._declared.records.split(".") if self._declared.records else []
        members = _at(document, path)
        if not isinstance(members, list):
            where = f"{self._declared.records!r}, where its records are declared to be" if path else "its beginning"
            raise self._bad(position, f"no array at {where}")
        return _Page(document=document, members=members, records=tuple(_elements(text, path)))

    def _next(
        self, piece: Span, window: tuple[datetime, datetime] | None, at: str, page: _Page
    ) -> tuple[str | None, bool]:
        """Where the page ends, and whether the next one is there; no position where it is the last of its piece."""
        is_scan = piece.partition.startswith(SCAN)
        goes_on, following = True, ""
        match self._declared.pages:
            case Cursor(next=path, more=more):
                following = self._cursor(page, path, piece.range_from)
                # No records and the same cursor once more: the next request would get the same answer.
                goes_on = bool(page.records) or following != at
                if more:
                    goes_on = self._has_more(page, more, following, piece.range_from)
                if not goes_on:
                    following = "" if window or is_scan else following
            case PageNumber(first=first) if page.records:
                following = str(int(at or first) + 1)
        if not following:
            return None, False
        return self._position(piece, window, self._step, following), goes_on

    def _position(self, piece: Span, window: tuple[datetime, datetime] | None, step: str, following: str) -> str:
        if not following.isprintable():
            raise self._bad(piece.range_from, "a next page that cannot be written down")
        return f"{_in_window(window)}{step} {following}".rstrip(" ")

    def _next_id(
        self, pages: IdRange, piece: Span, page: _Page, known: Sequence[str], pace: Pace
    ) -> tuple[_Page, str | None, bool]:
        """What of a page counts, where that ends, and whether there is more.

        A page may end among records of one id, of which the API leaves out the others when it is asked for what is
        behind that id. So the records of the last id of a page count with the next one, which begins with them.
        """
        window, at, _ = _parts(piece)
        ids = self._ids(pages, piece, page, at)
        step = piece.range_from.removeprefix(_in_window(window)).partition(" ")[0].partition(":")[0]
        longest = max(len(ids), int(step.partition("+")[2] or 0))
        step = f"{self._step}+{longest}"
        if len(set(ids)) > 1:
            whole = [place for place, each in enumerate(ids) if each != ids[-1]]
            return page.only(whole, known), self._position(piece, window, step, ids[whole[-1]]), True
        if ids and len(ids) == longest:
            self._require_room(pages, piece, page, pace)
        found = page.only(range(len(ids)), known)
        if window or piece.partition.startswith(SCAN):
            return found, None, False
        if not found.records:
            return found, piece.range_from, False
        # The same is asked again when the capture goes on, for others of this id; what came of it is known by then.
        digests = ",".join(sorted(map(_digest, page.records)))
        return found, self._position(piece, window, f"{step}:{digests}", at), False

    def _require_room(self, pages: IdRange, piece: Span, page: _Page, pace: Pace) -> None:
        """Refuses a page of one id that may have had no room for others of it: no other page is longer.

        One record alone is the last one if there is nothing behind it: no API has pages for one record.
        """
        window, _, _ = _parts(piece)
        id_ = _cursor(page.members[0].get(pages.member))
        if len(page.records) == 1:
            behind = self._asking.get(self._asked(window, id_), pace, position=piece.range_from)
            if not self._page(behind, piece.range_from).records:
                return
        why = f"nothing but records of {pages.member} {id_!r:.60}, so that others of these may be left out"
        raise self._bad(piece.range_from, f"{why}: ask for larger pages")

    def _ids(self, pages: IdRange, piece: Span, page: _Page, at: str) -> Sequence[str]:
        """The ids of a page, which has to have them in their order, and none that is not behind the one asked for."""
        found = [_cursor(each.get(pages.member) if isinstance(each, dict) else None) for each in page.members]
        if not all(found):
            raise self._bad(piece.range_from, f"a record without {pages.member!r}")
        asked = at or pages.first
        if asked in found:
            raise self._bad(piece.range_from, f"{pages.member} {asked!r:.60}, behind which it was asked for records")
        in_order = [asked, *found] if asked else found
        is_sorted = in_order == sorted(in_order)
        if not is_sorted and all(re.fullmatch(r"-?[0-9]{1,40}", each) for each in in_order):
            is_sorted = in_order == sorted(in_order, key=int)
        elif not is_sorted:  # texts have the order of the API
            is_sorted = len([each for each, _ in groupby(found)]) == len(set(found))
        if not is_sorted:
            raise self._bad(piece.range_from, f"records that are not in the order of {pages.member}")
        return found

    def _cursor(self, page: _Page, path: str, position: str) -> str:
        """The cursor of the next page; empty at the end, which an answer has to say in one of the ways that are known:
        a capture that anything else ended would leave out what follows, without an error."""
        found = _at(page.document, path.split("."))
        if found not in (None, False) and not isinstance(found, str):
            raise self._bad(position, f"a value that is not a cursor at {path!r}")
        return _cursor(found)

    def _has_more(self, page: _Page, path: str, following: str, position: str) -> bool:
        """Whether an answer says that there is a next page."""
        found = _at(page.document, path.split("."))
        if found in (True, "true"):
            if not following:
                raise self._bad(position, f"a next page at {path!r}, and no cursor")
            return True
        if found in (False, "false") or (found is None and not following):
            return False
        raise self._bad(position, f"neither true nor false at {path!r}")

    @property
    def _step(self) -> str:
        match self._declared.pages:
            case PageNumber():
                return "page"
            case IdRange():
                return "id"
            case _:
                return "cursor"

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
            raise NextPageLoop(name=self.name, position=piece.range_from, again=str(range_to))
        if not lines:
            return
        page = (piece.partition, window, hashlib.sha256(lines).digest())
        if page == self._before:
            raise NextPageLoop(name=self.name, position=piece.range_from, again="the page before")
        # One page may have the records of an earlier one, where records have no key; hardly two one after the other.
        if (self._before, page) in self._pairs:
            raise NextPageLoop(name=self.name, position=piece.range_from, again="two pages that it had before")
        self._pairs.add((self._before, page))
        self._before = page

    def _kept(self, answer: Answer, parameters: Mapping[str, str]) -> bytes:
        """An answer byte for byte, behind a line that says what was asked; without secrets."""
        said = {
            "request": {"method": "GET", "url": self._declared.url, "parameters": dict(sorted(parameters.items()))},
            "status": answer.status,
            "headers": {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
            "sha256": hashlib.sha256(answer.body).hexdigest(),
        }
        kept = canonical_json(said).encode() + b"\n" + answer.body
        if (secret := self._asking.secret_in(kept)) is not None:
            raise AnswerHoldsSecret(name=self.name, secret=secret)
        return kept

    def _times_of(self, member: object) -> Sequence[datetime]:
        """The time of a record, of a date where it begins and ends; none where that cannot be read."""
        found = member.get(self._event_time) if isinstance(member, dict) else None
        try:
            if not isinstance(found, str):
                return ()
            if self._days.are_dates:
                return self._days.span(date.fromisoformat(found))
            at = datetime.fromisoformat(found)
            return (at.astimezone(UTC),) if at.tzinfo is not None else ()
        except (ValueError, OverflowError):
            return ()

    def _bad(self, position: str, why: str) -> BadAnswer:
        return BadAnswer(name=self.name, position=position, why=f"with {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """An answer: as a document with numbers as texts, its records, and these as they were written."""

    document: Any
    members: Sequence[Any]
    records: tuple[str, ...]

    def only(self, places: Iterable[int], known: Sequence[str]) -> _Page:
        """The records at some places, without those that are known by their digests, each as often as it is."""
        left, kept = Counter(known), []
        for place in places:
            digest = _digest(self.records[place])
            if left[digest] > 0:
                left[digest] -= 1
            else:
                kept.append(place)
        members, records = ([some[place] for place in kept] for some in (self.members, self.records))
        return replace(self, members=members, records=tuple(records))


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


def _parts(piece: Span) -> tuple[tuple[datetime, datetime] | None, str, Sequence[str]]:
    """The window of a piece, its page, empty for the first one, and the digests of records of that which are known."""
    if piece.range_from == _START:
        return None, "", ()
    first, is_page, at = piece.range_from.partition(" ")
    start, is_within, end = first.partition("..")
    if is_within:
        step, _, at = at.partition(" ")
    elif is_page or not first[0].isdigit():  # a page without a window, such as `cursor abc`
        step = first
    else:
        return (_time(first), _time(piece.range_to)), "", ()
    digests = step.partition(":")[2]
    return (_time(start), _time(end)) if is_within else None, at, digests.split(",") if digests else ()


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


def _digest(record: str) -> str:
    return hashlib.sha256(record.encode()).hexdigest()[:12]


def _cursor(found: object) -> str:
    return found if isinstance(found, str) else ""


def _refused_constant(name: str) -> object:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refused_constant)
"""Numbers stay the texts that they are."""


def _at(document: object, path: Sequence[str]) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _elements(text: str, path: Sequence[str]) -> Iterator[str]:
    """The elements of an array of a JSON document, each as it was written, on one line."""
    at = _behind_blanks(text, 0)
    for name in path:
        at = _member(text, at, name)
    at = _behind_blanks(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        # Line breaks of a JSON value are between its members: within a text they are escaped.
        yield text[at:end].replace("\r", " ").replace("\n", " ")
        at = _behind_separator(text, end)


def _member(text: str, at: int, name: str) -> int:
    """Where the value of a member of an object begins; of several, the last, as everywhere."""
    found = at
    at = _behind_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        begin = _behind_blanks(text, _behind_blanks(text, at) + 1)
        _, at = _DECODER.raw_decode(text, begin)
        found = begin if key == name else found
        at = _behind_separator(text, at)
    return found


def _behind_separator(text: str, at: int) -> int:
    at = _behind_blanks(text, at)
    return _behind_blanks(text, at + 1) if text[at] == "," else at


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()
