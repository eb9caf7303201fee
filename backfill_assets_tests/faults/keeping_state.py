"""Which operations on a table that keeps state are killed?

The largest sale until the end of every day. A late sale restates a chain of snapshots: the first ones change, one is
computed and found equal, and those after it stand as they are accepted. Snapshots expire and come back.
"""

from __future__ import annotations

from datetime import date

from backfill_assets.application.plan import plan_expiry
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.ledger.states import RunState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario, published
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import DAYS, RECENT, Shop, sale

LARGEST = date(2026, 1, 5)
LATE = date(2026, 1, 3)
CHAIN = DayRange.inclusive(LATE, date(2026, 1, 7))
"""Two snapshots that change, one that is found equal, and two that are not computed."""


def stock_peaks(shop: Shop) -> None:
    """Every snapshot of January, of which that of the fifth has the largest sale."""
    shop.land("january.jsonl", [sale(day, amount=100 if day == LARGEST else 10) for day in DAYS])
    shop.published(DAYS)


def _late(shop: Shop) -> Notes:
    """A late sale, and an approved run over the snapshots that it makes stale."""
    shop.land("late.jsonl", [sale(LATE, amount=50, sale_id="late")])
    run_id = shop.planned(CHAIN)
    with shop.ws.ledger.read() as tx:
        manifest = tx.runs.get(run_id).manifest
    assert manifest.base is not None
    assert manifest.base.partitions[-1].partition == date(2026, 1, 2)
    assert len(manifest.settled) == len(CHAIN) - 1
    operations.approve(shop.ws, run_id, by="ben")
    return {"run": run_id}


def _visible(shop: Shop) -> Notes:
    notes = _late(shop)
    _restate(shop.ws, notes)
    return notes


def _restate(ws: Workspace, notes: Notes) -> None:
    """From the plan to the publication in one process."""
    operations.stage(ws, notes["run"], actor="ana")
    operations.gate(ws, notes["run"], actor="ana")
    operations.publish(ws, notes["run"], by="ben")


def _roll_back(ws: Workspace, notes: Notes) -> None:
    operations.rollback(ws, notes["run"], by="ben", reason="was right before")


def _brought_back(shop: Shop, notes: Notes) -> None:
    if operations.state_of(shop.ws, notes["run"]) is RunState.PUBLISHED:
        _roll_back(shop.ws, notes)


def _restated(shop: Shop, notes: Notes) -> None:
    """The chain is published, and holds what a cold start gives."""
    published(shop, notes)
    amounts = shop.amounts()
    cold = {day: 10 if day < LATE else 50 if day < LARGEST else 100 for day in DAYS}
    assert amounts == cold, f"readers of {RECENT} see {amounts}, and a cold start gives {cold}"


def _expiring(shop: Shop) -> Notes:
    """An approved run that lets all snapshots expire but those of the last four days."""
    run_id = plan_expiry(shop.ws, RECENT, reason="retention", by="ana").manifest.run_id
    operations.approve(shop.ws, run_id, by="ben")
    return {"run": run_id}


def _expired(shop: Shop) -> Notes:
    notes = _expiring(shop)
    _restate(shop.ws, notes)
    return notes


def _has_expired(shop: Shop, notes: Notes) -> None:
    """Readers see the snapshots that are kept, and the others are neither missing nor accepted."""
    published(shop, notes)
    assert set(shop.amounts()) == set(list(DAYS)[-4:]), f"readers of {RECENT} see {shop.amounts()}"
    with shop.ws.ledger.read() as tx:
        assert set(tx.versions.expired(RECENT)) == set(list(DAYS)[:-4])


def _is_back(shop: Shop, notes: Notes) -> None:
    _brought_back(shop, notes)
    assert set(shop.amounts()) == set(DAYS), f"readers of {RECENT} see {shop.amounts()}"


KEEPING_STATE = (
    Scenario(
        name="restate a chain of snapshots",
        home="peaks",
        prepare=_late,
        act=_restate,
        finish=_restated,
        needs_spark=True,
    ),
    Scenario(
        name="roll back a chain of snapshots", home="peaks", prepare=_visible, act=_roll_back, finish=_brought_back
    ),
    Scenario(name="let snapshots expire", home="peaks", prepare=_expiring, act=_restate, finish=_has_expired),
    Scenario(name="bring expired snapshots back", home="peaks", prepare=_expired, act=_roll_back, finish=_is_back),
)
