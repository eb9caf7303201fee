"""Processes whose clocks differ: instants of the ledger never run backwards, and what was seen at one is what the order
of events says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from backfill_assets.core.clock import LedgerClock
from backfill_assets.core.errors import Refused
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.ledger.events import CLOCK_AT
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.safeguards import USUAL_POLICY
from backfill_assets.report.trace import _seen_at
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import DAYS, TABLE, make_publishable, publish, roll_back
from backfill_assets_tests.support.searches import examples

TICK = timedelta(microseconds=1)
DAY = DAYS[0]


@dataclass
class SkewedClock:
    """A clock that is off by some time, which can change."""

    true: datetime = NOON
    off: timedelta = timedelta()

    def __call__(self) -> datetime:
        return self.true + self.off


@contextmanager
def opened(url: str, *clocks: SkewedClock, most_behind: timedelta = timedelta(days=1)) -> Iterator[list[Ledger]]:
    with ExitStack() as stack:
        ledgers = [Ledger.open(url, clock=clock, most_behind=most_behind) for clock in clocks]
        for each in ledgers:
            stack.callback(each.close)
        yield ledgers


def test_what_a_clock_that_is_behind_publishes_is_seen_after_what_was_published_before(ledger_url: str) -> None:
    right, behind = SkewedClock(), SkewedClock(off=timedelta(hours=-2))
    with opened(ledger_url, right, behind) as (first, second):
        make_publishable(first, "bf-1")
        publish(first, "bf-1", at=1)
        make_publishable(second, "bf-2")
        publish(second, "bf-2", at=2)
        with second.read() as tx:
            periods = tx.publications.periods(TABLE, DAY)
            assert [each.version for each in periods] == [1, 2]
            assert all(each.until is None or each.since <= each.until for each in periods)
            assert tx.now >= NOON
            seen = _seen_at(periods, NOON - timedelta(hours=1))
            assert seen is None
            last = tx.publications.last_landed(TABLE, tx.now)
            assert last is not None
            assert last.run_id == "bf-2"
            moved = [each for each in tx.events.entries() if CLOCK_AT in each.payload]
            assert {each.payload[CLOCK_AT] for each in moved} == {(NOON - timedelta(hours=2)).isoformat()}
            assert [each.at for each in tx.events.entries()] == sorted(each.at for each in tx.events.entries())
            assert not [*tx.events.violations(), *tx.row_checks.violations()]
        assert second.clock_behind >= timedelta(hours=2)


@pytest.mark.parametrize("seed", range(examples(25)))
def test_at_every_instant_that_version_was_seen_which_the_order_of_events_says(ledger_url: str, seed: int) -> None:
    chance = random.Random(seed)
    clocks = [SkewedClock(off=timedelta(minutes=chance.choice((-600, -90, -1, 0, 0, 1, 90)))) for _ in range(3)]
    told: list[tuple[datetime, int, str]] = []
    shown: list[tuple[datetime, str]] = []
    undoable: list[str] = []
    with opened(ledger_url, *clocks) as ledgers:

        def last_at(ledger: Ledger) -> datetime:
            with ledger.read() as tx:
                return max(each.at for each in tx.events.entries())

        for number in range(1, 8):
            for clock in clocks:
                clock.true += timedelta(seconds=chance.choice((0, 0, 1, 3000)))
                if chance.random() < 0.2:
                    clock.off = timedelta(minutes=chance.choice((-600, 0, 90)))
            actor = chance.choice(ledgers)
            if undoable and chance.random() < 0.3:
                roll_back(actor, undoable.pop(), at=number)
                told.append((last_at(actor), told[-2][1] if len(told) > 1 else 0, ""))
                undoable.clear()
            else:
                make_publishable(actor, f"bf-{number}")
                undoable.append(publish(actor, f"bf-{number}", at=number))
                with actor.read() as tx:
                    version = tx.versions.accepted(TABLE)[DAY].version
                told.append((last_at(actor), version, f"bf-{number}"))
            if chance.random() < 0.5:
                table = f"{TABLE}@{number}"
                with actor.write() as tx:
                    act = tx.acts.ask(
                        TableAct.CUT_OVER,
                        name=TABLE,
                        table=table,
                        policy=USUAL_POLICY,
                        waits=False,
                        by="Ann",
                        reason="r",
                    )
                    tx.acts.carry_out(act.act_id, by="Ann")
                shown.append((last_at(actor), table))
        with ledgers[0].read() as tx:
            entries = list(tx.events.entries())
            assert [each.at for each in entries] == sorted(each.at for each in entries)
            periods = tx.publications.periods(TABLE, DAY)
            assert all(a.until == b.since for a, b in pairwise(periods))
            for at in sorted({each.at + off for each in entries for off in (-TICK, timedelta(), TICK)}):
                seen, expected = _seen_at(periods, at), [version for then, version, _ in told if then <= at]
                assert (seen.version if seen else 0) == (expected[-1] if expected else 0), at
                landed, runs = tx.publications.last_landed(TABLE, at), [run for then, _, run in told if then <= at]
                assert (landed is None) is (not runs)
                assert landed is None or not runs[-1] or landed.run_id == runs[-1]
                tables = [table for then, table in shown if then <= at]
                assert tx.acts.shown(TABLE, at) == (tables[-1] if tables else TABLE)
                of_table = tx.acts.periods_shown(TABLE, tables[-1] if tables else TABLE)
                assert any((p.since is None or p.since <= at) and (p.until is None or at < p.until) for p in of_table)


def test_a_clock_that_is_more_than_a_day_away_writes_nothing_unless_settings_allow_it(ledger_url: str) -> None:
    right, ahead = SkewedClock(), SkewedClock(off=timedelta(days=1500))
    with opened(ledger_url, right, ahead) as (first, second):
        second.try_writing()  # taken back
        make_publishable(first, "bf-1")
        make_publishable(second, "bf-2")
        with first.read() as tx:
            head = tx.events.head()
        with pytest.raises(
            Refused, match=r"shows 2026-.* UTC, and the last event of the ledger, \d+ by .*: one of"
        ) as told:
            make_publishable(first, "bf-3")
        assert "BACKFILL_CLOCK_BEHIND_HOURS" in advised(told.value)
        with first.read() as tx:
            assert tx.events.head() == head
    with opened(ledger_url, right, most_behind=timedelta(days=2000)) as (allowed,):
        make_publishable(allowed, "bf-3")
        with allowed.read() as tx:
            assert next(iter(tx.events.entries(entity_id="bf-3"))).at >= ahead()
            assert not tx.events.violations()


def test_a_lease_of_a_process_whose_clock_is_behind_lasts_as_long_as_any(ledger_url: str) -> None:
    right, behind = SkewedClock(), SkewedClock(off=timedelta(hours=-3))
    terms = LeaseTerms(attempt="a", machine="m", length=timedelta(minutes=2))
    with opened(ledger_url, right, behind) as (first, second):
        make_publishable(first, "bf-1")
        with second.write() as tx:
            assert tx.turns.take("bronze.events", terms, holder="ann")
        right.true += timedelta(minutes=1)
        make_publishable(first, "bf-2")
        assert second.renew_lease("turn to land bronze.events", terms)
        with first.read() as tx:
            held = tx.leases.get("turn to land bronze.events")
            assert held is not None
            assert held.until_at >= right() + terms.length


def test_time_goes_on_from_what_was_recorded_until_the_clock_has_caught_up() -> None:
    elapsed, clock = [0.0], SkewedClock()
    present = LedgerClock(clock, lambda: elapsed[0])
    hour = timedelta(hours=1)
    assert present.present(None) == (NOON, NOON)
    assert present.present(NOON + hour) == (NOON + hour, NOON)
    elapsed[0], clock.true = 60.0, NOON + timedelta(seconds=60)
    assert present.present(NOON + hour) == (NOON + hour + timedelta(seconds=60), NOON + timedelta(seconds=60))
    clock.off = hour + TICK  # somebody set it right
    assert present.present(NOON + hour) == (clock(), clock())
    clock.off = timedelta()
    assert present.present(NOON) == (clock(), clock())
    assert present.behind == hour
