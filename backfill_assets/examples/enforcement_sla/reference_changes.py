"""Reference changes: the days that a new calendar or policy affects.

A holiday that moved in 2006 says nothing about 2010, and the years between need not be computed again. What cannot be
narrowed for certain is left open: then everything is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from backfill_assets.domain import DayRange, Window

from .references import Clock, DayKind, DeadlineRules, Jurisdiction, JurisdictionCalendar, SlaPolicy

DAYS_OF_A_WEEK = 7


def days_a_calendar_changes(before: JurisdictionCalendar, now: JurisdictionCalendar) -> Sequence[DayRange] | None:
    """The days that began or ceased to be holidays; None when any day may count differently.

    A time zone moves events from one date to another and a weekend takes or gives a day of every week, so both touch
    every day. A jurisdiction that is no longer listed stops the runs over its events. One that is new touches nothing:
    an event of a jurisdiction that the calendar lacks fails the run, so no accepted row can come from one.
    """
    changed: set[date] = set()
    for known in before.jurisdictions:
        new = now.named(known.name)
        if new is None or new.timezone != known.timezone or new.weekend != known.weekend:
            return None
        changed |= {day for day in known.holidays ^ new.holidays if day.weekday() not in known.weekend}
    return [DayRange.inclusive(day, day) for day in sorted(changed)]


def days_a_policy_changes(before: SlaPolicy, now: SlaPolicy) -> Sequence[DayRange] | None:
    """No day when the clocks are the same ones; otherwise any day, for a clock runs on all of them."""
    return [] if set(before.clocks) == set(now.clocks) else None


def days_whose_facts_count(references: Mapping[str, Any]) -> Window:
    """The reach around a day in which its rows ask if days count: only clocks of business days do.

    Back: `elapsed_days` and `breached_on` count the days after `started_on`, which is at most `tracked_days` ago.
    Ahead: `due_on` counts at most `limit_days` countable days after the day (rule 8), which are as many more days as
    weekends and holidays lie between them.
    """
    rules = DeadlineRules.from_references(references)
    back = ahead = 0
    for clock in rules.policy.clocks:
        if clock.day_kind is DayKind.BUSINESS:
            jurisdiction = rules.calendar.named(clock.jurisdiction)
            assert jurisdiction is not None, "from_references refuses clocks without a calendar"
            back = max(back, clock.tracked_days)
            ahead = max(ahead, most_days_until_due(clock, jurisdiction))
    return Window(days_back=back, days_ahead=ahead)


def most_days_until_due(clock: Clock, jurisdiction: Jurisdiction) -> int:
    """A number of days that holds `limit_days` countable ones, wherever it begins.

    `w` whole weeks hold `w * (7 - weekend days)` days that are no weekend. With at most `h` holidays among any so many
    days, enough weeks for `limit_days + h` are enough. More weeks may hold more holidays, so the two are raised in turn
    until they agree: at the latest when all holidays of the calendar are allowed for.
    """
    per_week = DAYS_OF_A_WEEK - len(jurisdiction.weekend)
    holidays = sorted(day for day in jurisdiction.holidays if day.weekday() not in jurisdiction.weekend)
    allowed = 0
    while True:
        weeks = -(-(clock.limit_days + allowed) // per_week)
        most = _most_within(holidays, weeks * DAYS_OF_A_WEEK)
        if most <= allowed:
            return weeks * DAYS_OF_A_WEEK
        allowed = most


def _most_within(days: Sequence[date], length: int) -> int:
    """The most of these ordered days that lie within so many consecutive ones."""
    most = first = 0
    for last, day in enumerate(days):
        while first <= last and day - days[first] >= timedelta(days=length):
            first += 1
        most = max(most, last - first + 1)
    return most
