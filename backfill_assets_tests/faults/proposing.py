"""A proposal that is killed: the drafts from before are open, or the one that takes their place, and never both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from backfill_assets.application.propose import propose
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.states import OPEN_SETS, SetState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.month import CARNIVAL
from backfill_assets_tests.support.shop import Shop, sale


def _outdated_draft(shop: Shop) -> Notes:
    """A late sale is proposed, and a later one has changed another day of the same month."""
    shop.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    propose(shop.ws, by="propose")
    shop.land("later.jsonl", [sale(CARNIVAL + timedelta(days=4), amount=7, sale_id="later")])
    (draft,) = _open_sets(shop)
    return {"first": draft.set_id}


def _propose(ws: Workspace, _: Notes) -> None:
    propose(ws, by="propose")


def _published(shop: Shop, notes: Notes) -> None:
    """What is open is one draft; a last call makes it the newer one, which is published, and nothing is left."""
    opened = _open_sets(shop)
    assert len(opened) <= 1, [record.set_id for record in opened]
    report = propose(shop.ws, by="propose")
    for record in _open_sets(shop):
        assert record.set_id != notes["first"], "it was replaced"
        for member in record.manifest.members:
            operations.stage(shop.ws, member.run_id, actor="ana")
            operations.gate(shop.ws, member.run_id, actor="ana")
        operations.approve(shop.ws, record.set_id, by="ben")
        operations.publish_set(shop.ws, record.set_id, by="ben")
        report = propose(shop.ws, by="propose")
    assert (report.proposed, report.open, report.replaced, report.waiting) == ((), (), (), ())
    with shop.ws.ledger.read() as reader:
        states = [record.state for record in reader.sets.records()]
    assert states == [SetState.PUBLISHED, SetState.CANCELLED], states


def _open_sets(shop: Shop) -> Sequence[SetRecord]:
    with shop.ws.ledger.read() as reader:
        return reader.sets.records(states=OPEN_SETS)


PROPOSING = (Scenario(name="propose", home="month", prepare=_outdated_draft, act=_propose, finish=_published),)
