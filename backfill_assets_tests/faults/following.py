"""Operations around the outbox that are killed: dependents follow, and what they follow is taken back."""

from __future__ import annotations

from backfill_assets.ledger.states import UNPUBLISHED, RunState
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario, published
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.month import CARNIVAL, REACHED, TOTALS
from backfill_assets_tests.support.shop import Shop, sale


def _asked(shop: Shop) -> Notes:
    """A late sale is in silver, and nothing has followed."""
    shop.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    return {"run": shop.published(REACHED)}


def _planned(shop: Shop) -> Notes:
    """The month is planned and gated, and would be published next."""
    notes = _asked(shop)
    (run,) = operations.plan_follow_ups(shop.ws, by="follow").runs
    return {**notes, "month": shop.staged(run.run_id)}


def _follow(ws: Workspace, _: Notes) -> None:
    operations.plan_follow_ups(ws, by="follow")
    with ws.ledger.read() as reader:
        waiting = reader.outbox.unfinished_follow_ups(UNPUBLISHED)
    for run in waiting:
        published(Shop(ws=ws, folder=ws.settings.home), {"run": run.run_id})


def _followed(shop: Shop, _: Notes) -> None:
    """Follows until nothing is asked for; the month was computed once, and no run is left over."""
    _follow(shop.ws, {})
    _nothing_waits(shop, published_follow_ups=1)


def _regressed(shop: Shop, notes: Notes) -> None:
    """Silver is rolled back, and with it goes what would have followed."""
    if operations.state_of(shop.ws, notes["run"]) is RunState.PUBLISHED:
        operations.rollback(shop.ws, notes["run"], by="ben", reason="was right before")
    _follow(shop.ws, {})
    _nothing_waits(shop, published_follow_ups=0)
    assert operations.state_of(shop.ws, notes["month"]) is RunState.CANCELLED


def _nothing_waits(shop: Shop, *, published_follow_ups: int) -> None:
    operations.plan_follow_ups(shop.ws, by="follow")
    assert operations.asked_follow_ups(shop.ws) == ()
    with shop.ws.ledger.read() as reader:
        assert reader.outbox.entries(open_only=True) == ()
        assert reader.outbox.unfinished_follow_ups(UNPUBLISHED) == ()
        followed = [run for run in reader.runs.records(table=TOTALS) if run.manifest.cause.kind is CauseKind.FOLLOW_UP]
    states = [run.state for run in followed]
    assert states.count(RunState.PUBLISHED) == published_follow_ups, states
    assert set(states) <= {RunState.PUBLISHED, RunState.CANCELLED}, states


FOLLOWING = (
    Scenario(name="follow", home="month", prepare=_asked, act=_follow, finish=_followed, needs_spark=True),
    Scenario(
        name="roll back what is being followed",
        home="month",
        prepare=_planned,
        act=lambda ws, notes: operations.rollback(ws, notes["run"], by="ben", reason="was right before"),
        finish=_regressed,
    ),
)
