"""Whatever lands in whatever order, counts and bronze are what a plain-Python reading of the rules says they are.

Keys do not influence each other, so one example holds many keys: that is many histories for the price of one.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import ImportCounts
from backfill_assets_tests.support.landing_examples import LandingRoom, event, json_lines, landing_room
from backfill_assets_tests.support.searches import examples

FIRST = date(2024, 5, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(4))


@dataclass(frozen=True)
class Record:
    """One line of a file: a key's version, or, without a day, something that is rejected."""

    key: int
    day: int | None
    place: int

    @property
    def line(self) -> dict[str, object]:
        at = "never" if self.day is None else f"{DAYS[self.day]}T10:00:00Z"
        return event(f"k{self.key}", at, place=f"p{self.place}")


File = tuple[Record, ...]


@dataclass
class Oracle:
    """The rules, read plainly."""

    files: list[File] = field(default_factory=list)

    def versions(self) -> dict[int, list[tuple[int, int, Record]]]:
        found: dict[int, list[tuple[int, int, Record]]] = defaultdict(list)
        for arrival, file in enumerate(self.files):
            for row, record in enumerate(file):
                if record.day is not None:
                    found[record.key].append((arrival, row, record))
        return found

    def counts(self) -> list[ImportCounts]:
        fates: list[Counter[str]] = [Counter() for _ in self.files]
        for versions in self.versions().values():
            standing: int | None = None
            previous: Record | None = None
            for arrival, _, record in versions:
                if record == previous:
                    fates[arrival]["duplicate"] += 1
                else:
                    if standing is not None:
                        fates[standing]["superseded"] += 1
                    standing = arrival
                previous = record
            assert standing is not None
            fates[standing]["accepted"] += 1
        return [
            ImportCounts(landed=len(file), rejected=sum(record.day is None for record in file), **fate)
            for file, fate in zip(self.files, fates, strict=True)
        ]

    def bronze(self, days: Sequence[date]) -> list[tuple[str, date, str, int]]:
        latest = [deciding(versions) for versions in self.versions().values()]
        rows = [
            (f"k{record.key}", DAYS[record.day], f"p{record.place}", row + 1)
            for _, row, record in latest
            if record.day is not None and DAYS[record.day] in days
        ]
        return sorted(rows)


def deciding(versions: Sequence[tuple[int, int, Record]]) -> tuple[int, int, Record]:
    """The last version that does not repeat the one before it."""
    news = [
        each for before, each in zip([None, *versions], versions, strict=False) if not before or before[2] != each[2]
    ]
    return news[-1]


def some_file(chance: random.Random) -> File:
    """A file that touches two days only, so that building a day really has to find the other files it needs."""
    days = [*chance.sample(range(len(DAYS)), 2) * 2, None]
    return tuple(
        Record(key=chance.randrange(40), day=chance.choice(days), place=chance.randrange(2))
        for _ in range(chance.randint(20, 120))
    )


def check(room: LandingRoom, oracle: Oracle) -> None:
    found = [record.counts for record in room.imports()]
    assert found == oracle.counts()
    assert all(counts.reconciles for counts in found)
    assert sum(counts.accepted for counts in found) == len(oracle.versions())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(12)))
def test_counts_and_bronze_follow_from_the_order_of_arrival(
    spark: SparkSession, settings: Settings, clock: Clock, seed: int
) -> None:
    chance = random.Random(seed)
    landed = [some_file(chance) for _ in range(3)]
    with landing_room(spark, settings, clock) as room:
        oracle = Oracle()
        # A line of its own keeps two files from having the same content by chance.
        marked = [(*file, Record(100 + number, None, 0)) for number, file in enumerate(landed)]
        for file in marked:
            room.land(json_lines(*(record.line for record in file)))
            oracle.files.append(file)
            check(room, oracle)
        reprocessed, corrected = chance.sample(marked, 2)
        room.land(json_lines(*(record.line for record in reprocessed)), on_duplicate=OnDuplicate.REPROCESS)
        check(room, oracle)
        room.land(json_lines(*(record.line for record in corrected)), on_duplicate=OnDuplicate.CORRECT)
        oracle.files.append(corrected)
        check(room, oracle)
        # Each day is built from the imports of that day alone, as a load of one day does.
        rows = [row for day in DAYS for row in room.bronze([day])]
        found = sorted((row["event_id"], row["event_date"], row["place"], row["_row"]) for row in rows)
        assert found == oracle.bronze(DAYS)
        keys = [key for key, *_ in found]
        assert len(set(keys)) == len(keys)
