"""A change feed in any order of arrival: counts, keys and bronze are what a dictionary says that applied it in order.

Keys do not influence each other, except by truncates, so one example holds many keys.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.imports import ImportCounts, KeyCounts
from backfill_assets.ledger.states import ImportState
from backfill_assets_tests.domains.orders import orders
from backfill_assets_tests.support.landing_examples import LandingRoom, json_lines, landing_room
from backfill_assets_tests.support.searches import examples

FIRST = date(2024, 5, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(4))

BY_ARRIVAL = replace(orders, order=(), gates=())
NAMES = {"c": "create", "u": "update", "d": "delete", "r": "snapshot", "t": "truncate"}


@dataclass(frozen=True)
class Change:
    """One record of the feed. A delete has no day of its own: it belongs to the day on which it happened; `back` says
    by how many hours a change is dated back."""

    lsn: int
    op: str
    key: int | None = None
    day: int | None = None
    place: str | None = None
    back: int = 0

    @property
    def at(self) -> datetime:
        return datetime(2024, 5, 1, 10, tzinfo=UTC) + timedelta(hours=self.lsn - self.back)

    @property
    def on(self) -> date:
        return self.at.date() if self.day is None else DAYS[self.day]

    @property
    def line(self) -> dict[str, object]:
        found = {
            "op": self.op,
            "lsn": self.lsn,
            "changed_at": self.at.isoformat(),
            "order_id": None if self.key is None else f"k{self.key}",
            "ordered_at": None if self.day is None else f"{DAYS[self.day]}T09:00:00Z",
            "place": self.place,
        }
        return {name: value for name, value in found.items() if value is not None}


File = tuple[Change, ...]
Row = tuple[object, ...]


@dataclass
class Oracle:
    """The rules, read plainly: the files in the order in which they arrived."""

    by_arrival: bool = False
    files: list[File] = field(default_factory=list)

    def versions(
        self,
    ) -> tuple[dict[int, list[tuple[tuple[int, ...], int, Change]]], list[tuple[tuple[int, ...], Change]]]:
        found: dict[int, list[tuple[tuple[int, ...], int, Change]]] = {}
        truncates: list[tuple[tuple[int, ...], Change]] = []
        for arrival, file in enumerate(self.files):
            for row, change in enumerate(file):
                place = (arrival, row) if self.by_arrival else (change.lsn, int(change.op != "r"), arrival, row)
                if change.key is None:
                    truncates.append((place, change))
                else:
                    found.setdefault(change.key, []).append((place, arrival, change))
        return {key: sorted(each, key=lambda one: one[0]) for key, each in found.items()}, sorted(
            truncates, key=lambda one: one[0]
        )

    def told(self) -> tuple[list[ImportCounts], KeyCounts, list[Row]]:
        """Counts by file, keys by state, and the changelog: key, position, operation, from, until, ended by."""
        fates = [Counter({"landed": len(file)}) for file in self.files]
        states: Counter[str] = Counter()
        changelog: list[Row] = []
        versions, truncates = self.versions()
        for arrival, file in enumerate(self.files):
            fates[arrival]["superseded"] += sum(change.key is None for change in file)
        for key, of_key in versions.items():
            news: list[tuple[tuple[int, ...], int, Change]] = []
            for place, arrival, change in of_key:
                between = any(news and news[-1][0] < at < place for at, _ in truncates)
                if news and news[-1][2] == change and not between:
                    fates[arrival]["duplicate"] += 1
                    continue
                if news:
                    fates[news[-1][1]]["superseded"] += 1
                news.append((place, arrival, change))
            fates[news[-1][1]]["accepted"] += 1
            held = [
                each
                for each, after in zip(news, [*news[1:], None], strict=True)
                if after is None or self.by_arrival or after[2].lsn != each[2].lsn
            ]
            for number, ((place, _, change), after) in enumerate(zip(held, [*held[1:], None], strict=True)):
                ends = [(at, truncate) for at, truncate in truncates if at > place]
                enders = [*ends[:1], *([(after[0], after[2])] if after else [])]
                end = min(enders, key=lambda one: one[0])[1] if enders else None
                later = [one[2].at for one in held[number + 1 :]] + [truncate.at for _, truncate in ends]
                changelog.append(
                    (
                        f"k{key}",
                        change.lsn,
                        NAMES[change.op],
                        change.on,
                        change.at,
                        max(change.at, min(later)) if later else None,
                        end and NAMES[end.op],
                    )
                )
            last = changelog[-1]
            states["deleted" if last[2] == "delete" or last[6] else "current"] += 1
        return [ImportCounts(**counts) for counts in fates], KeyCounts(**states), changelog


def check(room: LandingRoom, oracle: Oracle) -> None:
    """Counts by file, keys, and bronze as a build of one day at a time finds it."""
    counts, keys, changelog = oracle.told()
    imports = [record for record in room.imports() if record.state is ImportState.LANDED]
    assert [record.counts for record in imports] == counts
    assert sum((record.keys for record in imports), KeyCounts()) == keys
    assert sum(record.counts.accepted for record in imports) == keys.ever
    rows = [row for day in DAYS for row in room.bronze([day])]
    found = [
        (
            r["order_id"],
            r["lsn"],
            r["_operation"],
            r["order_date"],
            *(utc(r[c]) for c in ("_valid_from", "_valid_until")),
        )
        + (r["_ended_by"],)
        for r in rows
    ]
    assert sorted(found, key=str) == sorted((row for row in changelog if row[3] in DAYS), key=str)
    current = [row for row in found if row[2] != "delete" and row[6] is None]
    assert len({row[0] for row in current}) == len(current)
    intervals: dict[object, list[tuple[Any, Any]]] = {}
    for row in found:
        intervals.setdefault(row[0], []).append((row[4], row[5] or datetime.max.replace(tzinfo=UTC)))
    for of_key in intervals.values():
        assert all(begins <= ends for begins, ends in of_key)
        lasting = sorted(each for each in of_key if each[0] < each[1])
        assert all(one[1] <= other[0] for one, other in pairwise(lasting))


def utc(at: datetime | None) -> datetime | None:
    return at and at.replace(tzinfo=UTC)


def some_changes(chance: random.Random, many: int, *, keys: int, truncates: int) -> list[Change]:
    """A feed in source order. Keys come back after deletes, move between days, and are observed by snapshots."""
    ops = "ccuuuudr"
    feed = []
    for lsn in range(1, many + 1):
        op = chance.choice(ops)
        key = chance.randrange(keys)
        if op == "d":
            feed.append(Change(lsn, op, key, chance.choice([None, chance.randrange(len(DAYS))])))
        else:
            feed.append(Change(lsn, op, key, chance.randrange(len(DAYS)), f"p{chance.randrange(3)}"))
        if op == "r" and chance.random() < 0.5:  # a change of the same position as the snapshot: it wins
            feed.append(Change(lsn, "u", key, chance.randrange(len(DAYS)), "change"))
    for lsn in chance.sample(range(1, many + 1), truncates):
        feed.append(Change(many + 1 + lsn if chance.random() < 0.3 else lsn, "t"))
    # A truncate has a position of its own.
    taken = {change.lsn for change in feed if change.op == "t"}
    return [change for change in feed if change.op == "t" or change.lsn not in taken]


def split(chance: random.Random, feed: Iterable[Change], files: int) -> list[File]:
    """The feed in random order of arrival, with some records delivered twice."""
    shuffled = list(feed)
    shuffled += chance.sample(shuffled, len(shuffled) // 10)
    chance.shuffle(shuffled)
    return [tuple(shuffled[n::files]) for n in range(files)]


def lines(file: Sequence[Change]) -> bytes:
    return json_lines(*(change.line for change in file))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(12)))
def test_a_feed_in_any_order_of_arrival_is_what_its_own_order_says(
    spark: SparkSession, settings: Settings, clock: Clock, seed: int
) -> None:
    chance = random.Random(seed)
    source, oracle = (BY_ARRIVAL, Oracle(by_arrival=True)) if seed % 4 == 3 else (orders, Oracle())
    files = split(chance, some_changes(chance, 160, keys=30, truncates=seed % 3), 3)
    with landing_room(spark, settings, clock, source) as room:
        for file in files:
            room.land(lines(file))
            oracle.files.append(file)
            check(room, oracle)
        room.land(lines(files[0]))  # the same content again: ignored
        check(room, oracle)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(12)))
def test_however_changes_are_dated_back_no_key_is_two_things_at_a_time(
    spark: SparkSession, settings: Settings, clock: Clock, seed: int
) -> None:
    chance = random.Random(seed)
    feed = some_changes(chance, 160, keys=25, truncates=seed % 3)
    dated = [replace(each, back=chance.choice((0, 0, 1, 3, 40, 160))) if each.op != "t" else each for each in feed]
    files, oracle = split(chance, dated, 3), Oracle()
    with landing_room(spark, settings, clock, orders) as room:
        for file in files:
            room.land(lines(file))
            oracle.files.append(file)
        check(room, oracle)


@pytest.mark.long
def test_a_truncate_that_is_delivered_twice_counts_once(spark: SparkSession, settings: Settings, clock: Clock) -> None:
    oracle = Oracle()
    created, truncate, after = Change(1, "c", 1, 0, "p"), Change(2, "t"), Change(3, "c", 2, 1, "p")
    with landing_room(spark, settings, clock, orders) as room:
        for file in ((created, truncate), (truncate, after), (truncate, truncate, Change(4, "u", 1, 0, "q"))):
            room.land(lines(file))
            oracle.files.append(file)
            check(room, oracle)
