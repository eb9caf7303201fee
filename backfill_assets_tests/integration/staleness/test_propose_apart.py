"""What is proposed of sources that share no table, and of tables of which some have read the news already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.application.propose import propose, step_after_landing
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, SourceTable, TransformContext, derived_table
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.proposals import NewProposal
from backfill_assets.transforms.schemas import stored_schema
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains import by_worker
from backfill_assets_tests.support import hand_made, operations
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

SALES, FEES = by_worker.sales, replace(by_worker.sales, name="bronze.fees")
DAYS = (date(2026, 1, 1), date(2026, 1, 2))
AMOUNTS = count(10)


def _counted(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.groupBy("sold_on").agg(sf.count("*").alias("n")).select("sold_on", "n")


def _counts(name: str, source: object) -> object:
    declared = derived_table(
        name=name,
        inputs={"sales": source},  # type: ignore[dict-item]
        key=("sold_on",),
        partition=by_worker.days.partition,
        version="1.0.0",
        schema=by_worker.days.schema,
    )
    return declared(_counted)


DOMAIN = Domain(
    name="apart",
    package=by_worker.__name__,
    sources=(SALES, FEES),
    derived=(
        _counts("silver.days", SALES),
        _counts("silver.again", SALES),
        _counts("silver.paid", FEES),
    ),  # type: ignore[arg-type]
)


@pytest.fixture
def hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hand]:
    """All tables are published, and the first day of both sources has been loaded again with other rows since."""
    hand = Hand(
        ws=Workspace(
            settings=Settings.from_environment(shop_environment(tmp_path / "home")),
            domain=DOMAIN,
            clock=ticking_clock(datetime(2026, 3, 10, 12, tzinfo=UTC)),
        )
    )
    for table in DOMAIN.tables.values():
        monkeypatch.setitem(hand_made.COLUMN, table.name, "sold_on")
        hand.ws.lake.ensure(table.name, stored_schema(table), "sold_on")
    for source in (SALES, FEES):
        monkeypatch.setitem(hand_made.BESIDES, source.name, {"_import_id": ["imp-000001"]})
        loaded(hand, source, DAYS, amount=1)
    for table in DOMAIN.derived:
        published(hand, table.name, DayRange.inclusive(*DAYS))
    for source in (SALES, FEES):
        loaded(hand, source, DAYS[:1], amount=2)
    yield hand
    hand.ws.close()


def loaded(hand: Hand, source: SourceTable, days: tuple[date, ...], *, amount: int) -> None:
    run = operations.plan_load(hand.ws, source.name, partitions=days, by="ana", reason="late", empty=days)
    assert run is not None
    hand.stage(run.run_id, dict.fromkeys(days, amount))
    operations.approve(hand.ws, run.run_id, by="ben")
    operations.publish(hand.ws, run.run_id, by="ana")


def published(hand: Hand, table: str, days: DayRange) -> None:
    request = PlanRequest(table=table, days=days, reason="by hand", by="ana")
    run_id = operations.plan(hand.ws, request).manifest.run_id
    hand.stage(run_id, {day: next(AMOUNTS) for day in DAYS})
    operations.approve(hand.ws, run_id, by="ben")
    operations.publish(hand.ws, run_id, by="ana")


def published_set(hand: Hand, set_id: str) -> None:
    with hand.ws.ledger.read() as tx:
        members = tx.sets.get(set_id).manifest.members
    for member in members:
        hand.stage(member.run_id, {day: next(AMOUNTS) for day in DAYS})
    operations.approve(hand.ws, set_id, by="ben")
    operations.publish_set(hand.ws, set_id, by="ana")


def rebuilt(new: NewProposal) -> list[str]:
    return [each.table for each in new.rebuilds]


@pytest.mark.long
def test_sources_that_share_no_table_are_proposed_apart_and_one_is_decided_without_the_other(hand: Hand) -> None:
    would = propose(hand.ws, by="propose", dry_run=True).proposed
    fees, sales = propose(hand.ws, by="propose").proposed
    assert [(each.reason, each.rebuilds) for each in would] == [(each.reason, each.rebuilds) for each in (fees, sales)]
    assert (rebuilt(fees), rebuilt(sales)) == (["silver.paid"], ["silver.days", "silver.again"])
    assert ("bronze.sales" in fees.reason, "bronze.fees" in sales.reason) == (False, False)
    assert fees.set_id is not None and sales.set_id is not None
    published_set(hand, fees.set_id)
    # A newer file of one source replaces its draft only, and what is decided about the other stays.
    loaded(hand, SALES, DAYS[:1], amount=3)
    found = propose(hand.ws, by="propose")
    (newer,) = found.proposed
    assert (rebuilt(newer), [each.set_id for each in found.replaced]) == (
        ["silver.days", "silver.again"],
        [sales.set_id],
    )
    assert newer.set_id is not None
    published_set(hand, newer.set_id)
    last = propose(hand.ws, by="propose")
    assert (last.proposed, last.open, last.replaced, last.waiting) == ((), (), (), ())


@pytest.mark.long
def test_what_has_read_the_news_already_is_not_built_again(hand: Hand) -> None:
    """Ana publishes one table of the source by herself, before the proposal or after it."""
    _, sales = propose(hand.ws, by="propose").proposed
    published(hand, "silver.days", DayRange.inclusive(DAYS[0], DAYS[0]))
    found = propose(hand.ws, by="propose")
    (rest,) = found.proposed
    assert (rebuilt(rest), [each.set_id for each in found.replaced]) == (["silver.again"], [sales.set_id])
    published(hand, "silver.again", DayRange.inclusive(DAYS[0], DAYS[0]))
    ended = propose(hand.ws, by="propose")
    assert ended.proposed == ()
    assert [(each.set_id, each.why) for each in ended.replaced] == [(rest.set_id, "nothing remains to restate")]
    assert [each.record.manifest.because for each in ended.open] == ["bronze.fees 2026-01-01, 1 day"]


@pytest.mark.long
def test_advice_after_landing_is_about_the_source_that_was_landed(hand: Hand) -> None:
    assert step_after_landing(hand.ws, SALES.name) is not None
    assert len(propose(hand.ws, by="propose").proposed) == 2
    loaded(hand, FEES, DAYS[:1], amount=3)
    assert step_after_landing(hand.ws, SALES.name) is None
    assert step_after_landing(hand.ws, FEES.name) is not None
