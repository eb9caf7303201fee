"""Which clocks are open at the end of a day, by pandas, walked day by day from all events?

A second reading of the rules that shares no code and no thought with the table that keeps state: no snapshot, no
numbered days. The numbers are those of the spec's rules.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from backfill_assets.examples.enforcement_sla.references import Clock, Jurisdiction, JurisdictionCalendar, SlaPolicy

DAY = timedelta(days=1)


def open_clocks(events: pd.DataFrame, calendar: JurisdictionCalendar, policy: SlaPolicy, end: date) -> pd.DataFrame:
    """The open clocks at midnight UTC before a day, one row each, without the column that names the snapshot.

    Args:
        events: The columns event_id, case_id, jurisdiction, event_type and event_time, in no order.
        end: The first day that does not count.
    """
    midnight = datetime.combine(end, time(), tzinfo=UTC)
    known = events[events["event_time"] < midnight].sort_values(["event_time", "event_id"])
    found = []
    for (case_id, place), case in known.groupby(["case_id", "jurisdiction"]):
        jurisdiction = calendar.named(str(place))
        assert jurisdiction is not None
        zone = ZoneInfo(jurisdiction.timezone)
        dated = case.assign(on=[at.astimezone(zone).date() for at in case["event_time"]])
        counted_on = midnight.astimezone(zone).date() - DAY
        for clock in policy.clocks:
            if clock.jurisdiction == place:
                row = _open_clock(dated, clock, jurisdiction, counted_on)
                if row is not None:
                    found.append({"case_id": case_id, "clock": clock.name, "jurisdiction": place, **row})
    return pd.DataFrame(found)


def _open_clock(
    case: pd.DataFrame, clock: Clock, jurisdiction: Jurisdiction, counted_on: date
) -> dict[str, Any] | None:
    moves = case[case["event_type"].isin(clock.event_types)].reset_index(drop=True)
    starts = moves.index[moves["event_type"].isin(clock.starts_on)]
    if starts.empty:
        return None
    started_on = moves["on"][starts[-1]]  # 1
    after = moves[starts[-1] + 1 :]
    if after["event_type"].isin(clock.stops_on).any():  # 2
        return None
    turns = after[after["event_type"].isin(clock.pauses_on | clock.resumes_on)]

    def is_paused(moved: pd.DataFrame) -> bool:
        return not moved.empty and moved["event_type"].iloc[-1] in clock.pauses_on

    elapsed, due_on, breached_on = 0, started_on if clock.limit_days == 0 else None, None
    day = started_on + DAY
    while day <= counted_on:
        if not is_paused(turns[turns["on"] <= day]) and _counts(day, clock, jurisdiction):  # 3, 4
            elapsed += 1
            if elapsed == clock.limit_days:
                due_on = day
            if elapsed == clock.limit_days + 1:
                breached_on = day  # 6
        day += DAY
    paused = is_paused(turns)
    if due_on is None:  # 8
        missing, due_on = clock.limit_days - elapsed, max(counted_on, started_on)
        while missing:
            due_on += DAY
            missing -= _counts(due_on, clock, jurisdiction)
    last = moves.iloc[-1]
    return {
        "started_on": started_on,
        "last_event_id": last["event_id"],
        "last_event_type": last["event_type"],
        "last_event_at": last["event_time"].to_pydatetime(),
        "paused": paused,
        "counted_on": counted_on,
        "elapsed_days": elapsed,
        "limit_days": clock.limit_days,
        "due_on": due_on,
        "sla_state": "BREACHED" if elapsed > clock.limit_days else "PAUSED" if paused else "RUNNING",  # 7
        "breached_on": breached_on,
    }


def _counts(day: date, clock: Clock, jurisdiction: Jurisdiction) -> bool:
    is_free = day.weekday() in jurisdiction.weekend or day in jurisdiction.holidays
    return clock.day_kind == "calendar" or not is_free
