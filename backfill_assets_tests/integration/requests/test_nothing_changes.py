"""What would change nothing needs no approval: nothing is published, and what was found is recorded."""

from __future__ import annotations

import pytest

from backfill_assets.application.requests import Restatement, run_of
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.orchestration.launch import run_in_process
from backfill_assets.report.report import run_report, set_report
from backfill_assets.report.review import review_of, review_of_set
from backfill_assets.staleness.find import stale_partitions
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.month import CARNIVAL, FEBRUARY, TOTALS, planned_set, set_state
from backfill_assets_tests.support.orchestration_examples import EVERYTHING
from backfill_assets_tests.support.shop import RECENT, Shop, sale


def states(shop: Shop, set_id: str) -> list[RunState]:
    return [member.state for member in Restatement(shop.ws, set_id).runs]


def versions(shop: Shop) -> dict[str, int]:
    return {name: shop.ws.lake.open(name).version() for name in (RECENT, TOTALS)}


def stale(shop: Shop, table: str, days: DayRange) -> int:
    return sum(len(each.partitions) for each in operations.stale_tables(shop.ws, table=table, days=days))


@pytest.mark.long
def test_a_run_that_changes_nothing_is_verified_when_it_is_measured_and_needs_no_approval(published_shop: Shop) -> None:
    shop = published_shop
    version = shop.ws.lake.open(RECENT).version()
    run_id = shop.staged(shop.planned(version="0.9.0"))
    run = operations.run_named(shop.ws, run_id)
    assert (run.state, run.approval) == (RunState.VERIFIED, ApprovalState.DRAFT)
    assert shop.ws.lake.open(RECENT).version() == version
    found = run_report(shop.ws, run_id)
    assert found.run.next_step is None
    assert review_of(found).headline.startswith("Nothing changes, and no decision is needed")
    with pytest.raises(IllegalTransition, match="nothing left to approve"):
        operations.approve(shop.ws, run_id, by="ben")
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_the_assets_of_a_run_that_changes_nothing_end_without_a_failure(published_shop: Shop) -> None:
    shop = published_shop
    run_id = shop.planned(version="0.9.0")
    with open_record(shop.ws.settings) as instance:
        outcome = run_in_process(shop.ws, run_id, EVERYTHING, instance=instance, by="ana")
    assert (outcome.succeeded, outcome.error, run_of(shop.ws, run_id).state) == (True, None, RunState.VERIFIED)


def test_a_run_that_changes_a_row_waits_for_its_approval(published_shop: Shop) -> None:
    run_id = published_shop.staged(published_shop.planned(version="1.0.0"))
    assert operations.state_of(published_shop.ws, run_id) is RunState.PASSED


@pytest.mark.long
def test_a_set_that_changes_nothing_is_verified_as_a_whole_and_is_not_stale_any_more(month: Shop) -> None:
    shop, before = month, versions(month)
    # A sale of nothing: bronze has a row more, and no sum is another one.
    shop.land("nothing.jsonl", [sale(CARNIVAL, amount=0, sale_id="nothing")])
    assert stale(shop, RECENT, FEBRUARY) > 0
    set_id = planned_set(shop).manifest.set_id
    runs = [member.run_id for member in Restatement(shop.ws, set_id).runs]
    assert len(runs) == 2
    shop.staged(runs[0])
    assert states(shop, set_id) == [RunState.PASSED, RunState.PLANNED], "its set is not measured yet"
    shop.staged(runs[1])
    assert states(shop, set_id) == [RunState.VERIFIED, RunState.VERIFIED]
    assert set_state(shop, set_id) is SetState.VERIFIED
    assert versions(shop) == before
    assert stale(shop, RECENT, FEBRUARY) == stale(shop, TOTALS, FEBRUARY) == 0
    report = set_report(shop.ws, set_id)
    assert review_of_set(report).headline.startswith("Nothing changes, and no decision is needed")
    assert report.set.next_step is None
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_rows_that_were_found_equal_without_an_approval_count_for_staleness_and_not_as_an_approval(month: Shop) -> None:
    shop = month
    shop.land("nothing.jsonl", [sale(CARNIVAL, amount=0, sale_id="nothing")])
    run_id = shop.staged(shop.planned(FEBRUARY))
    assert operations.state_of(shop.ws, run_id) is RunState.VERIFIED
    table = shop.ws.domain.derived_table(RECENT)
    with shop.ws.ledger.read() as tx:
        assert len(stale_partitions(shop.ws, tx, table, tuple(FEBRUARY)).partitions) == 0
        assert len(stale_partitions(shop.ws, tx, table, tuple(FEBRUARY), agreed=True).partitions) > 0
        assert tx.versions.verified_unasked(RECENT, tuple(FEBRUARY)) == set(FEBRUARY), "late events wait for a person"
    shop.published(FEBRUARY)
    with shop.ws.ledger.read() as tx:
        assert tx.versions.verified_unasked(RECENT, tuple(FEBRUARY)) == set(), "somebody has agreed since"
