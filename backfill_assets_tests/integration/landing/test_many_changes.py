"""A long change feed that lands in pieces, in any order and twice: what a dictionary says that applied it in order.

A thorough run lands 200,000 changes of 20,000 keys in 50 files; `make test-long` 30,000 in 10, `make test` 3,000 in 2.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.domain.operations import is_current
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.imports import imports_for_days
from backfill_assets.ledger.imports import KeyCounts
from backfill_assets_tests.domains.orders import orders
from backfill_assets_tests.support.landing_examples import LandingRoom, json_lines, landing_room
from backfill_assets_tests.support.searches import is_thorough

START = datetime(2025, 1, 1, tzinfo=UTC)
DAYS = tuple(START.date() + timedelta(days=n) for n in range(150))


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the feed, a minute after the one before; a truncate has no key."""

    lsn: int
    op: str
    key: int | None
    day: int
    place: int

    @property
    def line(self) -> dict[str, object]:
        record: dict[str, object] = {
            "op": self.op,
            "lsn": self.lsn,
            "changed_at": (START + timedelta(minutes=self.lsn)).isoformat(),
        }
        if self.key is not None:
            record |= {"order_id": f"k{self.key}"}
        if self.op not in "dt":
            record |= {"ordered_at": f"{DAYS[self.day]}T09:00:00Z", "place": f"p{self.place}"}
        return record


def feed_of(chance: random.Random, many: int, keys: int) -> list[Change]:
    """So many changes in source order, of which one ends every key that there is by then."""
    feed = [
        Change(lsn, chance.choice("ccuuuudr"), chance.randrange(keys), chance.randrange(120), chance.randrange(9))
        for lsn in range(many)
    ]
    truncate = chance.randrange(many // 10, many // 2)
    feed[truncate] = Change(truncate, "t", None, 0, 0)
    return feed


def applied(feed: Iterable[Change]) -> tuple[dict[str, tuple[date, str]], KeyCounts]:
    """The day and the place of each key that exists, after a dictionary has applied the changes in their order."""
    orders: dict[str, tuple[date, str]] = {}
    known: set[str] = set()
    for change in sorted(feed, key=lambda change: change.lsn):
        if change.key is None:
            orders.clear()
            continue
        known.add(key := f"k{change.key}")
        if change.op == "d":
            orders.pop(key, None)
        else:
            orders[key] = (DAYS[change.day], f"p{change.place}")
    return orders, KeyCounts(current=len(orders), deleted=len(known) - len(orders))


def lines(file: Sequence[Change]) -> bytes:
    return json_lines(*(change.line for change in file))


def pieces(chance: random.Random, feed: Sequence[Change], files: int) -> list[bytes]:
    shuffled = list(feed)
    chance.shuffle(shuffled)
    return [lines(shuffled[number::files]) for number in range(files)]


def require_equal(room: LandingRoom, feed: Sequence[Change], *, duplicates: int) -> None:
    """The current rows, the keys by state, and the counts of everything that has landed."""
    wanted, keys = applied(feed)
    with room.ledger.read() as reader:
        imports = imports_for_days(reader, room.source, DAYS)
        assert not [*reader.events.violations(), *reader.row_checks.violations()]
    rows = bronze_rows(room.spark, room.settings, room.source, imports=imports, days=DAYS).where(is_current())
    found = rows.select("order_id", "order_date", "place").collect()
    assert {row["order_id"]: (row["order_date"], row["place"]) for row in found} == wanted
    assert len(found) == len(wanted)
    counts = [record.counts for record in room.imports()]
    assert all(each.reconciles for each in counts)
    assert sum((record.keys for record in room.imports()), KeyCounts()) == keys
    assert sum(each.accepted for each in counts) == keys.ever
    assert sum(each.duplicate for each in counts) == duplicates
    assert sum(each.rejected for each in counts) == 0


@pytest.mark.long
@pytest.mark.parametrize("length", ["short", "long"])
def test_a_feed_in_pieces_in_any_order_and_twice_is_what_its_own_order_says(
    spark: SparkSession, settings: Settings, clock: Clock, length: str
) -> None:
    many, files = (3_000, 2) if length == "short" else (200_000, 50) if is_thorough() else (30_000, 10)
    chance = random.Random(many)
    feed = feed_of(chance, many, keys=many // 10)
    late = chance.sample([change for change in feed if change.key is not None], many // 100)
    usual = sorted(set(feed) - set(late), key=lambda change: change.lsn)
    with landing_room(spark, settings, clock, orders) as room:
        for number, content in enumerate(pieces(chance, usual, files)):
            room.land(content, f"part-{number}.jsonl")
            assert not room.land(content, f"again-{number}.jsonl").is_new
        require_equal(room, usual, duplicates=0)
        for number, content in enumerate(pieces(chance, usual, max(1, files // 10))):
            room.land(content, f"redelivered-{number}.jsonl")
        repeated = len(usual) - 1  # the truncate is of no key, so it supersedes itself
        require_equal(room, usual, duplicates=repeated)
        room.land(lines(late), "late.jsonl")
        require_equal(room, feed, duplicates=repeated)
