"""Windows of an API: how an author declares that a period is asked for, and how its instants are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from backfill_assets.capture.declared import wrong_time
from backfill_assets.capture.http_pagings import InBody, InHeader, Place
from backfill_assets.capture.json_members import Digits
from backfill_assets.planning.local_days import LocalDays
from backfill_assets.planning.patterns import NoPattern, Pattern, patterns_of

TIME_FORMS = ("iso", "day", "seconds", "milliseconds")

_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
_SINCE_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Records of a period, asked for in windows of the same length."""

    start: str | InBody | InHeader  #: What is asked with the first instant of a window.
    #: What is asked with the first instant behind it; that an API counts it to the window does no harm.
    end: str | InBody | InHeader = ""
    of: str  #: The member of a record whose time is in the window.
    step: timedelta = _DAY  #: How long a window is.
    #: How instants are written: `2026-01-31T00:00:00Z`, a `day` of the source's `timezone`, or seconds or milliseconds
    #: since 1970; or a pattern, such as `yyyyMMdd`, which is of days, or `yyyy-MM-dd HH:mm:ss`, as clocks show it in
    #: the `timezone` of the source.
    form: str = "iso"
    #: For how long records of a time may still come: nothing later than that ago is read.
    settles_after: timedelta = timedelta(0)
    #: How much before its start and behind its end a window is asked for, of an API whose clock or whose rounding puts
    #: records into the window beside theirs; records that come twice are one by their key.
    overlap: timedelta = timedelta(0)
    #: What `start` is asked with where an API takes both instants in one text, such as `at ge {start} and at lt {end}`.
    both: str = ""

    @property
    def is_of_days(self) -> bool:
        """True if whole days are asked for."""
        pattern = _pattern(self.form)
        return self.form == "day" or (pattern is not None and not pattern.has_time)

    @property
    def places(self) -> tuple[Place, ...]:
        """The places in a request that hold its instants."""
        return (self.start,) if self.both else (self.start, self.end)

    def asked_with(self, window: tuple[datetime, datetime], days: LocalDays) -> Mapping[Place, str]:
        """The values that a request has for a window; in a body, seconds are a number."""
        start, end = self._written(window[0], -self.overlap, days), self._written(window[1], self.overlap, days)
        if self.both:
            return {self.start: self.both.replace("{start}", start).replace("{end}", end)}
        return {self.start: start, self.end: end}

    def _written(self, at: datetime, shift: timedelta, days: LocalDays) -> str:
        """An instant so much later."""
        pattern = _pattern(self.form)
        if self.is_of_days:
            day = days.of(at) + shift  # of the calendar, whatever clocks do
            return day.isoformat() if pattern is None else pattern.write(datetime.combine(day, time()))
        at += shift
        if pattern is not None:
            return pattern.write(at.astimezone(UTC if pattern.has_offset else ZoneInfo(days.zone)))
        if self.form == "iso":
            return at.astimezone(UTC).strftime(_ISO)
        return Digits((at - _SINCE_1970) // _SECOND * (1 if self.form == "seconds" else 1000))


def _pattern(form: str) -> Pattern | None:
    """The pattern that a form declares; None for a form that is named.

    Raises:
        ValueError: It is neither.
    """
    if form in TIME_FORMS:
        return None
    found = patterns_of(form)
    if len(found) > 1:
        raise NoPattern("a part in brackets may be missing, which is for reading")
    return found[0]


def mistakes_of_window(window: object) -> Iterator[str]:
    """The mistakes in a window."""
    if not isinstance(window, TimeWindow | None):
        yield f"the window of its API is {window!r:.60}, and has to be TimeWindow(...)"
    if not isinstance(window, TimeWindow):
        return
    try:
        pattern = _pattern(window.form)
    except ValueError as error:
        forms = ", ".join(TIME_FORMS)
        yield f"the form of its window is {window.form!r:.60}, and has to be one of {forms} or a pattern: {error}"
        return
    if pattern is not None and pattern.has_time and not pattern.has("second"):
        yield f"the form of its window is {window.form!r:.60}, which has no seconds: a window would end before its end"
    yield from _mistakes_of_times(window)
    if window.both and (window.end or "{start}" not in window.both or "{end}" not in window.both):
        yield "both of its window has to be like 'at ge {start} and at lt {end}', and is sent with start alone"
    if not window.both and not window.end:
        yield "its window has no end: name what is asked with it, or both"


def _mistakes_of_times(window: TimeWindow) -> Iterator[str]:
    whole, of = (_DAY, "days") if window.is_of_days else (_SECOND, "seconds")
    if not isinstance(window.step, timedelta):
        yield from wrong_time("step", window.step, of="window", positive=True)
    elif window.step < whole or window.step % whole:
        yield f"the step of its window is {window.step}, and has to be a number of {of}"
    yield from wrong_time("settles_after", window.settles_after, of="window")
    yield from wrong_time("overlap", window.overlap, of="window")
    if isinstance(window.overlap, timedelta) and window.overlap % whole:
        yield f"the overlap of its window is {window.overlap}, and has to be a number of {of}"
