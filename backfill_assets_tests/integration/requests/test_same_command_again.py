"""An act whose outcome nobody knows is repeated: the same command finds out how it ended, and goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from deltalake import DeltaTable

from backfill_assets.application.land import land_files
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition, NotApproved, OutcomeUnknown
from backfill_assets.files.port import StoreUnusable
from backfill_assets.lake.swap import SwapOrder
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.report.publications import RollbackDocument
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.month import CARNIVAL, FEBRUARY, TOTALS, planned_set, ready_set, set_state, total
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale

BEN = Acting(by="ben", recorder=Unrecorded())
EXPIRED = "the credentials have expired"
UNKNOWN = r"does not show whether it landed.*give the same command again.*backfill recover"

both_ways = pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])


@pytest.fixture
def shop(month: Shop) -> Shop:
    return month


@contextmanager
def unknown_at(table: str, *, landed: bool) -> Iterator[None]:
    """A commit to a table is answered with an error, whether the table took it or not, and its log cannot be asked."""
    commit: Callable[[DeltaTable, SwapOrder], None] = Seam.COMMIT.present

    def answer(handle: DeltaTable, order: SwapOrder) -> None:
        if order.table != table:
            commit(handle, order)
            return
        if landed:
            commit(handle, order)
        raise OSError(EXPIRED)

    def asked(_lake: Lake, _table: str, _publication_id: str) -> bool:
        # A lake in a store asks at once; in a folder nothing asks here.
        raise StoreUnusable(place="s3://lake", code="ExpiredToken", why=EXPIRED)

    with pytest.MonkeyPatch.context() as patch:
        Seam.COMMIT.put(patch, answer)
        Seam.IS_LANDED.put(patch, asked)
        with refused(OutcomeUnknown, match=UNKNOWN):
            yield


def all_is_well(shop: Shop) -> bool:
    with shop.ws.ledger.read() as tx:
        left = tx.publications.records(states=[PublicationState.PUBLISHING])
        orders = tx.publications.rollbacks_under_way()
    return not left and not orders and not audit(shop.ws).problems and operations.recover(shop.ws, by="ops") == ()


def first_run(shop: Shop, table: str) -> Restatement:
    with shop.ws.ledger.read() as tx:
        (run,) = tx.runs.records(table=table)
    return Restatement(shop.ws, run.run_id)


def state_of(shop: Shop, run: Restatement) -> RunState:
    (run_id,) = run.run_ids
    return operations.state_of(shop.ws, run_id)


def stopped(*_: object, **__: object) -> None:
    raise Stopped


def late_set(shop: Shop) -> str:
    shop.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    return ready_set(shop, planned_set(shop))


@both_ways
def test_a_publication_is_published_by_the_same_command(shop: Shop, landed: bool) -> None:
    run = Restatement(shop.ws, shop.ready(FEBRUARY, version="0.9.0"))
    with unknown_at(RECENT, landed=landed):
        run.publish(BEN)
    assert state_of(shop, run) is RunState.PUBLISHING
    run.publish(BEN)
    assert state_of(shop, run) is RunState.PUBLISHED
    assert all_is_well(shop)


@both_ways
@pytest.mark.parametrize("unknown", [TOTALS, RECENT])
def test_a_rollback_with_dependents_is_completed_by_the_same_command(shop: Shop, unknown: str, landed: bool) -> None:
    silver, gold = first_run(shop, RECENT), first_run(shop, TOTALS)
    with unknown_at(unknown, landed=landed):
        silver.rollback(BEN, reason="never right", with_dependents=True)
    silver.rollback(BEN, reason="never right", with_dependents=True)
    assert (state_of(shop, silver), state_of(shop, gold)) == (RunState.ROLLED_BACK, RunState.ROLLED_BACK)
    assert all_is_well(shop)


@pytest.mark.long
def test_a_rollback_whose_end_was_not_noted_is_ended_by_the_same_command(shop: Shop) -> None:
    silver = first_run(shop, RECENT)
    with pytest.MonkeyPatch.context() as patch, suppress(Stopped):
        Seam.END_ROLLBACK.put(patch, stopped)
        silver.rollback(BEN, reason="never right", with_dependents=True)
    again = silver.rollback(BEN, reason="never right", with_dependents=True)
    assert isinstance(again, RollbackDocument)
    assert again.publication.header.run_id == silver.run_ids[0]
    assert all_is_well(shop)


@both_ways
def test_a_rollback_is_done_by_the_same_command(shop: Shop, landed: bool) -> None:
    gold = first_run(shop, TOTALS)
    with unknown_at(TOTALS, landed=landed):
        gold.rollback(BEN, reason="second thoughts", with_dependents=False)
    gold.rollback(BEN, reason="second thoughts", with_dependents=False)
    assert state_of(shop, gold) is RunState.ROLLED_BACK
    assert all_is_well(shop)


@both_ways
@pytest.mark.parametrize("unknown", [RECENT, TOTALS])
def test_a_set_is_published_and_rolled_back_by_the_same_commands(shop: Shop, unknown: str, landed: bool) -> None:
    before = total(shop)
    set_id = late_set(shop)
    late = Restatement(shop.ws, set_id)
    with unknown_at(unknown, landed=landed):
        late.publish(BEN)
    late.publish(BEN)
    assert set_state(shop, set_id) is SetState.PUBLISHED
    assert total(shop) == before + 5 * 4
    with unknown_at(unknown, landed=landed):
        late.rollback(BEN, reason="second thoughts", with_dependents=False)
    late.rollback(BEN, reason="second thoughts", with_dependents=False)
    assert set_state(shop, set_id) is SetState.ROLLED_BACK
    assert total(shop) == before
    assert all_is_well(shop)


def test_what_has_not_landed_and_is_not_approved_any_more_is_not_published_by_the_same_command(shop: Shop) -> None:
    gold = first_run(shop, TOTALS)
    with unknown_at(TOTALS, landed=True):
        gold.rollback(BEN, reason="second thoughts", with_dependents=False)
    with refused(NotApproved, match="is not approved"):
        gold.publish(BEN)
    assert state_of(shop, gold) is RunState.ROLLED_BACK
    assert all_is_well(shop)


def test_a_publication_whose_process_may_be_at_work_is_waited_for(shop: Shop) -> None:
    run_id = shop.ready(FEBRUARY, version="0.9.0")
    with suppress(Stopped):
        Restatement(stopping_at(shop.ws, Point.SWAP_INTENDED), run_id).publish(BEN)
    with refused(IllegalTransition, match="is PUBLISHING.*backfill recover"):
        Restatement(shop.ws, run_id).publish(BEN)
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHING


@both_ways
def test_landed_days_are_built_by_the_same_command(shop: Shop, landed: bool) -> None:
    path = shop.folder / "late.jsonl"
    path.write_text(json.dumps(sale(CARNIVAL, amount=5, sale_id="late")) + "\n", encoding="utf-8")
    with unknown_at(SALES, landed=landed):
        land_files(shop.ws, SALES, [path], BEN, on_duplicate="ignore", builds=True)
    land_files(shop.ws, SALES, [path], BEN, on_duplicate="ignore", builds=True)
    rows = shop.ws.lake.open(SALES).to_pyarrow_table(columns=["sale_id"]).column("sale_id").to_pylist()
    assert "late" in rows
    assert all_is_well(shop)
