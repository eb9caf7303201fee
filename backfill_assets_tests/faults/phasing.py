"""A phase that is killed: the one before it stays, the one after it is not begun, and all of them can be completed."""

from __future__ import annotations

from datetime import date

from backfill_assets.application.plan import plan_phases
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.ledger.states import ApprovalState, SetState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import RECENT, Shop

DAYS = DayRange.inclusive(date(2026, 1, 4), date(2026, 1, 6))


def _one_of_three(shop: Shop) -> Notes:
    """A change of three days in three phases, of which the first is published."""
    request = PlanRequest(table=RECENT, days=DAYS, reason="the present release", by="ana")
    planned = plan_phases(shop.ws, request, AskedPhases(count=3, terms=Phases()))
    for member in planned.manifest.members:
        operations.stage(shop.ws, member.run_id, actor="ana")
        operations.gate(shop.ws, member.run_id, actor="ana")
    set_id = planned.manifest.set_id
    operations.approve(shop.ws, set_id, by="ben")
    operations.publish_set(shop.ws, set_id, by="ben")
    return {"set": set_id}


def _two_of_three(shop: Shop) -> Notes:
    notes = _one_of_three(shop)
    _publish(shop.ws, notes)
    with shop.ws.ledger.read() as tx:
        return {**notes, "run": tx.sets.get(notes["set"]).manifest.members[1].run_id}


def _publish(ws: Workspace, notes: Notes) -> None:
    operations.publish_set(ws, notes["set"], by="ben")


def _undo(ws: Workspace, notes: Notes) -> None:
    operations.rollback(ws, notes["run"], by="ben", reason="was right before")


def _completed(shop: Shop, notes: Notes) -> None:
    """Publishes what is left; what was undone is agreed to again."""
    while True:
        with shop.ws.ledger.read() as tx:
            record = tx.sets.get(notes["set"])
            runs = tx.runs.named(member.run_id for member in record.manifest.members)
        if record.state is SetState.PUBLISHED:
            return
        assert record.state is SetState.PARTLY_PUBLISHED, record.state
        if any(run.approval is ApprovalState.DRAFT for run in runs):
            operations.approve(shop.ws, notes["set"], by="ben")
        _publish(shop.ws, notes)


PHASING = (
    Scenario(name="publish a phase", home="published", prepare=_one_of_three, act=_publish, finish=_completed),
    Scenario(name="undo a phase", home="published", prepare=_two_of_three, act=_undo, finish=_completed),
)
