"""What do the rules say, read word for word and walked day by day?

A second reading of the spec in plain Python, slow and obvious, that shares no thought with the Spark code: no calendar
of numbers, no segments. The comments are the rules' numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.examples.enforcement_sla.references import Clock, Jurisdiction, JurisdictionCalendar, SlaPolicy

DAY = timedelta(days=1)

SlaRow = tuple[str, str, date, str, date, date | None, bool, int, int, date, str, date | None]
LocalDate = Callable[[datetime, Jurisdiction], date]


@dataclass(frozen=True, slots=True)
class Event:
    """A record of `bronze.case_events`, as far as the rules look at it."""

    event_id: str
    case_id: str
    jurisdiction: str
    event_type: str
    event_time: datetime


def local_date(at: datetime, jurisdiction: Jurisdiction) -> date:
    return at.astimezone(ZoneInfo(jurisdiction.timezone)).date()


def utc_date(at: datetime, _jurisdiction: Jurisdiction) -> date:
    return at.astimezone(UTC).date()


DATE_OF_VERSION: dict[str, LocalDate] = {"3.1.0": local_date, "2.4.1": utc_date}


def expected_rows(
    events: Sequence[Event], calendar: JurisdictionCalendar, policy: SlaPolicy, version: str, output: DayRange
) -> list[SlaRow]:
    """The rows of the output days, in no order."""
    cases: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        cases[event.case_id].append(event)
    rows: list[SlaRow] = []
    for case in cases.values():
        case.sort(key=lambda event: (event.event_time, event.event_id))
        for clock in policy.clocks:
            if clock.jurisdiction == case[0].jurisdiction:
                jurisdiction = calendar.named(clock.jurisdiction)
                assert jurisdiction is not None
                dated = [(event, DATE_OF_VERSION[version](event.event_time, jurisdiction)) for event in case]
                rows += (row for row in _rows_of_clock(dated, clock, jurisdiction) if row[2] in output)
    return rows


def _rows_of_clock(case: Sequence[tuple[Event, date]], clock: Clock, jurisdiction: Jurisdiction) -> Iterator[SlaRow]:
    starts = [place for place, (event, _) in enumerate(case) if event.event_type in clock.starts_on]  # 1
    for number, place in enumerate(starts):
        started_on = case[place][1]
        after = case[place + 1 :]
        stopped_on = next((on for event, on in after if event.event_type in clock.stops_on), None)  # 2
        ends = [started_on + timedelta(days=clock.tracked_days)]  # 5
        if stopped_on is not None:
            ends.append(stopped_on)
        if number + 1 < len(starts):
            ends.append(case[starts[number + 1]][1] - DAY)
        last = min(ends)

        def is_paused(t: date, after: Sequence[tuple[Event, date]] = after) -> bool:  # 3
            said = [e.event_type in clock.pauses_on for e, on in after if _pauses_or_resumes(e, clock) and on <= t]
            return bool(said) and said[-1]

        elapsed, reached_on, breached_on = 0, started_on if clock.limit_days == 0 else None, None
        d = started_on
        while d <= last:
            if d > started_on and not is_paused(d) and _is_countable(d, clock, jurisdiction):  # 4
                elapsed += 1
                if elapsed == clock.limit_days:
                    reached_on = d
                if elapsed == clock.limit_days + 1:
                    breached_on = d  # 6
            stopped = stopped_on is not None and stopped_on <= d
            if elapsed > clock.limit_days:  # 7
                state = "BREACHED"
            elif stopped:
                state = "MET"
            else:
                state = "PAUSED" if is_paused(d) else "RUNNING"
            due_on = reached_on or _would_reach(clock.limit_days - elapsed, d, clock, jurisdiction)  # 8
            yield (
                case[place][0].case_id,
                clock.name,
                d,
                clock.jurisdiction,
                started_on,
                stopped_on if stopped else None,
                is_paused(d),
                elapsed,
                clock.limit_days,
                due_on,
                state,
                breached_on,
            )
            d += DAY


def _pauses_or_resumes(event: Event, clock: Clock) -> bool:
    return event.event_type in clock.pauses_on or event.event_type in clock.resumes_on


def _is_countable(day: date, clock: Clock, jurisdiction: Jurisdiction) -> bool:
    if clock.day_kind == "calendar":
        return True
    return day.weekday() not in jurisdiction.weekend and day not in jurisdiction.holidays


def _would_reach(missing: int, day: date, clock: Clock, jurisdiction: Jurisdiction) -> date:
    while missing > 0:
        day += DAY
        missing -= _is_countable(day, clock, jurisdiction)
    return day
