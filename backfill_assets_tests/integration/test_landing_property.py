"""Whatever lands in whatever order, counts and bronze are what a plain-Python reading of the rules says they are.

Keys do not influence each other, so one example holds many keys: that is many histories for the price of one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill_assets.clock import Clock
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.import_records import ImportCounts
from backfill_assets.settings import Settings
from backfill_assets_tests.landing_examples import LandingRoom, event, json_lines, landing_room
from backfill_assets_tests.ledgers import ledger_environment

FIRST = date(2024, 5, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(6))


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
        latest = [versions[-1] for versions in self.versions().values()]
        rows = [
            (f"k{record.key}", DAYS[record.day], f"p{record.place}", row + 1)
            for _, row, record in latest
            if record.day is not None and DAYS[record.day] in days
        ]
        return sorted(rows)


@st.composite
def some_file(draw: st.DrawFn) -> File:
    """A file that touches two days only, so that building a day really has to find the other files it needs."""
    two = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    day = st.sampled_from([*two, *two, None])
    record = st.builds(Record, key=st.integers(0, 19), day=day, place=st.integers(0, 1))
    return tuple(draw(st.lists(record, min_size=10, max_size=60)))


files = st.lists(some_file(), min_size=3, max_size=4)
steps = st.tuples(files, st.integers(0, 3), st.sampled_from([OnDuplicate.CORRECT, OnDuplicate.REPROCESS]))


def check(room: LandingRoom, oracle: Oracle) -> None:
    found = [record.counts for record in room.imports()]
    assert found == oracle.counts()
    assert all(counts.reconciles for counts in found)
    assert sum(counts.accepted for counts in found) == len(oracle.versions())


@hypothesis_settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each step of shrinking would be a dozen Spark jobs
    suppress_health_check=list(HealthCheck),
)
@given(steps=steps)
def test_counts_and_bronze_follow_from_the_order_of_arrival(
    spark: SparkSession, settings: Settings, clock: Clock, steps: tuple[list[File], int, OnDuplicate]
) -> None:
    landed, again, on_duplicate = steps
    with TemporaryDirectory() as home, landing_room(spark, replace_home(settings, Path(home)), clock) as room:
        oracle = Oracle()
        # A line of its own keeps two files from having the same content by chance.
        marked = [(*file, Record(100 + number, None, 0)) for number, file in enumerate(landed)]
        for file in marked:
            room.land(json_lines(*(record.line for record in file)))
            oracle.files.append(file)
            check(room, oracle)
        chosen = marked[again % len(marked)]
        room.land(json_lines(*(record.line for record in chosen)), on_duplicate=on_duplicate)
        if on_duplicate is OnDuplicate.CORRECT:
            oracle.files.append(chosen)
        check(room, oracle)
        # Each day is built from the imports of that day alone, as a load of one day does.
        rows = [row for day in DAYS for row in room.bronze([day])]
        found = sorted((row["event_id"], row["event_date"], row["place"], row["_row"]) for row in rows)
        assert found == oracle.bronze(DAYS)
        keys = [key for key, *_ in found]
        assert len(set(keys)) == len(keys)


def replace_home(settings: Settings, home: Path) -> Settings:
    there = Settings.from_environment({"BACKFILL_HOME": str(home), **ledger_environment(home)})
    return replace(settings, home=home, landing=there.landing, ledger_url=there.ledger_url)
