"""Complete extracts of a source with a time zone: their days are those that clocks show there, and no other hour is
touched.

What the days are is said here by `zoneinfo` alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.landing.days import unexplained_days
from backfill_assets.landing.extract import Extract, LandedExtract, preview
from backfill_assets_tests.support.landing_examples import (
    EVENTS,
    LANDED_AT,
    LandingRoom,
    event,
    json_lines,
    land_foreseen,
    landing_room,
)
from backfill_assets_tests.support.searches import examples

AMSTERDAM = "Europe/Amsterdam"
ONE_DAY = timedelta(days=1)
CHANGES = {
    AMSTERDAM: (date(2024, 3, 31), date(2024, 10, 27)),
    "America/New_York": (date(2024, 3, 10), date(2024, 11, 3)),
    "America/Sao_Paulo": (date(2018, 11, 4), date(2018, 2, 17)),  # clocks change at midnight
    "Australia/Lord_Howe": (date(2024, 4, 7), date(2024, 10, 6)),  # by half an hour
    "Asia/Kathmandu": (date(2024, 5, 1),),
    "Pacific/Apia": (date(2011, 12, 30),),  # left out
    "Pacific/Kiritimati": (date(2024, 5, 1),),  # +14
    "Pacific/Pago_Pago": (date(2024, 5, 1),),  # -11
}

Opened = Callable[[str], AbstractContextManager[LandingRoom]]


@dataclass(frozen=True)
class Reading:
    """A record: what identifies it, when it was, and its value."""

    key: str
    at: datetime
    place: str

    @property
    def row(self) -> tuple[str, datetime, date, str]:
        """The row of bronze."""
        at = self.at.astimezone(UTC).replace(tzinfo=None)
        return self.key, at, at.date(), self.place

    def is_of(self, days: DayRange) -> bool:
        """Whether clocks in its zone show one of these days."""
        return self.at.date() in days

    @property
    def line(self) -> dict[str, object]:
        """As its source writes it: without an offset, unless that would be another instant."""
        local = self.at.replace(tzinfo=None)
        is_told = self.at.fold == 0 and self.at.replace(fold=1).utcoffset() == self.at.utcoffset()
        return event(self.key, (local if is_told else self.at).isoformat(), place=self.place)


def readings(zone: str, texts: Iterable[str]) -> list[Reading]:
    """Records whose keys are the local times of day at which they were."""
    return [Reading(text, datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)), "p0") for text in texts]


@pytest.fixture
def opened(spark: SparkSession, settings: Settings, clock: Clock) -> Opened:
    @contextmanager
    def of(zone: str) -> Iterator[LandingRoom]:
        with landing_room(spark, settings, clock, replace(EVENTS, timezone=zone)) as room:
            yield room.of("place")

    return of


def land(room: LandingRoom, records: Iterable[Reading]) -> None:
    room.land(json_lines(*(each.line for each in records)))


def extract(room: LandingRoom, records: Iterable[Reading], days: DayRange) -> LandedExtract:
    path = room.write(json_lines(*(each.line for each in records)), "extract.jsonl")
    return land_foreseen(room, [path], stated(days))[1]


def stated(days: DayRange) -> Extract:
    return Extract(days=days, where={}, reason="corrected", confirmed_by="bea")


def rows(room: LandingRoom, near: date) -> list[tuple[str, datetime, date, str]]:
    found = room.bronze([near + number * ONE_DAY for number in range(-9, 10)])
    return sorted((row["event_id"], row["event_time"], row["event_date"], row["place"]) for row in found)


@pytest.mark.long
def test_an_extract_of_a_local_day_withdraws_what_it_lacks_of_that_day_and_no_other_hour(opened: Opened) -> None:
    second = date(2026, 1, 2)
    landed = readings(
        AMSTERDAM,
        ["2026-01-01T23:59:59.999999", "2026-01-02T00:00", "2026-01-02T00:30", "2026-01-02T12:00"]
        + ["2026-01-02T23:59:59.999999", "2026-01-03T00:00", "2026-01-03T00:30", "2026-01-03T12:00"],
    )
    days = DayRange(second, second + ONE_DAY)
    with opened(AMSTERDAM) as room:
        land(room, landed)
        path = room.write(json_lines(landed[3].line), "extract.jsonl")
        seen = preview(room.work(), [FileCapture(path)], stated(days), now=LANDED_AT)
        assert (seen.keys, seen.current, seen.outside, seen.by_day) == (3, 4, 0, {second: 3})
        found = extract(room, landed[3:4], days)
        assert (found.withdrawn.keys, found.withdrawn.current) == (3, 4)
        assert "2026-01-02..2026-01-02 in Europe/Amsterdam" in found.statement.record.original_path
        assert rows(room, second) == sorted(each.row for each in (landed[0], landed[3], *landed[5:]))
        # A record of the hour after midnight UTC that is of the day before the extract's is none of its records.
        third = DayRange(second + ONE_DAY, second + 2 * ONE_DAY)
        path = room.write(json_lines(landed[4].line), "other.jsonl")
        elsewhere = preview(room.work(), [FileCapture(path)], stated(third), now=LANDED_AT)
        assert (elsewhere.outside, elsewhere.is_elsewhere) == (1, True)


@pytest.mark.long
def test_only_dates_that_are_wholly_of_the_extract_are_empty_by_it(opened: Opened) -> None:
    first = date(2025, 5, 1)
    with opened(AMSTERDAM) as room:
        extract(room, [], DayRange(first, first + 3 * ONE_DAY))
        near = [first + number * ONE_DAY for number in range(-2, 5)]
        with room.ledger.read() as tx:
            assert set(near) - set(unexplained_days(tx, room.source, near)) == {first, first + ONE_DAY}


@pytest.mark.long
@pytest.mark.parametrize(
    "zone", [AMSTERDAM, *(pytest.param(each, marks=pytest.mark.long) for each in CHANGES if each != AMSTERDAM)]
)
@pytest.mark.parametrize("seed", range(examples(12)))
def test_after_an_extract_bronze_is_that_of_a_home_which_saw_the_last_truth_alone(
    opened: Opened, zone: str, seed: int
) -> None:
    chance = random.Random(f"{zone} {seed}")
    near = chance.choice(CHANGES[zone])
    midnight = datetime(near.year, near.month, near.day, tzinfo=UTC)

    def some(records: int) -> dict[str, Reading]:
        # Mostly close to where days meet, in UTC or where the source is.
        found: dict[str, Reading] = {}
        for _ in range(records):
            at = midnight + timedelta(minutes=15 * chance.randrange(-4 * 50, 4 * 50))
            key = f"k{chance.randrange(80)}"
            found[key] = Reading(key, at.astimezone(ZoneInfo(zone)), f"p{chance.randrange(2)}")
        return found

    first = near + chance.randint(-1, 1) * ONE_DAY
    days = DayRange(first, first + chance.choice((1, 1, 2)) * ONE_DAY)
    before, offered = some(100), some(40)
    kept = {key: each for key, each in before.items() if not each.is_of(days)}
    truth = kept | offered
    with opened(zone) as room:
        land(room, before.values())
        found = extract(room, offered.values(), days)
        assert rows(room, near) == sorted(each.row for each in truth.values())
    gone = [key for key, each in before.items() if each.is_of(days) and key not in offered]
    assert found.withdrawn.keys == len(gone)
    assert found.withdrawn.current == sum(each.is_of(days) for each in before.values())
    assert found.withdrawn.outside == sum(not each.is_of(days) for each in offered.values())
