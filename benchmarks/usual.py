"""The usual on ten years of real days: false alarms per thousand ordinary days, and the share of gaps that is found.

    python benchmarks/usual.py FOLDER      # with events.parquet and reference/sla_policy.yaml of the traffic fines

Every day of 2003 to 2012 is held against the days before it, by the code of the gate and its default `most`, as if each
had been published alone: a far day is accepted by a person and left out of later histories. No day of the log is known
to be wrong, so each one that is found counts as a false alarm. In each other day a fifth of the rows is taken away and
judged against the same history. Events are counted by their local dates; open cases are the rows of the derived table
that the example domain declares, by its rules. The process ends with 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pandas as pd
import yaml

from backfill_assets.domain import Grain, Usual, days, rows, usual
from backfill_assets.gates.usual import History, compared_with, judged
from backfill_assets.ledger.findings import FAR, Finding

FIRST, LAST = date(2003, 1, 1), date(2012, 12, 31)
WARM_UP = timedelta(days=210)
LEFT = Decimal("0.8")
ZONE = "Europe/Rome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A measure, the gate that looks at it, and the bounds that are held."""

    name: str
    gate: Usual
    most_false: float  #: The most false alarms in a thousand ordinary days.
    least_found: float  #: The least share of gaps that is found, in percent.


WEEKDAYS, EVERY_DAY = usual(rows()), usual(rows(), against=days(56), same=None)
CASES = (
    Case(name="events", gate=WEEKDAYS, most_false=50, least_found=0),
    Case(name="events", gate=EVERY_DAY, most_false=40, least_found=0),
    Case(name="open cases", gate=WEEKDAYS, most_false=75, least_found=20),
    Case(name="open cases", gate=EVERY_DAY, most_false=75, least_found=90),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of a measure."""

    days: int  #: Ordinary days that were judged.
    false: int  #: How many of them were far from the usual.
    gaps: int  #: Days of which a fifth of the rows was taken away.
    found: int  #: How many of these were far below the usual.
    little: int  #: Days with too little history.

    @property
    def of_thousand(self) -> float:
        return 1_000 * self.false / self.days

    @property
    def percent(self) -> float:
        return 100 * self.found / self.gaps


def tried(gate: Usual, counts: Mapping[date, int], first: date = FIRST, last: date = LAST) -> Found:
    """Judges every day of a measure, and the same day with a fifth of its rows taken away."""
    amounts = {day: {(): Decimal(count)} for day, count in counts.items()}
    far: dict[tuple[date, tuple[str | None, ...]], str] = {}
    total = {"days": 0, "false": 0, "gaps": 0, "found": 0, "little": 0}
    day = first - WARM_UP
    while day <= last:
        before = compared_with(gate, Grain.DAILY, (day,), ())
        known = {each: amounts[each] for each in before[day] if each in amounts}
        history = History(before=before, amounts=known, far=far, by_person={each for each, _ in far})

        def verdict(count: Decimal, day: date = day, history: History = history) -> tuple[Finding, str]:
            found = judged(gate, {day: {(): count}}, {}, history, is_count=True).verdicts[day]
            return found.finding, found.observed.get(FAR, "")

        finding, side = verdict(amounts[day][()])
        if side:
            far[day, ()] = side
        if day >= first:
            is_little = finding is Finding.LITTLE_HISTORY
            total["little"] += is_little
            total["days"] += not is_little
            total["false"] += bool(side)
            if not is_little and not side and counts[day]:
                total["gaps"] += 1
                total["found"] += verdict((amounts[day][()] * LEFT).to_integral_value())[1] == "low"
        day += timedelta(days=1)
    return Found(**total)


def events_of(folder: Path) -> pd.DataFrame:
    """The events with their local dates, in the order of each case."""
    columns = ["case_id", "event_id", "event_type", "event_time"]
    found = pd.read_parquet(folder / "events.parquet", columns=columns)
    local = found.event_time.dt.tz_convert(ZONE).dt.tz_localize(None).dt.normalize()
    return found.assign(day=local).sort_values(["case_id", "event_time", "event_id"])


def events_a_day(events: pd.DataFrame) -> Mapping[date, int]:
    """How many events each day has; a day without events is a day that was declared empty."""
    every = pd.date_range(events.day.min(), events.day.max())
    counted = events.groupby("day").size().reindex(every, fill_value=0)
    return {each.date(): int(count) for each, count in counted.items()}


def open_cases_a_day(events: pd.DataFrame, clocks: Sequence[Mapping[str, object]]) -> Mapping[date, int]:
    """How many rows the table of open cases has on each day: a clock of a case from its start to its last day."""
    every = pd.date_range(events.day.min(), events.day.max())
    numbered = events.assign(number=(events.day - every[0]).dt.days)
    changes = [0] * (len(every) + 400)
    for clock in clocks:
        for begin, end in spans(numbered, clock):
            changes[begin] += 1
            changes[end + 1] -= 1
    running, found = 0, {}
    for place, day in enumerate(every):
        running += changes[place]
        found[day.date()] = running
    return found


def spans(events: pd.DataFrame, clock: Mapping[str, object]) -> Iterator[tuple[int, int]]:
    """The first and the last day of each start of a clock. The last is that of its stop, the last that is tracked, or
    the day before its next start."""
    starts, stops = set(clock["starts_on"]), set(clock["stops_on"])  # type: ignore[call-overload]
    tracked = int(clock["tracked_days"])  # type: ignore[call-overload]
    chosen = events[events.event_type.isin(starts | stops)]
    for _, case in chosen.groupby("case_id", sort=False)[["event_type", "number"]]:
        kinds, numbers = case.event_type.tolist(), case.number.tolist()
        begun = [place for place, kind in enumerate(kinds) if kind in starts]
        for place, at in enumerate(begun):
            following = numbers[begun[place + 1]] if place + 1 < len(begun) else None
            stop = next((numbers[k] for k in range(at + 1, len(kinds)) if kinds[k] in stops), None)
            ends = [numbers[at] + tracked, *([stop] if stop is not None else [])]
            ends += [following - 1] if following is not None else []
            if min(ends) >= numbers[at]:
                yield numbers[at], min(ends)


def main() -> int:
    """Prints what was found of each case; 1 where a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the traffic fines")
    folder = parser.parse_args().folder
    events = events_of(folder)
    clocks = yaml.safe_load((folder / "reference" / "sla_policy.yaml").read_text(encoding="utf-8"))["clocks"]
    measures = {"events": events_a_day(events), "open cases": open_cases_a_day(events, clocks)}
    kept = True
    for case in CASES:
        found = tried(case.gate, measures[case.name])
        keeps = found.of_thousand <= case.most_false and found.percent >= case.least_found
        kept = kept and keeps
        said = f"{case.name}, {case.gate.against}, most={case.gate.most:g}"
        false = f"{found.of_thousand:.1f} false alarms in 1,000 of {found.days:,} days (at most {case.most_false:g})"
        gaps = f"{found.percent:.1f} % of {found.gaps:,} gaps found (at least {case.least_found:g})"
        little = f"{found.little:,} days with little history"
        print(f"{said}: {false}, {gaps}, {little}: {'kept' if keeps else 'NOT KEPT'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
